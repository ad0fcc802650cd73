/* fragment [MIB]: a long life of blocks of mixed age, whose sizes shift.
 *
 * What a cache, a database or an editor is after a week. Of each four blocks
 * three are short-lived; the fourth replaces a long-lived one, at random, so that a few
 * blocks of every age stay for ever. From period to period programs do something
 * else: sizes move, up and down, between 16 bytes and 8 KiB. What the old sizes
 * left is full of holes that the new ones do not fit, unless the allocator gives
 * empty pages to other sizes and fills the fullest slabs first. One block in 4,096
 * is a buffer of 32 to 256 KiB.
 *
 * The heap holds MIB mebibytes of live blocks. Reported, in samples at fixed places:
 *
 *   average_rss_bytes   resident over all periods
 *   fragmentation       resident over live in the last quarter of them
 *   rss_after_bytes     resident when all but one block in twenty have been given back
 *
 * One operation is a malloc and a free.
 */
#include "heap.h"
#include "support/memory.h"

#include <stdbool.h>

enum {
    MIB = 64,
    PERIODS = 12,
    SAMPLES_A_PERIOD = 16,
    BYTES_A_SHORT_LIVED = 64 << 10,
    LARGE_ONE_IN = 4096,
    SIZE_OCTAVES = 4,
    STEPS_A_LONG_LIVED = 4,
    LEFT_ONE_IN = 20,
    SMALLEST_AVERAGE_BYTES = 64,
};

/* The smallest size of each period, as a power of two. */
static const uint32_t lowest[] = {4, 7, 5, 8, 6, 9};

struct life {
    struct heap heap; /* the long-lived */
    void **recent;    /* a ring of the short-lived */
    uint32_t recent_count;
    uint32_t next;
    uint64_t target_bytes;
};

static void step(struct life *life, uint32_t low) {
    struct heap *heap = &life->heap;
    uint64_t bits = random_next(&heap->random);
    uint64_t fate = random_next(&heap->random);
    bool large = random_scale(random_high(fate), LARGE_ONE_IN) == 0;
    uint32_t size_bytes = large ? blocks_size(bits, 15, 3) : blocks_size(bits, low, SIZE_OCTAVES);
    void *block = heap_take(heap, size_bytes, bits);
    if ((fate & (STEPS_A_LONG_LIVED - 1)) != 0) {
        void **place = &life->recent[life->next++ % life->recent_count];
        if (*place != NULL) {
            heap_give(heap, *place);
        }
        *place = block;
        return;
    }
    heap_keep(heap, block);
    if (heap->count == heap->limit) {
        heap_lose_one(heap);
    }
    heap_shrink(heap, life->target_bytes);
}

/* As many steps as put about target_bytes of new long-lived blocks into the heap. */
static void live(struct life *life, uint32_t period, struct memory_average *average) {
    uint32_t low = lowest[period % (sizeof lowest / sizeof *lowest)];
    uint64_t average_bytes =
        ((UINT64_C(1) << SIZE_OCTAVES) - 1) * (UINT64_C(3) << (low - 1)) / SIZE_OCTAVES;
    uint64_t steps = STEPS_A_LONG_LIVED * life->target_bytes / average_bytes / SAMPLES_A_PERIOD;
    for (uint32_t sample = 0; sample < SAMPLES_A_PERIOD; ++sample) {
        for (uint64_t i = 0; i < steps; ++i) {
            step(life, low);
        }
        memory_sample(average, life->heap.live_bytes);
    }
}

static uint64_t drain(struct life *life) {
    for (uint32_t i = 0; i < life->recent_count; ++i) {
        if (life->recent[i] != NULL) {
            heap_give(&life->heap, life->recent[i]);
        }
    }
    heap_shrink(&life->heap, life->target_bytes / LEFT_ONE_IN);
    uint64_t resident_bytes = memory_resident_bytes();
    heap_shrink(&life->heap, 0);
    return resident_bytes;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        driver_fail("usage: fragment [MIB]");
    }
    uint64_t target_bytes = driver_optional(argc, argv, 1, MIB, 1, 4096) << 20;
    struct life life = {
        .heap = heap_of((uint32_t)(target_bytes / SMALLEST_AVERAGE_BYTES)),
        .recent_count = (uint32_t)(target_bytes / BYTES_A_SHORT_LIVED),
        .target_bytes = target_bytes,
    };
    life.recent = driver_table(life.recent_count * sizeof *life.recent);
    struct memory_average average = {0};
    struct memory_average before_late = {0};
    live(&life, 0, &average); /* the heap fills: not yet its life */
    average = before_late;
    uint64_t warm_ops = life.heap.ops;

    struct driver_result result = {.benchmark = "fragment"};
    result.start_ns = driver_now_ns();
    for (uint32_t period = 1; period < PERIODS; ++period) {
        if (period == PERIODS - PERIODS / 4) {
            before_late = average;
        }
        live(&life, period, &average);
    }
    result.end_ns = driver_now_ns() - average.spent_ns;
    result.ops = life.heap.ops - warm_ops;

    struct memory_average late = memory_since(&average, &before_late);
    driver_add_metric(&result, "average_rss_bytes", memory_average_resident(&average));
    driver_add_metric(&result, "fragmentation", memory_fragmentation(&late));
    driver_add_metric(&result, "rss_after_bytes", (double)drain(&life));
    result.checksum = life.heap.sum;
    driver_print(&result);
    return 0;
}
