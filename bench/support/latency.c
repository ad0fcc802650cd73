/* The timer's calibration and the histogram's printed form; latency.h explains both. */
#define _GNU_SOURCE
#include "support/latency.h"

#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { CALIBRATION_NS = 20000000, COST_READINGS = 4001 };

struct latency_timer latency_timer;

/* The processor promises a counter that ticks evenly through all states of sleep and speed. */
static bool has_even_counter(void) {
#if defined(__x86_64__)
    enum { POWER_LEAF = 0x80000007, INVARIANT_TSC_BIT = 1 << 8 };
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx = 0;
    return __get_cpuid(POWER_LEAF, &eax, &ebx, &ecx, &edx) != 0 && (edx & INVARIANT_TSC_BIT) != 0;
#else
    return false;
#endif
}

/* The cheapest pair of readings: a dearer one was disturbed. */
static uint64_t cost_ticks(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < COST_READINGS; ++i) {
        uint64_t begin = latency_begin();
        uint64_t ticks = latency_end() - begin;
        least = ticks < least ? ticks : least;
    }
    return least;
}

static double ns_per_tick(void) {
    uint64_t begin_ns = latency_clock_ns();
    uint64_t begin = latency_begin();
    while (latency_clock_ns() - begin_ns < CALIBRATION_NS) {
    }
    uint64_t end = latency_end();
    return (double)(latency_clock_ns() - begin_ns) / (double)(end - begin);
}

void latency_start(void) {
    latency_timer.uses_counter = has_even_counter();
    latency_timer.units_per_tick = LATENCY_UNITS_PER_NS * ns_per_tick();
    latency_timer.cost_ticks = cost_ticks();
}

void latency_merge(struct latency_histogram *into, const struct latency_histogram *from) {
    for (int i = 0; i < LATENCY_BUCKETS; ++i) {
        into->count[i] += from->count[i];
    }
}

size_t latency_print(const struct latency_histogram *histogram, char *text, size_t bytes) {
    size_t length = 0;
    const char *separator = "[";
    for (int i = 0; i < LATENCY_BUCKETS && length < bytes; ++i) {
        if (histogram->count[i] != 0) {
            length += (size_t)snprintf(text + length, bytes - length, "%s[%d,%llu]", separator, i,
                                       (unsigned long long)histogram->count[i]);
            separator = ",";
        }
    }
    if (length < bytes) {
        length += (size_t)snprintf(text + length, bytes - length, "%s]", length == 0 ? "[" : "");
    }
    return length;
}
