/* noise SECONDS: how quiet this machine is, for `hakmem doctor`.
 *
 * Half of the time it repeats one piece of work that always takes the same
 * number of instructions and touches no memory: times that differ are the
 * machine's doing (clock speed, other programs, the host of a virtual machine).
 * The other half it reads the clock as fast as it can: where two readings lie
 * far apart, something else had the processor.
 *
 * Prints one line of JSON:
 *   clock_ns         what a reading of the clock costs (vDSO, or a system call?)
 *   run_ns           how long each run of the work took
 *   watched_ns       how long the clock was watched
 *   interruptions, interrupted_ns, longest_ns
 *                    gaps of more than 5 microseconds: how many, together, longest
 */
#define _GNU_SOURCE
#include "support/driver.h"
#include "support/random.h"

#include <stdio.h>
#include <unistd.h>

enum {
    RUN_NS = 20000000, /* one run of the work, about */
    MAX_RUNS = 2000,
    MAX_SECONDS = 60,
    GAP_NS = 5000,
    CLOCK_READINGS = 100000,
    PROBE_STEPS = 1000000,
    LINE_BYTES = 1 << 16,
};

static uint64_t run_ns[MAX_RUNS];

static uint64_t time_work(uint64_t steps) {
    struct random random = RANDOM_SEED;
    uint64_t begin_ns = driver_now_ns();
    for (uint64_t i = 0; i < steps; ++i) {
        random_next(&random);
    }
    __asm__ volatile("" : : "r"(random.state)); /* the work is wanted */
    return driver_now_ns() - begin_ns;
}

static unsigned repeat_work(uint64_t half_ns) {
    time_work(PROBE_STEPS);
    uint64_t probe_ns = time_work(PROBE_STEPS) + 1;
    uint64_t steps = PROBE_STEPS * (uint64_t)RUN_NS / probe_ns + 1;
    uint64_t end_ns = driver_now_ns() + half_ns;
    unsigned runs = 0;
    while (runs < MAX_RUNS && (runs < 5 || driver_now_ns() < end_ns)) {
        run_ns[runs++] = time_work(steps);
    }
    return runs;
}

struct gaps {
    uint64_t watched_ns;
    uint64_t count;
    uint64_t total_ns;
    uint64_t longest_ns;
};

static struct gaps watch_clock(uint64_t half_ns) {
    struct gaps gaps = {0};
    uint64_t begin_ns = driver_now_ns();
    uint64_t last_ns = begin_ns;
    while (last_ns - begin_ns < half_ns) {
        uint64_t now_ns = driver_now_ns();
        uint64_t gap_ns = now_ns - last_ns;
        last_ns = now_ns;
        if (gap_ns > GAP_NS) {
            ++gaps.count;
            gaps.total_ns += gap_ns;
            gaps.longest_ns = gap_ns > gaps.longest_ns ? gap_ns : gaps.longest_ns;
        }
    }
    gaps.watched_ns = last_ns - begin_ns;
    return gaps;
}

static double clock_cost_ns(void) {
    uint64_t begin_ns = driver_now_ns();
    for (int i = 0; i < CLOCK_READINGS; ++i) {
        driver_now_ns();
    }
    return (double)(driver_now_ns() - begin_ns) / CLOCK_READINGS;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        driver_fail("usage: noise SECONDS");
    }
    uint64_t half_ns = driver_number(argv[1], 1, MAX_SECONDS) * UINT64_C(500000000);
    double clock_ns = clock_cost_ns();
    unsigned runs = repeat_work(half_ns);
    struct gaps gaps = watch_clock(half_ns);

    static char line[LINE_BYTES];
    int length =
        snprintf(line, sizeof line,
                 "{\"clock_ns\": %.1f, \"watched_ns\": %llu, \"interruptions\": %llu, "
                 "\"interrupted_ns\": %llu, \"longest_ns\": %llu, \"run_ns\": [",
                 clock_ns, (unsigned long long)gaps.watched_ns, (unsigned long long)gaps.count,
                 (unsigned long long)gaps.total_ns, (unsigned long long)gaps.longest_ns);
    for (unsigned i = 0; i < runs; ++i) {
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%llu", i ? ", " : "",
                           (unsigned long long)run_ns[i]);
    }
    length += snprintf(line + length, sizeof line - (size_t)length, "]}\n");
    if (write(STDOUT_FILENO, line, (size_t)length) != length) {
        driver_fail("cannot write the result");
    }
    return 0;
}
