/* bulk_fifo, bulk_lifo, bulk_random [BLOCKS]: so many blocks of 48 bytes, two million if not
 * told, are taken, then all are given back, in an order that is the driver's name.
 *
 * What a compiler's syntax tree or a table of records does. It shows the way of
 * blocks in bulk, far beyond what a thread's cache holds: refill, flush, and how
 * the allocator finds a block's home when many pass in a row. A few thousand stay in
 * the processor's caches: what is left is the allocator's own work. The order of the
 * frees decides whether neighbours come home together. The first rounds, which
 * also fault the memory in, are not measured. One operation is a malloc and its
 * free.
 */
#ifndef BENCH_BULK_H
#define BENCH_BULK_H

#include "support/driver.h"
#include "support/random.h"

#include <stdlib.h>

enum { BULK_BLOCKS = 2000000, BULK_BLOCK_BYTES = 48, BULK_WARM_ROUNDS = 2 };

/* Fills an order of count blocks: order[i] is the one that is given back i-th. */
typedef void bulk_order(uint32_t *order, uint32_t count);

static uint64_t bulk_round(void **blocks, const uint32_t *order, uint32_t count, uint64_t tag) {
    for (uint32_t i = 0; i < count; i++) {
        blocks[i] = driver_check(malloc(BULK_BLOCK_BYTES));
        driver_touch(blocks[i], BULK_BLOCK_BYTES, tag + i);
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        void *block = blocks[order[i]];
        /* Weighted by its place, so that a block given back out of turn would show. */
        sum += driver_first_word(block) * (i | 1u);
        free(block);
    }
    return sum;
}

static int bulk_main(int argc, char **argv, const char *name, bulk_order *fill_order,
                     uint32_t rounds) {
    if (argc > 2) {
        driver_fail("one argument at most: BLOCKS");
    }
    uint32_t count = (uint32_t)driver_optional(argc, argv, 1, BULK_BLOCKS, 1, 1000000000);
    void **blocks = driver_table(count * sizeof *blocks);
    uint32_t *order = driver_table(count * sizeof *order);
    fill_order(order, count);

    uint64_t sum = 0;
    for (uint32_t round = 0; round < BULK_WARM_ROUNDS; round++) {
        sum += bulk_round(blocks, order, count, round);
    }
    /* As many blocks in all, however few live at a time. */
    uint64_t more_rounds = count < BULK_BLOCKS ? BULK_BLOCKS / count : 1;
    uint64_t measured = driver_steps(rounds * more_rounds);
    struct driver_result result = {.benchmark = name, .ops = measured * count};
    driver_start(&result);
    for (uint32_t round = 0; round < measured; round++) {
        sum += bulk_round(blocks, order, count, round);
    }
    driver_stop(&result);
    result.checksum = sum;
    driver_print(&result);
    return 0;
}

#endif
