/* Each memory error once, as a program makes it: some blocks, the error, and then ordinary work
 * that ends with all blocks freed. For test_errors.py, which makes a table of who sees what.
 *
 *   errors NAME
 *
 * "made" on standard output comes between the error and the work: who ends the process before it
 * has seen the error at once, who does so behind it has seen it later; "ended" comes if nobody has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>
#include <pthread.h>

#include "bugs.h"

void *hidden(const void *pointer) {
    __asm__ volatile("" : "+r"(pointer));
    return (void *)(uintptr_t)pointer;
}

enum { COUNT = 2000, SIZE = 96, VICTIM = COUNT / 2 };

static char *blocks[COUNT];

static void free_one(size_t i) {
    free(blocks[i]);
    blocks[i] = NULL;
}

static void *run_frees(void *block) {
    free(block);
    return NULL;
}

static void free_in_thread(void *block) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_frees, block) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void double_free(void) {
    char *block = hidden(blocks[VICTIM]);
    free_one(VICTIM);
    free(block);
}

static void double_free_delayed(void) {
    char *block = hidden(blocks[VICTIM]);
    free_one(VICTIM);
    for (size_t i = 0; i < 100; i++)
        free_one(i);
    free(block);
}

static void double_free_across_threads(void) {
    char *block = hidden(blocks[VICTIM]);
    free_one(VICTIM);
    free_in_thread(block);
}

static void double_free_after_realloc(void) {
    char *block = hidden(blocks[VICTIM]);
    blocks[VICTIM] = realloc(blocks[VICTIM], 5000);
    CHECK(blocks[VICTIM] != NULL && blocks[VICTIM] != block);
    free(block);
}

static void realloc_of_freed(void) {
    char *block = hidden(blocks[VICTIM]);
    free_one(VICTIM);
    blocks[VICTIM] = realloc(block, SIZE + 1);
}

static void free_inside(void) { free(hidden(blocks[VICTIM] + 32)); }

static void free_misaligned(void) { free(hidden(blocks[VICTIM] + 1)); }

static void free_stack(void) {
    char local[SIZE];
    free(hidden(local));
}

static void free_static(void) {
    static char place[SIZE];
    free(hidden(place));
}

/* Far from all blocks, near enough to be the heap's. */
static void free_no_block(void) {
    free(hidden((char *)((uintptr_t)blocks[VICTIM] & ~(uintptr_t)0xffffff) + (1 << 30)));
}

static void overflow_by_one(void) { *(volatile char *)hidden(blocks[VICTIM] + SIZE) ^= 1; }

static void underflow_by_one(void) { *(volatile char *)hidden(blocks[VICTIM] - 1) ^= 1; }

/* Before it lies what another slab has; the last of them, for before the first may be nothing. */
static void underflow_of_first(void) {
    enum { SLAB_BYTES = 64 * KIB };
    size_t first = 0;
    for (size_t i = 1; i < COUNT; i++) {
        if ((uintptr_t)blocks[i] % SLAB_BYTES <= (uintptr_t)blocks[first] % SLAB_BYTES)
            first = i;
    }
    *(volatile char *)hidden(blocks[first] - 1) ^= 1;
}

static void use_after_free_write(void) {
    volatile char *block = hidden(blocks[VICTIM]);
    free_one(VICTIM);
    block[SIZE / 2] ^= 1;
}

static void use_after_free_read(void) {
    volatile char *block = hidden(blocks[VICTIM]);
    free_one(VICTIM);
    (void)block[SIZE / 2];
}

static void *function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL);
    return found;
}

static void sized_free_mismatch(void) {
    void (*free_sized)(void *, size_t);
    *(void **)&free_sized = function("free_sized");
    free_sized(blocks[VICTIM], SIZE / 2);
    blocks[VICTIM] = NULL;
}

static void sized_delete_mismatch(void) {
    void (*delete_sized)(void *, size_t);
    *(void **)&delete_sized = function("_ZdlPvm");
    delete_sized(blocks[VICTIM], 2 * (size_t)SIZE);
    blocks[VICTIM] = NULL;
}

static void aligned_free_mismatch(void) {
    void (*free_aligned_sized)(void *, size_t, size_t);
    *(void **)&free_aligned_sized = function("free_aligned_sized");
    size_t i = VICTIM;
    while ((uintptr_t)blocks[i] % 4096 == 0) /* by chance it is aligned */
        i++;
    free_aligned_sized(blocks[i], 4096, SIZE);
    blocks[i] = NULL;
}

static void nothing(void) {}

static const struct bug errors[] = {
    {"double-free", double_free},
    {"double-free-delayed", double_free_delayed},
    {"double-free-across-threads", double_free_across_threads},
    {"double-free-after-realloc", double_free_after_realloc},
    {"realloc-of-freed", realloc_of_freed},
    {"free-inside", free_inside},
    {"free-misaligned", free_misaligned},
    {"free-stack", free_stack},
    {"free-static", free_static},
    {"free-no-block", free_no_block},
    {"overflow-by-one", overflow_by_one},
    {"underflow-by-one", underflow_by_one},
    {"underflow-of-first", underflow_of_first},
    {"use-after-free-write", use_after_free_write},
    {"use-after-free-read", use_after_free_read},
    {"sized-free-mismatch", sized_free_mismatch},
    {"sized-delete-mismatch", sized_delete_mismatch},
    {"aligned-free-mismatch", aligned_free_mismatch},
    {"nothing", nothing},
};

static void say(const char *word) {
    puts(word);
    fflush(stdout);
}

/* All blocks go home, and their memory is handed out again. */
static void work(void) {
    for (size_t i = 0; i < COUNT; i++)
        free_one(i);
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = malloc(SIZE);
            CHECK(blocks[i] != NULL);
            memset(blocks[i], 1, SIZE);
        }
        for (size_t i = 0; i < COUNT; i++)
            free_one(i);
    }
    process_trim(); /* what ended threads have left for the next ones, too */
}

int main(int argc, char **argv) {
    process_begin();
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; argc == 2 && i < sizeof errors / sizeof errors[0]; i++) {
        if (strcmp(argv[1], errors[i].name) != 0)
            continue;
        for (size_t j = 0; j < COUNT; j++) {
            blocks[j] = malloc(SIZE);
            CHECK(blocks[j] != NULL);
            memset(blocks[j], 1, SIZE);
        }
        errors[i].make();
        say("made");
        work();
        say("ended");
        return 0;
    }
    fprintf(stderr, "usage: %s NAME\n", argv[0]);
    return 2;
}
