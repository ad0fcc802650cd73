/* What happens at the limits, and telling the program.
 *
 *   a slow call ends, the heap is over soft_limit
 *     first time      trim: bins, empty slabs, all that is free and dirty
 *     later           dirty memory goes back until the heap is below
 *     still over      call-backs, once until the heap has been clearly below
 *
 *   a taking was refused, and again after a trim
 *     by hard_limit   call-backs, then the taking is tried a last time
 *
 * Call-backs run in a slow call, but while the thread's cache is whole and no lock is
 * held, so they may allocate and free. One at a time in the process: who finds one
 * running does not wait for it, for it may be waiting for him.
 *
 * Lock: front_callbacks_lock protects the table; it is copied, then called. */
#include <errno.h>

#include "front/front.h"

enum { CALLBACK_MAX = 16 };

struct os_lock front_callbacks_lock;
static struct front_callback callbacks[CALLBACK_MAX];

/* Who runs call-backs; 0: nobody. */
static _Atomic uintptr_t runner;

/* Puts `to` in the place of `from`; from no function, in a free place. */
static bool replace(struct front_callback from, struct front_callback to) {
    bool found = false;
    os_lock_acquire(&front_callbacks_lock);
    for (unsigned i = 0; i < CALLBACK_MAX && !found; i++) {
        found = callbacks[i].function == from.function && callbacks[i].context == from.context;
        if (found)
            callbacks[i] = to;
    }
    os_lock_release(&front_callbacks_lock);
    return found;
}

static const struct front_callback no_callback;

bool front_callback_add(struct front_callback callback) {
    return replace(callback, callback) || replace(no_callback, callback);
}

bool front_callback_remove(struct front_callback callback) {
    return replace(callback, no_callback);
}

/* False: nobody was told. */
static bool tell(struct front_limit_event event) {
    uintptr_t nobody = 0;
    /* Between the handlers of fork others' code runs that expects nothing of the kind. */
    if (os_lock_is_passed())
        return false;
    /* atomic: cold, correctness; pairs with the release below. */
    if (!atomic_compare_exchange_strong_explicit(&runner, &nobody, os_thread_identity(),
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    struct front_callback copies[CALLBACK_MAX];
    os_lock_acquire(&front_callbacks_lock);
    for (unsigned i = 0; i < CALLBACK_MAX; i++)
        copies[i] = callbacks[i];
    os_lock_release(&front_callbacks_lock);
    bool told = false;
    int saved_errno = errno;
    for (unsigned i = 0; i < CALLBACK_MAX; i++) {
        if (copies[i].function == NULL)
            continue;
        copies[i].call(&copies[i], &event);
        told = true;
    }
    errno = saved_errno;
    /* Pairs with the acquire above: the next runner comes after. */
    atomic_store_explicit(&runner, 0, memory_order_release);
    return told;
}

void front_callbacks_forked(void) {
    if (atomic_load_explicit(&runner, memory_order_relaxed) != os_thread_identity())
        atomic_store_explicit(&runner, 0, memory_order_relaxed);
}

hak_cold void front_heed_soft_limit(const struct thread *thread) {
    if (limits_is_first(LIMITS_TRIM))
        front_trim();
    else
        span_purge_excess(thread->shard);
    if (limits_excess() == 0 || !limits_is_first(LIMITS_TELL))
        return;
    struct limits_stats stats = limits_stats();
    tell((struct front_limit_event){FRONT_SOFT_LIMIT, stats.soft_bytes, stats.heap_bytes, 0});
}

bool front_heed_hard_limit(uint64_t refused_before, size_t asked_bytes) {
    if (limits_refused_count() == refused_before)
        return false;
    struct limits_stats stats = limits_stats();
    return tell((struct front_limit_event){FRONT_HARD_LIMIT, stats.hard_bytes, stats.heap_bytes,
                                           asked_bytes});
}
