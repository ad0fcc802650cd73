/* Pointers into blocks, but not to their start. Small blocks are looked at when
 * they go home, large and huge ones at the call. */
#include "bugs.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static char *take(size_t size) {
    char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size < 4096 ? size : 4096);
    return block;
}

static char *take_announced(size_t size, size_t offset) {
    char *block = take(size);
    announce(block + offset);
    announce_block(block, malloc_usable_size(block));
    return hidden(block + offset);
}

static void free_inside_and_flush(size_t size, size_t offset) {
    free(take_announced(size, offset));
    flush_by_frees(size);
}

static void free_inside_tiny(void) { free_inside_and_flush(64, 16); }
static void free_inside_small(void) { free_inside_and_flush(1008, 512); }
static void free_inside_mid(void) { free_inside_and_flush(20000, 4096); }
static void free_inside_many_slabs(void) { free_inside_and_flush(200000, 128 * KIB); }
static void free_misaligned_tiny(void) { free_inside_and_flush(48, 1); }
static void free_misaligned_by_8(void) { free_inside_and_flush(64, 8); }
static void free_misaligned_mid(void) { free_inside_and_flush(20000, 4097); }

static void free_in_ending_thread(void *inside) { free(inside); }

static void free_inside_at_thread_end(void) {
    in_a_thread(free_in_ending_thread, take_announced(160, 32));
    process_trim();
}

static void free_misaligned_at_thread_end(void) {
    in_a_thread(free_in_ending_thread, take_announced(160, 4));
    process_trim();
}

static void free_inside_large_by_16(void) { free(take_announced(3 * MIB, 16)); }
static void free_inside_large_by_slab(void) { free(take_announced(3 * MIB, 64 * KIB)); }
static void free_inside_large_by_super(void) { free(take_announced(9 * MIB, 4 * MIB)); }
static void free_inside_large_last(void) { free(take_announced(3 * MIB, 3 * MIB - 16)); }
static void free_misaligned_large(void) { free(take_announced(3 * MIB, 8)); }

static void free_inside_huge_by_16(void) { free(take_announced(GIB + MIB, 16)); }
static void free_inside_huge_by_mib(void) { free(take_announced(GIB + MIB, MIB)); }
static void free_inside_huge_last(void) { free(take_announced(GIB + MIB, GIB + MIB - 4096)); }
static void free_misaligned_huge(void) { free(take_announced(GIB + MIB, 5)); }

static void realloc_inside_large(void) {
    void *volatile result = realloc(take_announced(3 * MIB, 64 * KIB), 100);
    (void)result;
}

static void realloc_inside_huge(void) {
    void *volatile result = realloc(take_announced(GIB + MIB, MIB), 2 * GIB);
    (void)result;
}

static void usable_size_inside_large(void) {
    volatile size_t result = malloc_usable_size(take_announced(3 * MIB, MIB));
    (void)result;
}

/* An aligned block may begin in the middle of what was taken for it; only its
 * own start is a block. */
static void free_behind_aligned_start(void) {
    char *block = aligned_alloc(4 * MIB, 3 * MIB);
    CHECK(block != NULL);
    announce(block + 128 * KIB);
    announce_block(block, malloc_usable_size(block));
    free(hidden(block + 128 * KIB));
}

const struct bug bugs_inside[] = {
    {"free-inside-tiny", free_inside_tiny},
    {"free-inside-small", free_inside_small},
    {"free-inside-mid", free_inside_mid},
    {"free-inside-many-slabs", free_inside_many_slabs},
    {"free-misaligned-tiny", free_misaligned_tiny},
    {"free-misaligned-by-8", free_misaligned_by_8},
    {"free-misaligned-mid", free_misaligned_mid},
    {"free-inside-at-thread-end", free_inside_at_thread_end},
    {"free-misaligned-at-thread-end", free_misaligned_at_thread_end},
    {"free-inside-large-by-16", free_inside_large_by_16},
    {"free-inside-large-by-slab", free_inside_large_by_slab},
    {"free-inside-large-by-super", free_inside_large_by_super},
    {"free-inside-large-last", free_inside_large_last},
    {"free-misaligned-large", free_misaligned_large},
    {"free-inside-huge-by-16", free_inside_huge_by_16},
    {"free-inside-huge-by-mib", free_inside_huge_by_mib},
    {"free-inside-huge-last", free_inside_huge_last},
    {"free-misaligned-huge", free_misaligned_huge},
    {"realloc-inside-large", realloc_inside_large},
    {"realloc-inside-huge", realloc_inside_huge},
    {"usable-size-inside-large", usable_size_inside_large},
    {"free-behind-aligned-start", free_behind_aligned_start},
    {NULL, NULL},
};
