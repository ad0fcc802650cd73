/* Blocks that are given back twice. A small one is seen when it goes home the
 * second time, a large one at the second call. */
#include "bugs.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static void *take_announced(size_t size) {
    char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size < 4096 ? size : 4096);
    announce(block);
    announce_block(block, malloc_usable_size(block));
    return hidden(block);
}

/* Neighbours stay, so that the slab does, too: of one that was given back nobody
 * knows any more what it was. */
static void free_twice_and_flush(size_t size) {
    for (size_t i = 0; i < 12; i++)
        CHECK(malloc(size) != NULL);
    void *block = take_announced(size);
    for (size_t i = 0; i < 12; i++)
        CHECK(malloc(size) != NULL);
    free(block);
    free(hidden(block));
    flush_by_frees(size);
}

static void twice_tiny(void) { free_twice_and_flush(16); }
static void twice_small(void) { free_twice_and_flush(200); }
static void twice_mid(void) { free_twice_and_flush(24000); }
static void twice_many_slabs(void) { free_twice_and_flush(300000); }

static void twice_with_others_between(void) {
    void *block = take_announced(64), *others[10];
    for (size_t i = 0; i < 10; i++)
        others[i] = malloc(64);
    free(block);
    for (size_t i = 0; i < 10; i++)
        free(others[i]);
    free(hidden(block));
    flush_by_frees(64);
}

static void free_in_thread(void *block) { free(block); }

static void free_two_times(void *block) {
    free(block);
    free(hidden(block));
}

static void twice_at_thread_end(void) {
    in_a_thread(free_two_times, take_announced(96));
    process_trim();
}

static void take_and_free_two_times(void *unused) {
    (void)unused;
    free_two_times(take_announced(96));
}

static void twice_in_ended_thread(void) {
    in_a_thread(take_and_free_two_times, NULL);
    process_trim();
}

static void twice_in_two_threads(void) {
    void *block = take_announced(96);
    in_a_thread(free_in_thread, block);
    in_a_thread(free_in_thread, hidden(block));
    process_trim();
}

/* The first free has gone home long ago, its slab lives on. */
static void twice_long_after(void) {
    enum { COUNT = 300 };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = malloc(112);
    void *block = take_announced(112);
    free(block);
    flush_by_frees(112);
    process_trim();
    free(hidden(block));
    for (size_t i = 0; i < COUNT; i++)
        free(blocks[i]);
    flush_by_frees(112);
}

static void twice_by_realloc_to_zero(void) {
    void *block = take_announced(64);
    void *volatile result = realloc(block, 0);
    CHECK(result == NULL);
    free(hidden(block));
    flush_by_frees(64);
}

static void twice_large(void) {
    void *block = take_announced(3 * MIB);
    free(block);
    free(hidden(block));
}

static void twice_largest(void) {
    void *block = take_announced(700 * MIB);
    free(block);
    free(hidden(block));
}

static void twice_large_after_trim(void) {
    void *block = take_announced(3 * MIB);
    free(block);
    process_trim();
    free(hidden(block));
}

static void twice_large_in_two_threads(void) {
    void *block = take_announced(5 * MIB);
    in_a_thread(free_in_thread, block);
    free(hidden(block));
}

static void twice_large_aligned(void) {
    void *block = aligned_alloc(4 * MIB, 2 * MIB);
    CHECK(block != NULL);
    announce(block);
    free(block);
    free(hidden(block));
}

static void twice_huge(void) {
    void *block = take_announced(GIB + MIB);
    free(block);
    free(hidden(block));
}

static void realloc_freed_large(void) {
    void *block = take_announced(3 * MIB);
    free(block);
    void *volatile result = realloc(hidden(block), 100);
    (void)result;
}

static void realloc_freed_huge(void) {
    void *block = take_announced(GIB + MIB);
    free(block);
    void *volatile result = realloc(hidden(block), 2 * GIB);
    (void)result;
}

static void usable_size_of_freed_large(void) {
    void *block = take_announced(3 * MIB);
    free(block);
    volatile size_t result = malloc_usable_size(hidden(block));
    (void)result;
}

/* realloc has moved the block; the program kept the old pointer. */
static void free_after_realloc_moved(void) {
    char *block = take_announced(2 * MIB);
    void *volatile wall = malloc(2 * MIB); /* so that it cannot grow in place */
    char *volatile moved = realloc(block, 40 * MIB);
    CHECK(moved != NULL && wall != NULL);
    if (moved != block)
        free(hidden(block));
    else
        check_failed(__FILE__, __LINE__, "the block moved");
}

const struct bug bugs_double[] = {
    {"twice-tiny", twice_tiny},
    {"twice-small", twice_small},
    {"twice-mid", twice_mid},
    {"twice-many-slabs", twice_many_slabs},
    {"twice-with-others-between", twice_with_others_between},
    {"twice-at-thread-end", twice_at_thread_end},
    {"twice-in-ended-thread", twice_in_ended_thread},
    {"twice-in-two-threads", twice_in_two_threads},
    {"twice-long-after", twice_long_after},
    {"twice-by-realloc-to-0", twice_by_realloc_to_zero},
    {"twice-large", twice_large},
    {"twice-largest", twice_largest},
    {"twice-large-after-trim", twice_large_after_trim},
    {"twice-large-in-two-threads", twice_large_in_two_threads},
    {"twice-large-aligned", twice_large_aligned},
    {"twice-huge", twice_huge},
    {"realloc-freed-large", realloc_freed_large},
    {"realloc-freed-huge", realloc_freed_huge},
    {"usable-size-of-freed-large", usable_size_of_freed_large},
    {"free-after-realloc-moved", free_after_realloc_moved},
    {NULL, NULL},
};
