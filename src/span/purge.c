/* Giving free memory back to the kernel.
 *
 *   decay    what has been free and dirty for the profile's decay time
 *   trade    when the heap grows all the same, by pages never touched: about as
 *            many bytes of dirty ones, whatever their age
 *   excess   over the soft limit: as much as it is over, whatever its age
 *   trim     everything
 *
 * A heap that grows beside free memory cannot use that memory now: it lies in
 * holes of the wrong length, or the growth wants pages that need not all become
 * resident. Its peak would be higher for it. But what is purged may be what comes next, and
 * then costs a fault a page; so trading has an allowance in bytes a millisecond, which
 * bounds its price at a few percent of a processor's time.
 *
 * Slabs being purged are on no list and belong to the purger, who holds the purge lock
 * and no other while it calls the kernel. */
#include "span/purge.h"

#include "os/system.h"
#include "span/arena.h"
#include "span/limits.h"
#include "span/move.h"
#include "span/shard.h"

struct os_lock purge_lock;

enum { KEPT_SHARE = 64 };     /* of the heap may stay free and dirty for ever */
enum { GROWTH_MS = 100 };     /* within which growth is measured */
enum { STEADY_SLABS = 4 };    /* fresh ones that a heap takes in it which does not grow, */
enum { STEADY_SHARE = 1024 }; /* or such a part of it */
enum { ALLOWANCE_MS = 20 };   /* an allowance not used adds up over this long */

/* A heap in steady state has a few slabs that become empty and are wanted again all the
 * time; so a small share of it may stay. */
static size_t kept_by_all(void) {
    const struct hak_profile *profile = options_profile();
    size_t share = arena_taken() * SUPER_SLABS / KEPT_SHARE;
    return profile->decay_ms == 0 ? 0 : hak_max(share, profile->kept_bytes / SLAB_BYTES);
}

/* Each shard may keep its part of that, and what the others leave of theirs. */
static size_t kept_slabs(const struct span_shard *shard) {
    size_t kept = kept_by_all();
    size_t others = 0;
    for (unsigned s = 0; s < span_shard_count(); s++)
        others += &span_shards[s] == shard ? 0 : shard_dirty_slabs(&span_shards[s]);
    /* There are two at least. */
    size_t part = kept / span_shard_count(); // NOLINT(clang-analyzer-core.DivideZero)
    return hak_max(part, kept - hak_min(kept, others));
}

/* Blank slabs are what a growing class takes next: a trade would split their huge page for others
 * that grow. They decay. */
static uint32_t purgeable(const struct super *super, const struct purge *purge) {
    return super_purgeable(super) & (purge->spares_blank ? ~super->blank : ALL_SLABS);
}

/* The lowest slabs that may be purged, as many as hold bytes; all, where they go together. */
static uint32_t lowest_slabs(const struct super *super, const struct purge *purge, size_t bytes) {
    uint32_t slabs = purgeable(super, purge);
    if (super->goes_whole)
        return slabs;
    uint32_t lowest = 0;
    for (size_t held = 0; slabs != 0 && held < bytes; held += SLAB_BYTES) {
        lowest |= slabs & -slabs;
        slabs &= slabs - 1;
    }
    return lowest;
}

/* Slabs that are the purger's. */
struct claim {
    struct super *super; /* NULL: nothing to purge */
    uint32_t slabs;
    uint32_t dirty; /* of them; one that goes whole has untouched slabs among the others */
};

/* The SuperSlab that has had something to purge for longest; NULL: none. */
static struct super *oldest(struct span_shard *shard, const struct purge *purge) {
    list_for_each(link, &shard->dirty) {
        struct super *super = container_of(link, struct super, dirty_link);
        if (purgeable(super, purge) != 0)
            return super;
    }
    return NULL;
}

/* Takes dirty slabs off that SuperSlab, if it has had them long enough. */
static struct claim claim(struct span_shard *shard, struct purge *purge) {
    struct claim claim = {NULL, 0, 0};
    size_t kept = purge->keeps_some ? kept_slabs(shard) : 0;
    os_lock_acquire(&shard->lock);
    struct super *super = shard_dirty_slabs(shard) > kept ? oldest(shard, purge) : NULL;
    if (super != NULL) {
        bool is_young = super->dirty_since_ms > purge->before_ms;
        purge->left_some |= is_young;
        if (!is_young) {
            size_t over = (shard_dirty_slabs(shard) - kept) * SLAB_BYTES;
            size_t bytes = hak_min(purge->most_bytes - purge->done_bytes, over);
            claim.super = super;
            claim.slabs = lowest_slabs(super, purge, bytes);
            claim.dirty = claim.slabs & ~super->zero;
            shard_take(shard, super, claim.slabs);
        }
    }
    os_lock_release(&shard->lock);
    return claim;
}

static void purge_shard(struct span_shard *shard, struct purge *purge) {
    while (purge->done_bytes < purge->most_bytes) {
        struct claim taken = claim(shard, purge);
        if (taken.super == NULL)
            break;
        bool is_purged = move_out(taken.super, taken.slabs);
        uint32_t gone = is_purged ? taken.dirty : 0;
        os_lock_acquire(&shard->lock);
        shard_give_purged(shard, taken.super, taken.slabs, (taken.slabs & ~taken.dirty) | gone);
        os_lock_release(&shard->lock);
        size_t gone_bytes = bit_count(gone) * (size_t)SLAB_BYTES;
        limits_discharge(gone_bytes);
        purge->done_bytes += gone_bytes;
    }
}

static void purge_all(struct purge *purge) {
    for (unsigned s = 0; s < span_shard_count(); s++)
        purge_shard(&span_shards[s], purge);
    arena_purge(purge);
}

