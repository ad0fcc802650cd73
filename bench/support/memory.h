/* How much memory this process has, as the kernel counts it.
 *
 * Resident is Pss of /proc/self/smaps_rollup. The kernel walks the page tables
 * for it, so it is exact at the moment of the call; the cheaper counters of statm
 * and status are kept per processor and may be megabytes behind in a program of
 * many threads. Pages that are shared with other processes (libc's) count by
 * their share. Pages given back with MADV_FREE count until the kernel takes them:
 * until then no other program has them. The peak is VmHWM, which only the kernel
 * can know.
 *
 * The driver's own tables are subtracted from what is resident, as all their
 * pages always are. What remains beside the heap is the bare process, about
 * 1.5 MiB, the same for each allocator but for the size of its library.
 */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stdint.h>

uint64_t memory_resident_bytes(void);

/* VmHWM: the most that was ever resident. */
uint64_t memory_peak_resident_bytes(void);

/* What no other process shares: what one more process of this kind costs. */
uint64_t memory_private_bytes(void);

/* Resident and live memory over the life of a driver. Samples are taken at fixed places of the
 * work, so that a slow allocator does not change what is averaged. Starts as {0}. */
struct memory_average {
    uint64_t resident_sum;
    uint64_t live_sum;
    uint32_t samples;
    uint64_t spent_ns; /* by taking samples; not the allocator's time */
};

/* live_bytes: what the driver holds, by the sizes that it asked for. */
void memory_sample(struct memory_average *average, uint64_t live_bytes);

/* A sample that the driver has taken itself. */
void memory_add(struct memory_average *average, uint64_t resident_bytes, uint64_t live_bytes);

/* What was sampled after an earlier state of the same average. */
struct memory_average memory_since(const struct memory_average *average,
                                   const struct memory_average *earlier);

double memory_average_resident(const struct memory_average *average);

/* Resident over live: 1 would be no waste at all. */
double memory_fragmentation(const struct memory_average *average);

#endif
