/* What is in memory all over becomes huge pages, where the heap is large and the program runs long;
 * and what soon will be, where that is the faster way to have it.
 *
 *   | page | page | page | page | ...  all of a SuperSlab |
 *   |                    huge page                        |   collapsed, by the scavenger
 *   | page | page | hole | page | ...                     |   split, before a part of it goes
 *
 *   | page | ...... untouched ............................ |
 *   | slab |       blank: huge page, reads as zero         |   collapsed, as a heap grows
 *
 * A processor remembers where some 2,000 pages lie; a program whose blocks lie on more of them
 * waits for its page tables. Huge pages that are asked for beforehand (OS_THP_ALWAYS) are resident
 * as a whole from the first byte on. What is resident already costs nothing more; but a page that
 * is shared since a fork would be copied, so those are left alone.
 *
 * A fresh SuperSlab of small classes that grow will be written all over before another one is
 * begun; so only such may have its blank slabs. One huge page for it costs half of what its single
 * ones cost; or, where the kernel or a host below it has none at hand, several times as much. A
 * program that uses its memory has that back within seconds, if it is not too much: so both ways
 * are timed. What of it nobody takes is free and used memory as any other, and decays.
 *
 * Split, for of a huge page of which a part is not wanted any more the kernel keeps all until it
 * gets round to it, although that part counts as resident no more.
 *
 * Collapsing costs a copy of 2 MiB and the kernel's own work, and threads that use the memory
 * meanwhile wait for it, a millisecond or so. It pays within seconds, so a program must have run
 * for some, and it takes a small share of the processor time that the program uses.
 *
 * Lock: purge_lock, for one SuperSlab at a time, so that no slabs go meanwhile. Holes inside slabs
 * may (slab/pages.c): then their pages are there again, and zero, as they are marked. A fresh one
 * is nobody else's; it is left as it is where somebody has the lock. */
#include "os/huge_pages.h"
#include "os/mappings.h"
#include "os/memory.h"
#include "os/options.h"
#include "os/system.h"
#include "span/arena.h"
#include "span/limits.h"
#include "span/purge.h"
#include "span/span.h"

enum {
    START_US = 2000000,     /* of processor time, before which a process is not worth it */
    CPU_SHARE = 20,         /* and what this may use of the rest: a 20th */
    STEP_LOOKS = 16,        /* SuperSlabs looked at by a call */
    MISSING_PART = 32,      /* of the pages, which may come in besides */
    SPLIT_REST_MS = 10000,  /* what was split was not wanted whole */
    REFUSED_REST_MS = 1000, /* the kernel has no memory for it now, or never */
    WORTH_TIMES = 4,        /* a fresh one may take so many times as long as single pages */
    TRIAL_EVERY = 32,       /* fresh ones: one goes the other way, to see how long that takes now */
    REGRET_MS = 200,        /* what is split so soon had better been single pages: */
    REGRET_REST_MS = 1000,  /* for so long fresh ones are */
    AVERAGED_BYTES = 16 << 20, /* of either way, for how long it takes; */
    MOST_TIMES = 8,            /* as much longer than that one may count, */
    FAILED_NS = 100000000,     /* and one that the kernel refuses counts so much */
    MIB_SHIFT = 20,
};

/* Of the scavenger, of which there is one at a time. */
static struct {
    size_t next;            /* SuperSlab to look at */
    uint64_t not_before_ms; /* after a refusal */
    uint64_t used_us;       /* of processor time, so far */
} progress;

static _Atomic bool is_never_given; /* the kernel has no huge pages of this size for anybody */
static uint64_t collapsed_count;    /* under purge_lock */
static _Atomic uint64_t split_count;
static _Atomic(struct super *) being_collapsed; /* by the holder of purge_lock; NULL: none */

bool span_may_collapse(void) {
    size_t from_bytes = options_profile()->collapse_from_bytes;
    return from_bytes != 0 && arena_taken() * SUPER_BYTES >= from_bytes &&
           !atomic_load_explicit(&is_never_given, memory_order_relaxed);
}

