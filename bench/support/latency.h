/* How long single calls take: a timer for a few nanoseconds and a histogram for
 * its readings, neither of which meets the allocator.
 *
 * Reading a clock costs about as much as a fast malloc, so a driver times one
 * call in many, chosen at random, and takes off what an empty pair of readings
 * costs. On x86-64 the readings are those of the processor's own counter,
 * fenced so that nothing of the call moves out of the pair; where that counter
 * does not tick evenly, and on other machines, clock_gettime.
 *
 * The histogram is logarithmic with 32 linear steps in each power of two (that
 * is HdrHistogram's layout): every value is kept to within 3 %, whether it is
 * 3 ns or 30 ms, in one fixed array. Values are in eighths of a nanosecond,
 * because a fast malloc is only a few ticks long:
 *
 *   value  0 1 2 ... 63 | 64 66 68 ... 126 | 128 132 136 ... 252 | ...
 *   bucket 0 1 2 ... 63 | 64 65 66 ...  95 |  96  97  98 ... 127 | ...
 */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    LATENCY_UNITS_PER_NS = 8,
    LATENCY_STEP_BITS = 5, /* 32 steps in a power of two */
    LATENCY_VALUE_BITS = 43,
    LATENCY_BUCKETS = (LATENCY_VALUE_BITS - LATENCY_STEP_BITS + 1) << LATENCY_STEP_BITS,
};

struct latency_histogram {
    uint64_t count[LATENCY_BUCKETS];
};

/* Written once by latency_start, read by all threads afterwards. */
struct latency_timer {
    double units_per_tick;
    uint64_t cost_ticks; /* of an empty pair of readings */
    bool uses_counter;   /* the processor's, not the kernel's clock */
};

extern struct latency_timer latency_timer;

/* Finds out how fast the timer ticks and what it costs; takes 20 ms. */
void latency_start(void);

/* Appends [bucket, count] pairs of the buckets in use to text, as JSON; returns the length. */
size_t latency_print(const struct latency_histogram *histogram, char *text, size_t bytes);

void latency_merge(struct latency_histogram *into, const struct latency_histogram *from);

static inline uint64_t latency_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
#include <x86intrin.h>

static inline uint64_t latency_begin(void) {
    if (!latency_timer.uses_counter) {
        return latency_clock_ns();
    }
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
}

static inline uint64_t latency_end(void) {
    if (!latency_timer.uses_counter) {
        return latency_clock_ns();
    }
    unsigned processor;
    uint64_t ticks = __rdtscp(&processor);
    _mm_lfence();
    return ticks;
}
#else
static inline uint64_t latency_begin(void) { return latency_clock_ns(); }
static inline uint64_t latency_end(void) { return latency_clock_ns(); }
#endif

static inline uint32_t latency_bucket(uint64_t value) {
    if (value < (UINT64_C(2) << LATENCY_STEP_BITS)) {
        return (uint32_t)value;
    }
    if (value >> LATENCY_VALUE_BITS != 0) {
        return LATENCY_BUCKETS - 1;
    }
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - LATENCY_STEP_BITS;
    return (shift << LATENCY_STEP_BITS) + (uint32_t)(value >> shift);
}

/* Notes one call that lasted from latency_begin() to latency_end(). */
static inline void latency_note(struct latency_histogram *histogram, uint64_t begin, uint64_t end) {
    uint64_t ticks = end - begin;
    ticks = ticks > latency_timer.cost_ticks ? ticks - latency_timer.cost_ticks : 0;
    ++histogram->count[latency_bucket((uint64_t)((double)ticks * latency_timer.units_per_tick))];
}

#endif
