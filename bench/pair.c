/* pair SIZE: takes a block of SIZE bytes and gives it back, again and again.
 *
 * The shortest life a block can have, and the commonest in real programs. The
 * block of the last step is the best one for the next, so this shows what the
 * two calls cost when nothing else is in the way. One operation is a malloc and
 * its free.
 */
#include "support/driver.h"
#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>

/* Large blocks may cost a system call a step; the clock should not run for minutes. */
enum { LARGE_BYTES = 32768, HUGE_BYTES = 524288 };

static uint64_t steps_for(size_t size_bytes) {
    if (size_bytes < LARGE_BYTES) {
        return 40000000;
    }
    return size_bytes < HUGE_BYTES ? 6000000 : 2000000;
}

static uint64_t run(size_t size_bytes, uint64_t steps) {
    uint64_t sum = 0;
    for (uint64_t step = 0; step < steps; step++) {
        void *block = driver_check(malloc(size_bytes));
        driver_touch(block, size_bytes, step);
        sum += driver_first_word(block);
        free(block);
    }
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        driver_fail("usage: pair SIZE");
    }
    size_t size_bytes = driver_number(argv[1], 16, (size_t)1 << 30);
    uint64_t steps = steps_for(size_bytes);
    char name[32];
    snprintf(name, sizeof name, "pair_%zu", size_bytes);

    run(size_bytes, steps / 20);
    struct driver_result result = {.benchmark = name, .ops = driver_steps(steps)};
    driver_start(&result);
    result.checksum = run(size_bytes, result.ops);
    driver_stop(&result);
    driver_print(&result);
    return 0;
}
