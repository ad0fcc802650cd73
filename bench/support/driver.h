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
 *   - warms up before it starts the clock.
 *
 * Compiled with -fno-builtin: a compiler that knows malloc may remove a pair of
 * malloc and free altogether.
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <stddef.h>
#include <stdint.h>

struct driver_result {
    const char *benchmark;
    uint64_t ops;      /* steps between the two readings of the clock */
    uint64_t start_ns; /* driver_now_ns() before the first: driver_start() */
    uint64_t end_ns;   /* and after the last: driver_stop() */
    uint64_t cpu_ns;   /* processor time of all threads between the two; 0: not measured */
    uint64_t checksum;
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

/* Prints the result and peak memory as one line of JSON on standard output. */
void driver_print(const struct driver_result *result);

/* Says on standard error what went wrong and ends the program with 1. */
_Noreturn void driver_fail(const char *message);

/* The decimal number text, which must lie in low .. high; ends the program if not. */
size_t driver_number(const char *text, size_t low, size_t high);

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

#endif