/* --- decay ------------------------------------------------------------------- */

static struct purge decayed(uint64_t now_ms) {
    uint64_t decay_ms = options_profile()->decay_ms;
    return (struct purge){
        .before_ms = now_ms < decay_ms ? 0 : now_ms - decay_ms,
        .most_bytes = SIZE_MAX,
        .keeps_some = true,
    };
}

bool span_decay(unsigned shard, uint64_t now_ms) {
    /* Most calls find nothing: then they need no lock to see it, and no look at other shards. */
    size_t dirty = shard_dirty_slabs(&span_shards[shard]);
    bool is_little = dirty * span_shard_count() <= kept_by_all();
    if ((is_little || dirty <= kept_slabs(&span_shards[shard])) && !arena_looks_dirty())
        return false;
    /* Somebody else is at it; what of this shard is left then, nobody knows. */
    if (!os_lock_try(&purge_lock))
        return true;
    struct purge purge = decayed(now_ms);
    purge_shard(&span_shards[shard], &purge);
    arena_purge(&purge);
    os_lock_release(&purge_lock);
    return purge.left_some;
}

bool span_decay_all(uint64_t now_ms, bool keeps_some) {
    struct purge purge = decayed(now_ms);
    purge.keeps_some = keeps_some;
    os_lock_acquire(&purge_lock);
    purge_all(&purge);
    os_lock_release(&purge_lock);
    return purge.left_some;
}

/* --- trim -------------------------------------------------------------------- */

size_t span_purge_all(void) {
    struct purge purge = {.before_ms = UINT64_MAX, .most_bytes = SIZE_MAX};
    os_lock_acquire(&purge_lock);
    for (unsigned s = 0; s < span_shard_count(); s++) {
        os_lock_acquire(&span_shards[s].lock);
        shard_break_up(&span_shards[s]);
        os_lock_release(&span_shards[s].lock);
    }
    purge_all(&purge);
    os_lock_release(&purge_lock);
    return purge.done_bytes;
}

/* --- excess over the soft limit ------------------------------------------------ */

static bool looks_dirty(void) {
    bool is_dirty = arena_looks_dirty();
    for (unsigned s = 0; s < span_shard_count() && !is_dirty; s++)
        is_dirty = shard_dirty_slabs(&span_shards[s]) != 0;
    return is_dirty;
}

size_t span_purge_excess(unsigned shard) {
    struct purge purge = {.before_ms = UINT64_MAX, .most_bytes = limits_excess()};
    if (!looks_dirty())
        return 0;
    os_lock_acquire(&purge_lock);
    purge_shard(&span_shards[shard], &purge);
    purge_all(&purge);
    os_lock_release(&purge_lock);
    return purge.done_bytes;
}

/* --- trade ------------------------------------------------------------------- */

/* The shard has taken untouched pages, or none: does it grow? A heap in steady state takes a
 * fresh slab or two now and then, and is not growing for it. */
static bool note_growth(struct span_shard *shard, size_t bytes, uint64_t now_ms) {
    uint64_t window = now_ms / GROWTH_MS;
    if (window != shard->growth_window) {
        shard->grown_earlier = window == shard->growth_window + 1 ? shard->grown_bytes : 0;
        shard->grown_bytes = 0;
        shard->growth_window = window;
    }
    shard->grown_bytes += bytes;
    size_t grown = hak_max(shard->grown_bytes, shard->grown_earlier);
    size_t share = arena_taken() * SUPER_BYTES / STEADY_SHARE;
    return grown > hak_max(share, (size_t)STEADY_SLABS * SLAB_BYTES);
}

/* What the shard may trade now, having just grown by some bytes. */
static size_t allowance(struct span_shard *shard, size_t grown_bytes) {
    int64_t bytes_per_ms = (int64_t)options_profile()->trade_bytes_per_ms;
    os_lock_acquire(&shard->lock);
    uint64_t now_ms = os_now_ms();
    uint64_t passed_ms = now_ms - shard->allowance_ms;
    bool grows = note_growth(shard, grown_bytes, now_ms);
    int64_t saved = shard->allowance_bytes + (int64_t)passed_ms * bytes_per_ms;
    shard->allowance_bytes = hak_min(saved, bytes_per_ms * ALLOWANCE_MS);
    shard->allowance_ms = now_ms;
    bool may_trade = grows || shard_dirty_slabs(shard) > kept_slabs(shard);
    size_t allowed = saved > 0 && may_trade ? (size_t)shard->allowance_bytes : 0;
    os_lock_release(&shard->lock);
    return allowed;
}

size_t span_may_trade(unsigned shard) { return allowance(&span_shards[shard], 0); }

/* A whole SuperSlab may be more than was allowed: a debt, then. */
void span_traded(unsigned shard, size_t bytes) {
    struct span_shard *home = &span_shards[shard];
    os_lock_acquire(&home->lock);
    home->allowance_bytes -= (int64_t)bytes;
    os_lock_release(&home->lock);
}

void span_trade(unsigned shard, size_t grown_bytes) {
    size_t allowed = hak_min(allowance(&span_shards[shard], grown_bytes), grown_bytes);
    if (allowed == 0 || !os_lock_try(&purge_lock))
        return;
    struct purge purge = {
        .before_ms = UINT64_MAX,
        .most_bytes = allowed,
        .spares_blank = true,
    };
    /* What guarded blocks leave beside others serves nobody. */
    purge_shard(&span_shards[span_guard_shard()], &purge);
    purge_shard(&span_shards[shard], &purge);
    arena_purge(&purge);
    os_lock_release(&purge_lock);
    if (purge.done_bytes != 0)
        span_traded(shard, purge.done_bytes);
}
