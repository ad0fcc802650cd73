/* The loop of random_mixed, mid_mixed and aligned_mixed: a table of live blocks;
 * each step gives one of them back, at random, and puts a new one in its place.
 *
 * The drivers differ in what they take: mixed_take_fn makes a block out of 64
 * random bits, which it writes into the block's first word. One operation is a
 * free and what takes its place. The step has no branch of its own that could
 * be mispredicted, so the difference between allocators is theirs.
 */
#ifndef BENCH_MIXED_H
#define BENCH_MIXED_H

#include "support/driver.h"
#include "support/random.h"

#include <stdlib.h>

typedef void *mixed_take_fn(uint64_t bits);

struct mixed {
    const char *name;
    uint32_t slots;
    uint64_t warm_steps;
    uint64_t steps;
};

static inline __attribute__((always_inline)) uint64_t mixed_run(void **table, uint32_t slots,
                                                                struct random *random,
                                                                uint64_t steps,
                                                                mixed_take_fn *take) {
    uint64_t sum = 0;
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t bits = random_next(random);
        void **slot = &table[random_scale(random_high(bits), slots)];
        sum += driver_first_word(*slot);
        free(*slot);
        *slot = take(bits);
    }
    return sum;
}

static inline __attribute__((always_inline)) int mixed_main(const struct mixed *mixed,
                                                            mixed_take_fn *take) {
    struct random random = RANDOM_SEED;
    void **table = driver_table(mixed->slots * sizeof *table);
    for (uint32_t i = 0; i < mixed->slots; i++) {
        table[i] = take(random_next(&random));
    }
    uint64_t sum = mixed_run(table, mixed->slots, &random, mixed->warm_steps, take);

    struct driver_result result = {.benchmark = mixed->name, .ops = driver_steps(mixed->steps)};
    driver_start(&result);
    sum += mixed_run(table, mixed->slots, &random, result.ops, take);
    driver_stop(&result);

    for (uint32_t i = 0; i < mixed->slots; i++) {
        sum += driver_first_word(table[i]);
        free(table[i]);
    }
    result.checksum = sum;
    driver_print(&result);
    return 0;
}

#endif