static bool kernel_gives(void) {
    static _Atomic bool is_known;
    if (!atomic_load_explicit(&is_known, memory_order_relaxed)) {
        if (os_huge_page_bytes(SUPER_BYTES) != SUPER_BYTES)
            atomic_store_explicit(&is_never_given, true, memory_order_relaxed);
        atomic_store_explicit(&is_known, true, memory_order_relaxed);
    }
    return !atomic_load_explicit(&is_never_given, memory_order_relaxed);
}

static bool is_in_memory(const struct super *super) {
    size_t pages = SUPER_BYTES / os_page_size();
    return os_own_pages(super->start, SUPER_BYTES) >= pages - pages / MISSING_PART;
}

/* Where that changes at this moment, a huge page too many or too few is made. */
static bool is_worth_it(const struct super *super, uint64_t now_ms) {
    unsigned shard = atomic_load_explicit(&super->shard, memory_order_relaxed);
    uint64_t split_ms = atomic_load_explicit(&super->split_ms, memory_order_relaxed);
    return atomic_load_explicit(&super->home, memory_order_relaxed) != SUPER_IN_ARENA &&
           shard != span_guard_shard() &&
           !atomic_load_explicit(&super->is_collapsed, memory_order_relaxed) &&
           (split_ms == 0 || now_ms - split_ms >= SPLIT_REST_MS) && is_in_memory(super);
}

/* Marked before as well as after: who purges a hole meanwhile splits in vain rather than not.
 * Released, for split, to which what is marked tells what is being collapsed. */
static bool collapse(struct super *super) {
    atomic_store_explicit(&being_collapsed, super, memory_order_relaxed);
    atomic_store_explicit(&super->is_collapsed, true, memory_order_release);
    bool done = os_collapse(super->start, SUPER_BYTES);
    atomic_store_explicit(&super->collapsed_ms, os_now_ms(), memory_order_relaxed);
    atomic_store_explicit(&super->is_collapsed, done, memory_order_relaxed);
    atomic_store_explicit(&being_collapsed, NULL, memory_order_release);
    collapsed_count += done;
    return done;
}

/* False: this step ends here. */
static bool look_at_next(uint64_t now_ms) {
    progress.next = arena_known(progress.next);
    if (progress.next >= window_super_count()) {
        progress.next = 0;
        return false;
    }
    struct super *super = window_super(progress.next++);
    if (super == NULL)
        return true;
    if (!os_lock_try(&purge_lock))
        return false;
    bool is_refused = is_worth_it(super, now_ms) && !collapse(super);
    os_lock_release(&purge_lock);
    if (is_refused)
        progress.not_before_ms = now_ms + REFUSED_REST_MS;
    return !is_refused;
}

void span_collapse(void) {
    uint64_t now_ms = os_now_ms();
    if (!span_may_collapse() || !kernel_gives() || now_ms < progress.not_before_ms ||
        limits_excess() != 0 || os_process_cpu_us() < START_US + progress.used_us * CPU_SHARE)
        return;
    uint64_t before_us = os_thread_cpu_us();
    for (unsigned looks = 0; looks < STEP_LOOKS && look_at_next(now_ms); looks++) {
    }
    progress.used_us += os_thread_cpu_us() - before_us;
}

/* --- fresh SuperSlabs --------------------------------------------------------- */

/* ns a MiB, over the last AVERAGED_BYTES or so of either way; 0: not gone yet. Who reads an old one
 * goes the slower way once more. */
static _Atomic uint32_t collapse_pace, populate_pace;

static void note_pace(_Atomic uint32_t *pace, uint64_t ns, size_t bytes) {
    uint64_t measured = (ns << MIB_SHIFT) / bytes;
    uint64_t before = atomic_load_explicit(pace, memory_order_relaxed);
    uint64_t after = measured;
    if (before != 0) /* now and then somebody else has the processor meanwhile */
        after = before + hak_min(measured, MOST_TIMES * before) * bytes / AVERAGED_BYTES -
                before * bytes / AVERAGED_BYTES;
    atomic_store_explicit(pace, (uint32_t)hak_min(after, (uint64_t)UINT32_MAX) | 1,
                          memory_order_relaxed);
}

bool span_populate(void *start, size_t bytes) {
    uint64_t begin_ns = os_now_ns();
    bool done = os_populate(start, bytes);
    if (done)
        note_pace(&populate_pace, os_now_ns() - begin_ns, bytes);
    return done;
}

