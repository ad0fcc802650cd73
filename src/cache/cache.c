/* The slow calls: refill and flush.
 *
 * A refill takes half of a bin's capacity in one go, a flush gives the older
 * half home in one go: a thread that frees and allocates in turns stays away
 * from both ends. One that for long has only taken, or only given, goes from one
 * end nearly to the other. The blocks of a refill are stacked so that they are handed out
 * in ascending order of address. bins.c says how large bins are, flush.c how
 * blocks go home, slots.c what bins are made of.
 *
 * No lock here: a cache is its thread's own. slab_take and slab_give lock. */
#include "cache/bins.h"
#include "os/options.h"
#include "os/system.h"

enum {
    ONE_WAY = 8,     /* misses in a row; of two kinds that are equally likely, by chance 1 in 256 */
    SPARE_SHARE = 8, /* of a bin, from the other end: not each call the other way is a miss */
    TICK_PERIOD = 4, /* slow calls between looks at the clock */
    AGE_MIN_MS = 10, /* a thread's bins are looked through at most this often */
    AHEAD_MS = 32,   /* and for pages that come next: so a short-lived one pays for none */
};

void *const cache_no_block[1] = {NULL};
_Atomic uint64_t cache_unparked[CLASS_COUNT];

const struct row cache_closed_row = {
    .bins = {[0 ... BIN_COUNT - 1] = {.top = (void **)cache_no_block}},
};

static void *pop(struct bin *bin) {
    void **top = bin_top(bin);
    bin_set_top(bin, top - 1);
    return *top;
}

static void push(struct bin *bin, void *block) {
    void **top = bin_top(bin) + 1;
    *top = block;
    bin_set_top(bin, top);
}

/* How many of so many blocks a miss moves: half, but of a class with which the program builds or
 * drops something large, as the misses before this one tell, nearly all. */
static unsigned batch(struct bin_info *info, bool is_full, unsigned blocks) {
    unsigned alike = info->was_full == is_full ? info->misses : 0;
    info->was_full = is_full;
    info->misses = (uint8_t)hak_min(alike + 1, (unsigned)ONE_WAY);
    return alike == ONE_WAY ? blocks - blocks / SPARE_SHARE : (blocks + 1) / 2;
}

void *cache_take(struct thread *thread, unsigned class) {
    struct bin *bin = &thread->own->bins[class];
    if (*bin_top(bin) != NULL || bin_unpark_for_call(thread, class))
        return pop(bin);
    struct bin_info *info = &thread->infos[class];
    if (info->base != NULL)
        bin_adapt(thread, class);
    else
        bin_open_own(thread, class);
    if (info->base == NULL) {
        bool is_zero;
        bins_note_moved(thread, class, 1, 0);
        return slab_take_one(thread->shard, class, &is_zero);
    }
    unsigned want = batch(info, false, info->capacity);
    unsigned fresh = 0;
    unsigned got = slab_take(thread->shard, class, info->base + 1, want, &fresh);
    if (got == 0)
        return NULL;
    bins_note_moved(thread, class, got, 0);
    bin_set_top(bin, info->base + got);
    bin_set_limit(bin, info->base + info->capacity); /* closed, or parked empty: blocks have come */
    void *block = pop(bin);
    if (hak_unlikely(fresh != 0))
        bins_note_growth(thread, class, fresh);
    return block;
}

void *cache_take_zeroed(struct thread *thread, unsigned class, bool *is_zero) {
    struct bin *bin = &thread->own->bins[class];
    *is_zero = false;
    if (*bin_top(bin) != NULL || bin_unpark_for_call(thread, class))
        return pop(bin);
    thread->until_guard--;
    return slab_take_one(thread->shard, class, is_zero);
}

/* Another thread has closed a bin, to have blocks come and go: all go, and this one. Or an empty
 * one was parked. */
static hak_cold void reopen(struct thread *thread, unsigned class, void *block) {
    const struct bin_info *info = &thread->infos[class];
    struct bin *bin = &thread->own->bins[class];
    bin_set_limit(bin, info->base + info->capacity);
    if (bin_top(bin) == info->base) {
        bin_count_for_guard(thread, class, 1);
        push(bin, block);
        return;
    }
    bin_flush_own(thread, class);
    bins_note_moved(thread, class, 0, 1);
    slab_give(class, &block, 1);
}

