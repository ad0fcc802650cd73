/* What all benchmark drivers share: the clock, memory outside the heap, the
 * checksum, and the one line of JSON that a driver prints.
 *
 * A driver is a program of one workload. It calls the plain malloc and free of
 * whatever library it was started with and knows no allocator by name. It
 *   - starts from a fixed seed,
 *   - writes into every block that it takes and reads it again before it gives
 *     it back, summing what it read: the checksum is made of sizes and contents
 *     and never of addresses, so it is the same under every allocator that
 *     keeps its blocks apart,
 *   - keeps its own tables outside the heap (mmap), so that only the measured
 *     blocks meet the allocator,
 *   - warms up before it starts the clock,
 *   - does a fixed number of operations, not as many as fit into a time; with
 *     threads, each does its own number, and what is summed does not depend on
 *     which of them came first.
 *
 * Compiled with -fno-builtin: a compiler that knows malloc may remove a pair of
 * malloc and free altogether.
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* A figure beside time and peak memory, such as "average_rss_bytes". The lab knows each name and
 * its unit (lab/hakmem_lab/metrics.py). */
struct driver_metric {
    const char *name;
    double value;
};

enum { DRIVER_METRICS = 8 };

struct driver_result {
    const char *benchmark;
    uint64_t ops;      /* steps between the two readings of the clock, of all threads together */
    uint64_t start_ns; /* driver_now_ns() before the first: driver_start() */
    uint64_t end_ns;   /* and after the last: driver_stop() */
    uint64_t cpu_ns;   /* processor time of all threads between the two; 0: not measured */
    uint64_t checksum;
    uint64_t peak_rss_bytes; /* 0: this process's own */
    uint32_t metric_count;
    struct driver_metric metrics[DRIVER_METRICS];
};

/* Monotonic clock. */
uint64_t driver_now_ns(void);

/* Read both clocks, before the first measured step and after the last. */
void driver_start(struct driver_result *result);
void driver_stop(struct driver_result *result);

/* How many steps to measure: `usual`, or an n-th of it where BENCH_DIVIDE=n asks for a short run.
 * The warm-up stays as it is, so that two lengths differ by measured steps alone. */
uint64_t driver_steps(uint64_t usual);

/* bytes of zeroed memory from mmap, already faulted in; never given back. */
void *driver_table(size_t bytes);

/* How much driver_table has given so far. */
uint64_t driver_tables_bytes(void);

void driver_add_metric(struct driver_result *result, const char *name, double value);

/* Prints the result and peak memory as one line of JSON on standard output. */
void driver_print(const struct driver_result *result);

/* Says on standard error what went wrong and ends the program with 1. */
_Noreturn void driver_fail(const char *message);

/* The decimal number text, which must lie in low .. high; ends the program if not. */
size_t driver_number(const char *text, size_t low, size_t high);

/* The same for the argument at a position, which may be left out. */
size_t driver_optional(int argc, char **argv, int position, size_t otherwise, size_t low,
                       size_t high);

static inline void *driver_check(void *block) {
    if (__builtin_expect(block == NULL, 0)) {
        driver_fail("out of memory");
    }
    return block;
}

/* Writes the first and the last word of a block of at least 8 bytes. */
static inline void driver_touch(void *block, size_t size_bytes, uint64_t word) {
    *(volatile uint64_t *)block = word;
    __builtin_memcpy((char *)block + size_bytes - sizeof word, &word, sizeof word);
}

static inline uint64_t driver_first_word(const void *block) {
    return *(const volatile uint64_t *)block;
}

static inline uint64_t driver_last_word(const void *block, size_t size_bytes) {
    uint64_t word;
    __builtin_memcpy(&word, (const char *)block + size_bytes - sizeof word, sizeof word);
    return word;
}

#endif