static bool takes_not_much_longer(void) {
    uint64_t collapse_ns = atomic_load_explicit(&collapse_pace, memory_order_relaxed);
    uint64_t populate_ns = atomic_load_explicit(&populate_pace, memory_order_relaxed);
    return collapse_ns <= WORTH_TIMES * populate_ns;
}

/* A heap that grows and shrinks all the time would pay for huge pages, for splitting them and for
 * their faults. */
static _Atomic uint64_t regretted_ms; /* when one was split soon after it was made; 0: never */

static bool is_regretted(void) {
    uint64_t at_ms = atomic_load_explicit(&regretted_ms, memory_order_relaxed);
    return at_ms != 0 && os_now_ms() - at_ms < REGRET_REST_MS;
}

static bool is_due_fresh(void) {
    static _Atomic uint32_t fresh_count;
    uint32_t fresh = atomic_load_explicit(&fresh_count, memory_order_relaxed);
    atomic_store_explicit(&fresh_count, fresh + 1, memory_order_relaxed);
    bool is_trial = fresh % TRIAL_EVERY == TRIAL_EVERY - 1;
    return takes_not_much_longer() != is_trial;
}

static bool may_be_made(void) {
    return span_may_collapse() && limits_have_room(SUPER_BYTES) && !is_regretted();
}

bool span_collapse_is_worth_it(void) { return may_be_made() && takes_not_much_longer(); }

/* What has no page at all, the kernel does not collapse. */
static void collapse_timed(struct super *super) {
    uint64_t begin_ns = os_now_ns();
    if (os_populate(super->start, os_page_size()) && collapse(super)) {
        note_pace(&collapse_pace, os_now_ns() - begin_ns, SUPER_BYTES);
        super->zero = 0;
        super->blank = ALL_SLABS;
    } else {
        note_pace(&collapse_pace, FAILED_NS, SUPER_BYTES);
    }
}

bool span_collapse_fresh(struct super *super) {
    if (super->zero != ALL_SLABS || !may_be_made() || !kernel_gives() || !is_due_fresh() ||
        !os_lock_try(&purge_lock))
        return false;
    bool is_charged = limits_charge(SUPER_BYTES);
    if (is_charged)
        collapse_timed(super);
    os_lock_release(&purge_lock);
    if (is_charged && super->zero != 0)
        limits_discharge(SUPER_BYTES);
    return super->zero == 0;
}

/* --- splitting ---------------------------------------------------------------- */

static void split(struct super *super) {
    if (hak_likely(!atomic_load_explicit(&super->is_collapsed, memory_order_acquire)))
        return;
    /* Then it will be marked again, and split once more. Asked before it is unmarked here: after
     * that it may have been made. */
    bool is_being_made = super == atomic_load_explicit(&being_collapsed, memory_order_acquire);
    uint64_t now_ms = os_now_ms();
    uint64_t made_ms = atomic_load_explicit(&super->collapsed_ms, memory_order_relaxed);
    if (now_ms - made_ms < REGRET_MS)
        atomic_store_explicit(&regretted_ms, now_ms, memory_order_relaxed);
    /* atomic: cold, telemetry; no partner: of two who split it, one is counted. */
    bool is_first = atomic_exchange_explicit(&super->is_collapsed, false, memory_order_relaxed);
    atomic_store_explicit(&super->split_ms, now_ms, memory_order_relaxed);
    os_split_huge_page(super->start);
    if (is_being_made || !is_first)
        return;
    /* atomic: cold, telemetry; no partner: a sum. */
    atomic_fetch_add_explicit(&split_count, 1, memory_order_relaxed);
}

void span_split(const char *start, size_t bytes) {
    size_t last = window_super_index(start + bytes - 1);
    for (size_t index = window_super_index(start); index <= last; index++)
        split(window_super(index));
}

struct collapse_stats span_collapse_stats(void) {
    os_lock_acquire(&purge_lock);
    uint64_t collapsed = collapsed_count;
    os_lock_release(&purge_lock);
    uint64_t split = atomic_load_explicit(&split_count, memory_order_relaxed);
    return (struct collapse_stats){collapsed, split};
}
