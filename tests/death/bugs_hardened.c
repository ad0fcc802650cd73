/* What only hardened mode sees, or sees at the call: nothing here flushes a bin. */
#include "bugs.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static char *take(size_t size) {
    char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size < 4096 ? size : 4096);
    return block;
}

static char *take_announced(size_t size) {
    char *block = take(size);
    CHECK(malloc_usable_size(block) == size);
    announce(block);
    announce_block(block, size);
    return hidden(block);
}

/* --- freed twice ------------------------------------------------------------------- */

/* Neighbours keep the slab from going away: of one that was given back nobody knows any more
 * what it was. */
static void twice_at_once_of(size_t size) {
    for (size_t i = 0; i < 12; i++)
        take(size);
    void *block = take_announced(size);
    free(block);
    free(hidden(block));
}
static void twice_at_once_zero(void) { twice_at_once_of(0); }
static void twice_at_once_tiny(void) { twice_at_once_of(8); }
static void twice_at_once_small(void) { twice_at_once_of(100); }
static void twice_at_once_mid(void) { twice_at_once_of(30000); }
static void twice_at_once_class_max(void) { twice_at_once_of(1 * MIB - 8); }

static void twice_delayed(void) {
    enum { COUNT = 3000 };
    static void *others[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        others[i] = take(100);
    void *block = take_announced(100);
    free(block);
    for (size_t i = 0; i < COUNT; i += 2)
        free(others[i]);
    free(hidden(block));
}

static void free_it(void *block) { free(block); }

static void twice_here_then_there(void) {
    void *block = take_announced(100);
    free(block);
    in_a_thread(free_it, hidden(block));
}

static void twice_there_then_here(void) {
    void *block = take_announced(100);
    in_a_thread(free_it, block);
    free(hidden(block));
}

static void twice_after_realloc(void) {
    char *block = take_announced(100);
    char *volatile moved = realloc(block, 5000);
    CHECK(moved != NULL && moved != block);
    free(hidden(block));
}

static void realloc_freed(void) {
    char *block = take_announced(100);
    free(block);
    char *volatile moved = realloc(hidden(block), 120);
    (void)moved;
}

static void usable_size_of_freed(void) {
    char *block = take_announced(100);
    free(block);
    volatile size_t size = malloc_usable_size(hidden(block));
    (void)size;
}

/* --- not a block's start ------------------------------------------------------------- */

static void free_inside_at_once(void) {
    char *block = take(100);
    announce(block + 48);
    announce_block(block, 100);
    free(hidden(block + 48));
}

static void realloc_inside(void) {
    char *block = take(100);
    announce(block + 16);
    announce_block(block, 100);
    char *volatile moved = realloc(hidden(block + 16), 10);
    (void)moved;
}

static void free_misaligned_at_once(void) {
    char *block = take(100);
    announce(block + 4);
    announce_block(block, 100);
    free(hidden(block + 4));
}

/* --- written where it may not be ------------------------------------------------------ */

/* One byte in front of a block is the last of the one before it. */
static void underflow(void) {
    enum { COUNT = 512, SIZE = 100, ROOM = 112 };
    static char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = take(SIZE);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < COUNT; j++) {
            if (blocks[j] != blocks[i] + ROOM)
                continue;
            announce(blocks[i]);
            char *second = hidden(blocks[j]);
            second[-1] ^= 1;
            free(blocks[i]);
            return;
        }
    }
    check_failed(__FILE__, __LINE__, "two of the blocks are neighbours");
}

/* The first block that a slab hands out, of a class whose slabs have no others before them. */
static void underflow_of_first(size_t size) {
    enum { COUNT = 2000, SLAB_BYTES = 64 * KIB };
    char *first = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        char *block = take(size);
        if (first == NULL || (uintptr_t)block % SLAB_BYTES < (uintptr_t)first % SLAB_BYTES)
            first = block;
    }
    announce(first);
    announce_block(first, size);
    first = hidden(first);
    first[-1] ^= 1;
    free(first);
}
static void underflow_of_first_tiny(void) { underflow_of_first(8); }
static void underflow_of_first_small(void) { underflow_of_first(100); }
static void underflow_of_first_page(void) { underflow_of_first(4000); }

static void overflow_far(void) {
    char *block = take_announced(100);
    memset(hidden(block), 'x', 160);
    free(block);
}

static void overflow_seen_by_realloc(void) {
    char *block = take_announced(100);
    block[100] ^= 1;
    char *volatile moved = realloc(hidden(block), 90);
    (void)moved;
}

static void overflow_seen_in_another_thread(void) {
    char *block = take_announced(100);
    block[100] ^= 1;
    in_a_thread(free_it, block);
}

/* --- told wrongly ---------------------------------------------------------------------- */

typedef void sized_function(void *, size_t);
typedef void aligned_function(void *, size_t, size_t);

static sized_function *sized(const char *name) {
    sized_function *function = (sized_function *)dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL);
    return function;
}

static aligned_function *aligned(const char *name) {
    aligned_function *function = (aligned_function *)dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL);
    return function;
}

static void free_sized_too_large(void) { sized("free_sized")(take_announced(100), 101); }
static void free_sized_too_small(void) { sized("free_sized")(take_announced(100), 99); }
static void delete_sized_wrong(void) { sized("_ZdlPvm")(take_announced(100), 64); }
static void delete_array_sized_wrong(void) { sized("_ZdaPvm")(take_announced(3 * MIB), MIB); }
static void sdallocx_wrong(void) { aligned("sdallocx")(take_announced(100), 112, 0); }

