/* Memory goes back to the kernel also while the program makes no call.
 *
 * What is freed is purged after the decay time, by slow calls that come later. A program
 * that frees much and then sleeps makes none, and would keep what it freed. So a program
 * that has threads gets one more, which waits for memory to become old enough.
 *
 *   (none) --malloc: the heap is large, or dirty--> works --nothing is left---> sleeps
 *      ^                                              |  ^                        |
 *      |                                              |  '------- free wakes -----|
 *      '----- the heap is small, or nobody is left ---+---------------------------'
 *
 * Only malloc makes it. free must not: the C library frees the thread-local data of threads
 * that have ended while it holds the lock that pthread_create needs. All that free may do
 * is wake; so while the heap is so large that frees alone could leave much, the thread
 * stays and sleeps. Otherwise it ends when nothing is left to purge, and is made again on
 * demand.
 *
 * A program whose main thread calls pthread_exit lives until its last thread has ended;
 * so it also ends when no thread is left that ever called malloc. A program without threads
 * of its own gets none: the C library takes faster paths in it, and fork copies all of it.
 *
 * What a busy program leaves of the pages of its slabs goes once it rests: until then they change
 * all the time, and nobody knows which of them are needed.
 *
 * While there are busy threads it does two more things: it closes one of their bins now and then,
 * for guard sampling, which sees no more than the blocks that leave refills (modes/guard.c); and it
 * makes huge pages of what is in memory all over (span/collapse.c).
 *
 * The thread has no cache. Making it may allocate, so that is done without locks, and
 * after state has left NONE. */
#include "front/front.h"
#include "modes/guard.h"
#include "os/options.h"
#include "os/system.h"
#include "slab/slab.h"
#include "span/arena.h"
#include "span/span.h"

enum {
    PERIOD_MIN_MS = 10,
    RETRY_MS = 1000,  /* after a thread could not be made, or was not wanted yet */
    LARGE_SUPERS = 4, /* a large heap has more, beside one a shard */
    QUIET_TURNS = 3,  /* two whole ones, for the first begins anywhere */
    CLOSE_MS = 100,   /* between two bins closed for guard sampling */
    BUSY_SHARE = 10,  /* of the time in which threads must have run, to be busy */
    IDLE_PERIODS = 5, /* and after so many without that they are not */
};

enum { NONE, WORKS, SLEEPS };
static _Atomic uint32_t state;
static _Atomic uint64_t not_before_ms;
static size_t links_alone = OS_LINKS_OF_ONE_THREAD; /* an emulator may have threads of its own */
static _Atomic bool is_child; /* of a fork: its parent's threads do not make it threaded */

static bool change_state(uint32_t from, uint32_t to) {
    /* atomic: cold, correctness; partners are the others that change it here. */
    return atomic_compare_exchange_strong(&state, &from, to);
}

/* Costs nothing. In the child of a fork the C library still speaks of the parent's threads. */
static bool may_be_threaded(void) {
    bool is_own = !atomic_load_explicit(&is_child, memory_order_relaxed);
    return registry_count() > 1 || os_may_be_threaded(is_own);
}

/* Frees alone could leave much memory, and there is somebody left to call free. */
static bool is_worth_staying(void) {
    bool is_large = arena_taken() > slab_shard_count() + LARGE_SUPERS;
    return is_large && options_profile()->decay_ms != 0 && registry_count() != 0 &&
           front_sees_threads_end();
}

static bool purges_pages(void) { return options_profile()->page_purge != PAGE_PURGE_NEVER; }

/* Threads that may be busy, with something to be done for them then, or once they rest. */
static bool has_busy_threads(void) {
    size_t count = registry_count();
    return (count > 1 && (guard_wants_refills() || purges_pages())) ||
           (count != 0 && span_may_collapse());
}

/* --- the thread ---------------------------------------------------------------- */

/* Whoever left dirty memory or a cache put it on a list, under a lock that this thread takes again
 * to look; so either it is seen here after the change of state, or he sees that. That slabs in
 * use have lost blocks is a hint: one that is missed by a moment comes with the next slow call. */
static bool is_clean(void) {
    uint64_t now_ms = os_now_ms();
    bool has_resting = registry_settle(now_ms);
    return !span_decay_all(now_ms, true) && !has_resting && !slab_has_lost_blocks();
}

