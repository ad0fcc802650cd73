/* Giving free memory back to the kernel.
 *
 *   decay    what has been free and dirty for the profile's decay time
 *   trade    when the heap grows all the same, by pages never touched: about as
 *            many bytes of dirty ones, whatever their age
 *   trim     everything
 *
 * A heap that grows beside free memory cannot use that memory now: it lies in
 * holes of the wrong length, or the growth wants pages that need not all become
 * resident. Its peak would be higher for it. But what is purged may be what comes next, and
 * then costs a fault a page; so trading has an allowance in bytes a millisecond, which
 * bounds its price at a few percent of a processor's time.
 *
 * Slabs being purged are on no list and belong to the purger; the calls into the
 * kernel run unlocked. */
#include "os/system.h"
#include "span/arena.h"
#include "span/move.h"
#include "span/shard.h"

enum { ALLOWANCE_MS = 20 }; /* an allowance not used adds up over this long */

/* The lowest slabs of a set, as many as hold bytes. */
static uint32_t lowest_slabs(uint32_t slabs, size_t bytes) {
    uint32_t lowest = 0;
    for (size_t held = 0; slabs != 0 && held < bytes; held += SLAB_BYTES) {
        lowest |= slabs & -slabs;
        slabs &= slabs - 1;
    }
    return lowest;
}

/* Takes dirty slabs, most_bytes at most, off the SuperSlab that has had such for
 * longest, if that is long enough. */
static struct super *claim(struct span_shard *shard, uint64_t before_ms, size_t most_bytes,
                           uint32_t *slabs) {
    struct super *super = NULL;
    os_lock_acquire(&shard->lock);
    if (!list_is_empty(&shard->dirty)) {
        super = container_of(shard->dirty.next, struct super, dirty_link);
        if (super->dirty_since_ms > before_ms) {
            super = NULL;
        } else {
            *slabs = lowest_slabs(super->free & ~super->zero, most_bytes);
            shard_take(shard, super, *slabs);
        }
    }
    os_lock_release(&shard->lock);
    return super;
}

/* Purges what has been dirty since before_ms or longer, until most_bytes have gone. */
static size_t purge(struct span_shard *shard, uint64_t before_ms, size_t most_bytes) {
    size_t bytes = 0;
    struct super *super;
    uint32_t slabs = 0;
    while (bytes < most_bytes &&
           (super = claim(shard, before_ms, most_bytes - bytes, &slabs)) != NULL) {
        bool is_purged = move_out(super, slabs);
        os_lock_acquire(&shard->lock);
        shard_give_purged(shard, super, slabs, is_purged);
        os_lock_release(&shard->lock);
        bytes += is_purged ? bit_count(slabs) * (size_t)SLAB_BYTES : 0;
    }
    return bytes;
}

void span_decay(unsigned shard, uint64_t now_ms) {
    uint64_t decay_ms = options_profile()->decay_ms;
    if (now_ms < decay_ms)
        return;
    purge(&span_shards[shard], now_ms - decay_ms, SIZE_MAX);
    arena_purge(now_ms - decay_ms, SIZE_MAX);
}

size_t span_purge_all(void) {
    size_t bytes = 0;
    for (unsigned s = 0; s < span_shard_count(); s++)
        bytes += purge(&span_shards[s], UINT64_MAX, SIZE_MAX);
    return bytes + arena_purge(UINT64_MAX, SIZE_MAX);
}

/* What the shard may trade of wanted bytes. */
static size_t allowance(struct span_shard *shard, size_t wanted) {
    uint64_t now_ms = os_now_ms();
    int64_t bytes_per_ms = (int64_t)options_profile()->trade_bytes_per_ms;
    os_lock_acquire(&shard->lock);
    int64_t saved = shard->allowance_bytes + (int64_t)(now_ms - shard->allowance_ms) * bytes_per_ms;
    shard->allowance_bytes = hak_min(saved, bytes_per_ms * ALLOWANCE_MS);
    shard->allowance_ms = now_ms;
    size_t allowed = saved <= 0 ? 0 : hak_min(wanted, (size_t)shard->allowance_bytes);
    os_lock_release(&shard->lock);
    return allowed;
}

/* A whole SuperSlab may be more than was allowed: a debt, then. */
static void use_allowance(struct span_shard *shard, size_t bytes) {
    os_lock_acquire(&shard->lock);
    shard->allowance_bytes -= (int64_t)bytes;
    os_lock_release(&shard->lock);
}

void span_trade(struct span_shard *shard, size_t grown_bytes) {
    size_t allowed = allowance(shard, grown_bytes);
    if (allowed == 0)
        return;
    size_t traded = purge(shard, UINT64_MAX, allowed);
    if (traded < allowed)
        traded += arena_purge(UINT64_MAX, allowed - traded);
    if (traded != 0)
        use_allowance(shard, traded);
}
