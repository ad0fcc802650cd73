/* The heap of `fragment` and `phases`: live blocks in a table, the sum of their sizes, and the two
 * things that happen to it: it grows, and it loses blocks at random.
 *
 * A block that is lost leaves its place in the table to the last one, so losing
 * one costs the same however many there are.
 */
#ifndef BENCH_HEAP_H
#define BENCH_HEAP_H

#include "support/blocks.h"

struct heap {
    void **blocks;
    uint32_t count;
    uint32_t limit;
    uint64_t live_bytes;
    uint64_t ops; /* blocks taken */
    uint64_t sum;
    struct random random;
};

static inline struct heap heap_of(uint32_t limit) {
    return (struct heap){
        .blocks = driver_table(limit * sizeof(void *)),
        .limit = limit,
        .random = RANDOM_SEED,
    };
}

static inline void *heap_take(struct heap *heap, uint32_t size_bytes, uint64_t bits) {
    heap->live_bytes += size_bytes;
    ++heap->ops;
    return blocks_take(size_bytes, bits);
}

static inline void heap_give(struct heap *heap, void *block) {
    heap->live_bytes -= blocks_bytes(block);
    heap->sum += blocks_give(block);
}

static inline void heap_keep(struct heap *heap, void *block) {
    heap->blocks[heap->count++] = block;
}

static inline void heap_lose_one(struct heap *heap) {
    uint32_t at = random_scale(random_high(random_next(&heap->random)), heap->count);
    heap_give(heap, heap->blocks[at]);
    heap->blocks[at] = heap->blocks[--heap->count];
}

/* Gives blocks back at random until no more than so many bytes are live. */
static inline void heap_shrink(struct heap *heap, uint64_t limit_bytes) {
    while (heap->count > 0 && heap->live_bytes > limit_bytes) {
        heap_lose_one(heap);
    }
}

#endif
