/* pair_threads SIZE THREADS [STEPS]: what `pair` does, in each of so many threads at once.
 *
 * Nothing is shared between the threads but the allocator. What a step costs more
 * than in `pair` is its locks, its shared counters, or memory that it goes to the
 * kernel for. STEPS is the number of each thread; one operation is a malloc and its
 * free.
 */
#include "support/team.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 8000000, WARM_STEPS = 10000 };

struct work {
    size_t size_bytes;
    uint64_t steps;
};

static uint64_t repeat(size_t size_bytes, uint64_t steps) {
    uint64_t sum = 0;
    for (uint64_t step = 0; step < steps; ++step) {
        void *block = driver_check(malloc(size_bytes));
        driver_touch(block, size_bytes, step);
        sum += driver_first_word(block);
        free(block);
    }
    return sum;
}

static uint64_t warm(void *context, uint32_t member) {
    (void)member;
    const struct work *work = context;
    return repeat(work->size_bytes, WARM_STEPS);
}

static uint64_t run(void *context, uint32_t member) {
    (void)member;
    const struct work *work = context;
    return repeat(work->size_bytes, work->steps);
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) {
        driver_fail("usage: pair_threads SIZE THREADS [STEPS]");
    }
    struct work work = {.size_bytes = driver_number(argv[1], 16, (size_t)1 << 30)};
    uint32_t threads = (uint32_t)driver_number(argv[2], 1, TEAM_LARGEST);
    work.steps = driver_optional(argc, argv, 3, STEPS, 1, SIZE_MAX / 2 / threads);
    char name[64];
    snprintf(name, sizeof name, "pair_%zu_%u", work.size_bytes, threads);
    struct driver_result result = {.benchmark = name, .ops = work.steps * threads};
    struct team team = {.members = threads, .context = &work, .warm = warm, .run = run};
    team_measure(&team, &result);
    driver_print(&result);
    return 0;
}
