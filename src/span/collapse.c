/* What is in memory all over becomes huge pages, where the heap is large and the program runs long.
 *
 *   | page | page | page | page | ...  all of a SuperSlab |
 *   |                    huge page                        |   collapsed, by the scavenger
 *   | page | page | hole | page | ...                     |   split, before a part of it goes
 *
 * A processor remembers where some 2,000 pages lie; a program whose blocks lie on more of them
 * waits for its page tables. Huge pages that are asked for beforehand (OS_THP_ALWAYS) are resident
 * as a whole from the first byte on. What is resident already costs nothing more; but a page that
 * is shared since a fork would be copied, so those are left alone.
 *
 * Split, for of a huge page of which a part is not wanted any more the kernel keeps all until it
 * gets round to it, although that part counts as resident no more.
 *
 * Collapsing costs a copy of 2 MiB and the kernel's own work, and threads that use the memory
 * meanwhile wait for it, a millisecond or so. It pays within seconds, so a program must have run
 * for some, and it takes a small share of the processor time that the program uses.
 *
 * Lock: purge_lock, for one SuperSlab at a time, so that no slabs go meanwhile. Holes inside slabs
 * may (slab/pages.c): then their pages are there again, and zero, as they are marked. */
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

bool span_may_collapse(void) {
    size_t from_bytes = options_profile()->collapse_from_bytes;
    return from_bytes != 0 && arena_taken() * SUPER_BYTES >= from_bytes &&
           !atomic_load_explicit(&is_never_given, memory_order_relaxed);
}

static bool kernel_gives(void) {
    static bool is_known;
    if (!is_known && os_huge_page_bytes(SUPER_BYTES) != SUPER_BYTES)
        atomic_store_explicit(&is_never_given, true, memory_order_relaxed);
    is_known = true;
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

/* Marked before as well as after: who purges a hole meanwhile splits in vain rather than not. */
static bool collapse(struct super *super) {
    atomic_store_explicit(&super->is_collapsed, true, memory_order_relaxed);
    bool done = os_collapse(super->start, SUPER_BYTES);
    atomic_store_explicit(&super->is_collapsed, done, memory_order_relaxed);
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

static void split(struct super *super) {
    if (hak_likely(!atomic_load_explicit(&super->is_collapsed, memory_order_relaxed)))
        return;
    atomic_store_explicit(&super->is_collapsed, false, memory_order_relaxed);
    atomic_store_explicit(&super->split_ms, os_now_ms(), memory_order_relaxed);
    os_split_huge_page(super->start);
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
