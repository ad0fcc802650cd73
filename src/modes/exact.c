/* Each watched thread counts for itself, so counting shares nothing; whoever
 * wants the totals adds the threads up. The counters stay with the thread
 * structure when its thread ends, and the next thread counts on. */
#include "modes/exact.h"

#include "os/metadata.h"
#include "os/options.h"

/* Written by their thread alone, read by exact_sum: relaxed, so that a sum may
 * miss the latest calls but never sees half a number. */
struct exact_counts {
    struct {
        _Atomic uint64_t takes;
        _Atomic uint64_t gives;
        _Atomic uint64_t asked_bytes;
    } bins[BIN_COUNT];
};

bool exact_is_on(void) {
    return hak_options.stats == STATS_EXACT || hak_options.stats == STATS_EXACT_JSON;
}

static struct exact_counts *counts_of(const struct thread *thread) {
    return atomic_load_explicit(&thread->counts, memory_order_acquire);
}

bool exact_begin(struct thread *thread) {
    if (counts_of(thread) == NULL) {
        struct exact_counts *counts = os_metadata_take(sizeof *counts);
        /* Pairs with the acquire of an exact_sum: the counters are zero. */
        atomic_store_explicit(&thread->counts, counts, memory_order_release);
    }
    return counts_of(thread) != NULL;
}

static void add(_Atomic uint64_t *counter, uint64_t amount) {
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + amount, memory_order_relaxed);
}

void exact_count_take(struct thread *thread, unsigned bin, size_t bytes) {
    add(&counts_of(thread)->bins[bin].takes, 1);
    add(&counts_of(thread)->bins[bin].asked_bytes, bytes);
}

void exact_count_give(struct thread *thread, unsigned bin) {
    add(&counts_of(thread)->bins[bin].gives, 1);
}

static uint64_t read(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_thread(const struct thread *thread, void *context) {
    struct exact_totals *totals = context;
    const struct exact_counts *counts = counts_of(thread);
    if (counts == NULL)
        return;
    for (unsigned b = 0; b < BIN_COUNT; b++) {
        totals->takes[b] += read(&counts->bins[b].takes);
        totals->gives[b] += read(&counts->bins[b].gives);
        totals->asked_bytes[b] += read(&counts->bins[b].asked_bytes);
    }
}

void exact_sum(struct exact_totals *totals) {
    *totals = (struct exact_totals){0};
    registry_visit(add_thread, totals);
}