/* Until woken; false: it is time to end. */
static bool sleep_clean(void) {
    if (!change_state(WORKS, SLEEPS))
        return true;
    while (is_worth_staying() && is_clean() &&
           atomic_load_explicit(&state, memory_order_relaxed) == SLEEPS)
        os_wait(&state, SLEEPS);
    /* Nobody takes it back from WORKS, so this changes nothing then. */
    change_state(SLEEPS, WORKS);
    return is_worth_staying();
}

/* False: somebody has left dirty memory since the last look. */
static bool end(void) {
    change_state(WORKS, NONE);
    return is_clean() || !change_state(NONE, WORKS);
}

/* Sleeps; lets a busy thread's blocks be seen if it is time for that. */
static void pause(uint64_t ms) {
    static uint64_t closed_ms; /* only one thread ever is here */
    os_sleep_ms(ms);
    uint64_t now_ms = os_now_ms();
    if (!guard_wants_refills() || now_ms - closed_ms < CLOSE_MS)
        return;
    closed_ms = now_ms;
    guard_ask_for_refill();
}

/* While threads are busy and nothing is dirty. True: they were, and rest now. */
static bool attend_busy_threads(void) {
    unsigned idle = 0;
    bool were_busy = false;
    while (has_busy_threads() && idle < IDLE_PERIODS && is_clean()) {
        span_collapse();
        uint64_t before_us = os_process_cpu_us();
        pause(CLOSE_MS);
        bool is_busy = os_process_cpu_us() - before_us >= CLOSE_MS * 1000 / BUSY_SHARE;
        idle = is_busy ? 0 : idle + 1;
        were_busy |= is_busy;
    }
    return were_busy && idle == IDLE_PERIODS;
}

/* Until nothing is dirty, and the slabs in use have been gone through twice since: first to
 * see how many blocks each has, then to purge the pages without blocks of those where that
 * has not changed. Then nobody has used much for a while, and what is kept for use goes. */
static void work(void) {
    uint64_t period_ms = hak_max(options_profile()->decay_ms / 2, (uint64_t)PERIOD_MIN_MS);
    unsigned wanted = purges_pages() ? QUIET_TURNS : 0;
    unsigned turns = 0;
    for (;;) {
        bool turn_ended = false;
        if (!is_clean()) {
            slab_note_look();
            turns = 0;
        } else if (turns == wanted) {
            break;
        } else {
            slab_purge_pages_step(true, &turn_ended);
        }
        turns += turn_ended;
        span_collapse();
        pause(period_ms);
    }
    if (wanted != 0)
        span_decay_all(os_now_ms(), false);
}

static void *scavenge(void *unused) {
    (void)unused;
    front_go_without_cache();
    os_name_thread("hakmem");
    do {
        do {
            do {
                work();
            } while (attend_busy_threads() || !is_clean());
        } while (sleep_clean());
    } while (!end());
    return NULL;
}

/* --- its making ---------------------------------------------------------------- */

static hak_cold void start(void) {
    uint64_t now_ms = os_now_ms();
    if (now_ms < atomic_load_explicit(&not_before_ms, memory_order_relaxed) ||
        !change_state(NONE, WORKS))
        return;
    if (os_thread_links() > links_alone && os_start_thread(scavenge))
        return;
    atomic_store_explicit(&not_before_ms, now_ms + RETRY_MS, memory_order_relaxed);
    change_state(WORKS, NONE);
}

void scavenger_after_malloc(bool is_dirty) {
    if (atomic_load_explicit(&state, memory_order_relaxed) != NONE)
        scavenger_after_free(is_dirty);
    else if ((is_dirty || is_worth_staying() || has_busy_threads()) && may_be_threaded() &&
             !os_lock_is_passed())
        start();
}

void scavenger_after_free(bool is_dirty) {
    if (atomic_load_explicit(&state, memory_order_relaxed) == SLEEPS &&
        (is_dirty || slab_has_lost_blocks() || !is_worth_staying()) && change_state(SLEEPS, WORKS))
        os_wake(&state);
}

void scavenger_forget(void) {
    atomic_store_explicit(&is_child, true, memory_order_relaxed);
    links_alone = os_thread_links();
    atomic_store_explicit(&state, NONE, memory_order_relaxed);
}
