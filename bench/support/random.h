/* A small random number generator for the benchmark drivers.
 *
 * Every driver starts from a fixed seed, so each run, under each allocator,
 * asks for the same sizes in the same order. xorshift64 (Marsaglia 2003) costs
 * about a nanosecond: little beside the calls that are measured, and the same
 * for every allocator.
 */
#ifndef BENCH_RANDOM_H
#define BENCH_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state; /* never 0 */
};

#define RANDOM_SEED ((struct random){UINT64_C(0x9E3779B97F4A7C15)})

/* Another sequence for each thread or part of a driver: splitmix64 (Steele et al. 2014) spreads the
 * seeds far apart. */
static inline struct random random_of(uint64_t part) {
    uint64_t z = (part + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (struct random){(z ^ (z >> 31)) | 1};
}

static inline uint64_t random_next(struct random *random) {
    uint64_t x = random->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return random->state = x;
}

/* Maps 32 random bits to 0 .. limit - 1 by a multiplication: no division. */
static inline uint32_t random_scale(uint32_t bits, uint32_t limit) {
    return (uint32_t)(((uint64_t)bits * limit) >> 32);
}

/* Two independent numbers come out of one step: its halves. */
static inline uint32_t random_low(uint64_t bits) { return (uint32_t)bits; }

static inline uint32_t random_high(uint64_t bits) { return (uint32_t)(bits >> 32); }

#endif
