/* Exact statistics: every call counted, per size class. Option stats=exact.
 *
 * Without it, figures derive from the batches that bins take and give (law 3),
 * which is exact for memory but says nothing of calls that bins served. */
#ifndef HAK_MODES_EXACT_H
#define HAK_MODES_EXACT_H

#include "cache/cache.h"

/* Calls since the start of the process, all threads, those that ended too. */
struct exact_totals {
    uint64_t takes[BIN_COUNT]; /* by size class; large and huge at BIN_LARGE */
    uint64_t gives[BIN_COUNT];
    uint64_t asked_bytes[BIN_COUNT]; /* sum of the sizes asked for */
};

bool exact_is_on(void);

/* Gives a thread its counters; false when out of memory. */
bool exact_begin(struct thread *thread);

/* Whether a thread has counters; the next two are for those that have. */
hak_inline bool exact_counts_thread(const struct thread *thread) {
    return atomic_load_explicit(&thread->counts, memory_order_relaxed) != NULL;
}

void exact_count_take(struct thread *thread, unsigned bin, size_t bytes);
void exact_count_give(struct thread *thread, unsigned bin);

void exact_sum(struct exact_totals *totals);

#endif
