/* Memory goes back to the kernel also while the program makes no call.
 *
 * What is freed is purged after the decay time, by slow calls that come later. A program
 * that frees much and then sleeps makes none, and would keep what it freed. So when a
 * slow call leaves memory that is too young to be purged, a thread is made that waits
 * for it to become old enough.
 *
 *   slow call leaves young memory -> is a thread there? -> make one
 *   thread: sleep, purge, ... until nothing is left -> ends
 *
 * It ends, and is made again on demand, because a program whose main thread calls
 * pthread_exit lives until its last thread has ended. A program without threads of its
 * own gets none: the C library takes faster paths in it, and fork copies all of it.
 *
 * The thread has all signals blocked, a small stack and no cache. pthread_create may
 * allocate, so it is called without locks, and after is_there has been set. */
#include "front/front.h"
#include "os/options.h"
#include "os/system.h"
#include "span/span.h"

enum {
    PERIOD_MIN_MS = 10,
    RETRY_MS = 1000,          /* after a thread could not be made */
    STACK_BYTES = 128 * 1024, /* most of it for other libraries' thread-local data */
};

/* Both are written by whoever set is_there. */
static _Atomic bool is_there;
static _Atomic uint64_t not_before_ms;

static bool claim(void) {
    bool expected = false;
    /* atomic: cold, correctness; of threads that want one made, or go on, one does. */
    return atomic_compare_exchange_strong(&is_there, &expected, true);
}

/* Memory may have become free after the last look, by a thread that still saw is_there.
 * That thread read it after it had put the memory on a list, so one of the two sees the
 * other: hence the order of all, not release. */
static bool may_end(void) {
    /* atomic: cold, correctness; the load in scavenger_wanted. */
    atomic_exchange(&is_there, false);
    return !span_decay_all(os_now_ms()) || !claim();
}

static void *scavenge(void *unused) {
    (void)unused;
    front_go_without_cache();
    uint64_t period_ms = hak_max(options_profile()->decay_ms / 2, (uint64_t)PERIOD_MIN_MS);
    do {
        do {
            os_sleep_ms(period_ms);
        } while (span_decay_all(os_now_ms()));
    } while (!may_end());
    return NULL;
}

static hak_cold void start(void) {
    if (os_now_ms() < atomic_load_explicit(&not_before_ms, memory_order_relaxed) || !claim())
        return;
    if (os_thread_start(scavenge, STACK_BYTES))
        return;
    atomic_store_explicit(&not_before_ms, os_now_ms() + RETRY_MS, memory_order_relaxed);
    atomic_store_explicit(&is_there, false, memory_order_release);
}

void scavenger_wanted(void) {
    if (!atomic_load(&is_there) && os_is_threaded(registry_count() > 1) && !os_lock_is_passed())
        start();
}

void scavenger_forget(void) { atomic_store_explicit(&is_there, false, memory_order_relaxed); }