static void give_own(struct thread *thread, unsigned class, void *block) {
    struct bin *bin = &thread->own->bins[class];
    struct bin_info *info = &thread->infos[class];
    if (info->base == NULL) {
        bin_open_own(thread, class);
    } else if (bin_limit(bin) == NULL && !bin_unpark_for_call(thread, class)) {
        reopen(thread, class, block);
        return;
    } else if (bin_top(bin) - info->base >= info->capacity) {
        bin_adapt(thread, class);
    }
    if (info->base == NULL) {
        bins_note_moved(thread, class, 0, 1);
        slab_give(class, &block, 1);
        return;
    }
    unsigned held = (unsigned)(bin_top(bin) - info->base);
    if (held >= info->capacity) {
        unsigned given = batch(info, true, held);
        bins_note_moved(thread, class, 0, given);
        bin_flush_oldest(bin, info->base, class, given);
    }
    push(bin, block);
}

static void give_foreign(struct thread *thread, unsigned row, unsigned class, void *block) {
    struct bin *bin = &thread->cache.rows[row].bins[class];
    if (bin_top(bin) != NULL && bin_is_full(bin, bin_top(bin))) {
        unsigned given = bin_flush_foreign(bin, class);
        bins_note_moved(thread, class, 0, given);
        bin_adapt_foreign(thread, bin, class);
    }
    if (bin_top(bin) == NULL && !bin_open_foreign(thread, bin, row, class)) {
        bins_note_moved(thread, class, 0, 1);
        slab_give(class, &block, 1);
        return;
    }
    push(bin, block);
}

void cache_give(struct thread *thread, uint16_t entry, void *block) {
    unsigned row = entry_row(entry);
    unsigned class = entry_bin(entry);
    if (&thread->cache.rows[row] == thread->own)
        give_own(thread, class, block);
    else
        give_foreign(thread, row, class, block);
}

/* Statistics of other threads read the counter. */
static uint64_t count_slow_call(struct thread *thread) {
    uint64_t count = atomic_load_explicit(&thread->slow_calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&thread->slow_calls, count, memory_order_relaxed);
    return count;
}

/* Another thread wants to give memory back. */
static void answer_flush(struct thread *thread) {
    atomic_store_explicit(&thread->is_asked_to_flush, false, memory_order_relaxed);
    cache_flush(thread);
}

/* What time asks of a thread's bins and of slabs. */
static void look_through(struct thread *thread, uint64_t now_ms) {
    if (now_ms - thread->aged_ms >= hak_max(options_profile()->decay_ms, (uint64_t)AGE_MIN_MS)) {
        thread->aged_ms = now_ms;
        bins_age(thread);
        if (registry_has_resting())
            registry_settle(now_ms);
        if (options_profile()->page_purge == PAGE_PURGE_ALWAYS)
            slab_purge_pages_step(false, NULL);
    }
    if (now_ms - thread->looked_ahead_ms >= AHEAD_MS) {
        thread->looked_ahead_ms = now_ms;
        bins_look_ahead(thread);
    }
    if (slab_heed_shrinking(now_ms))
        bins_note_shrinking(thread);
    if (thread->wants_refills)
        bins_park(thread, now_ms);
}

/* The answer comes after all that sets a bin's limit in a slow call: who asks has set it to 0
 * for the next free to be slow, and that must stay so if the answer is not given yet
 * (exit.pml). */
bool cache_tick(struct thread *thread, bool at_once) {
    registry_reclaim();
    bool is_due = count_slow_call(thread) % TICK_PERIOD == 0 || at_once || thread->has_unparked;
    thread->has_unparked = false;
    uint64_t now_ms = is_due ? os_now_ms() : 0;
    if (is_due)
        look_through(thread, now_ms);
    if (hak_unlikely(atomic_load_explicit(&thread->is_asked_to_flush, memory_order_relaxed)))
        answer_flush(thread);
    return is_due && (span_decay(thread->shard, now_ms) || registry_has_resting());
}