static void free_aligned_sized_wrong_size(void) {
    char *block = aligned_alloc(64, 100);
    announce(block);
    announce_block(block, 100);
    aligned("free_aligned_sized")(hidden(block), 64, 128);
}

/* Not a multiple of 256: one of 16 bytes in a row of them is not. */
static char *take_unaligned(void) {
    char *block = take(20);
    while ((uintptr_t)block % 256 == 0)
        block = take(20);
    announce(block);
    return hidden(block);
}

static void free_aligned_sized_wrong_alignment(void) {
    aligned("free_aligned_sized")(take_unaligned(), 256, 20);
}
static void delete_aligned_wrong(void) { sized("_ZdlPvSt11align_val_t")(take_unaligned(), 256); }
static void delete_sized_aligned_wrong(void) {
    aligned("_ZdlPvmSt11align_val_t")(take_unaligned(), 20, 256);
}
static void sdallocx_wrong_alignment(void) { aligned("sdallocx")(take_unaligned(), 20, 8); }

/* --- written to after it was freed (hardened=2) ------------------------------------------ */

/* Until the block has been handed out again. */
static void take_and_free(size_t size) {
    for (size_t i = 0; i < 20000; i++)
        free(hidden(take(size)));
    enum { KEPT = 64 };
    for (size_t i = 0; i < KEPT; i++)
        take(size);
}

static void write_freed(size_t size, size_t offset) {
    for (size_t i = 0; i < 12; i++)
        take(size); /* so that the slab stays what it is */
    char *block = take_announced(size);
    free(block);
    char *stale = hidden(block);
    stale[offset] ^= 1;
    take_and_free(size);
}
static void write_freed_tiny(void) { write_freed(8, 3); }
static void write_freed_small(void) { write_freed(100, 99); }
static void write_freed_behind_its_end(void) { write_freed(100, 101); }
static void write_freed_page(void) { write_freed(4096, 2000); }
static void write_freed_mid(void) { write_freed(30000, 20000); }
static void write_freed_large_start(void) { write_freed(100000, 5); }
static void write_freed_large_end(void) { write_freed(100000, 99999); }

/* A large block of this size is the same one again. */
static void write_freed_span(void) {
    char *block = take_announced(3 * MIB / 2);
    free(block);
    ((char *)hidden(block))[100] ^= 1;
    for (size_t i = 0; i < 4; i++)
        take(3 * MIB / 2);
}

static void zero_freed_small(void) {
    char *block = take_announced(100);
    free(block);
    memset(hidden(block), 0, 100);
    take_and_free(100);
}

static void write_freed_by_realloc(void) {
    char *block = take_announced(100);
    char *volatile moved = realloc(block, 5000);
    CHECK(moved != NULL && moved != block);
    ((char *)hidden(block))[50] ^= 1;
    take_and_free(100);
}

static void write_freed_in_thread(void) {
    char *block = take_announced(100);
    in_a_thread(free_it, block);
    ((char *)hidden(block))[50] ^= 1;
    take_and_free(100);
}

const struct bug bugs_hardened[] = {
    {"twice-at-once-zero", twice_at_once_zero},
    {"twice-at-once-tiny", twice_at_once_tiny},
    {"twice-at-once-small", twice_at_once_small},
    {"twice-at-once-mid", twice_at_once_mid},
    {"twice-at-once-class-max", twice_at_once_class_max},
    {"twice-delayed", twice_delayed},
    {"twice-here-then-there", twice_here_then_there},
    {"twice-there-then-here", twice_there_then_here},
    {"twice-after-realloc", twice_after_realloc},
    {"realloc-freed", realloc_freed},
    {"usable-size-of-freed", usable_size_of_freed},
    {"free-inside-at-once", free_inside_at_once},
    {"realloc-inside", realloc_inside},
    {"free-misaligned-at-once", free_misaligned_at_once},
    {"underflow", underflow},
    {"underflow-of-first-tiny", underflow_of_first_tiny},
    {"underflow-of-first-small", underflow_of_first_small},
    {"underflow-of-first-page", underflow_of_first_page},
    {"overflow-far", overflow_far},
    {"overflow-seen-by-realloc", overflow_seen_by_realloc},
    {"overflow-seen-in-another-thread", overflow_seen_in_another_thread},
    {"free_sized-too-large", free_sized_too_large},
    {"free_sized-too-small", free_sized_too_small},
    {"delete-sized-wrong", delete_sized_wrong},
    {"delete-array-sized-wrong", delete_array_sized_wrong},
    {"sdallocx-wrong", sdallocx_wrong},
    {"free_aligned_sized-wrong-size", free_aligned_sized_wrong_size},
    {"free_aligned_sized-wrong-alignment", free_aligned_sized_wrong_alignment},
    {"delete-aligned-wrong", delete_aligned_wrong},
    {"delete-sized-aligned-wrong", delete_sized_aligned_wrong},
    {"sdallocx-wrong-alignment", sdallocx_wrong_alignment},
    {"write-freed-tiny", write_freed_tiny},
    {"write-freed-small", write_freed_small},
    {"write-freed-behind-its-end", write_freed_behind_its_end},
    {"write-freed-page", write_freed_page},
    {"write-freed-mid", write_freed_mid},
    {"write-freed-large-start", write_freed_large_start},
    {"write-freed-large-end", write_freed_large_end},
    {"write-freed-span", write_freed_span},
    {"zero-freed-small", zero_freed_small},
    {"write-freed-by-realloc", write_freed_by_realloc},
    {"write-freed-in-thread", write_freed_in_thread},
    {NULL, NULL},
};
