/* A shard's SuperSlabs, and which of their slabs are free: the span layer's own; the
 * other layers use span.h. See shard.c. The shard's lock is held in every function. */
#ifndef HAK_SPAN_SHARD_H
#define HAK_SPAN_SHARD_H

#include "os/lock.h"
#include "os/options.h"
#include "span/span.h"

/* The SuperSlabs of one shard. */
struct span_shard {
    hak_line_aligned struct os_lock lock;
    uint64_t occupied;                    /* bit f: by_free[f] is not empty */
    struct list by_free[SUPER_SLABS + 1]; /* SuperSlabs with f free slabs; full ones on none */
    struct list dirty;                    /* with dirty free slabs, oldest first */
    _Atomic size_t dirty_slabs;           /* free and used; read without the lock as a hint */
    size_t super_count;
    unsigned warm_count;               /* on by_free[SUPER_SLABS] */
    size_t large_count;                /* live blocks over the bins' sizes */
    size_t large_bytes;                /* of their spans */
    uint64_t large_taken, large_given; /* since the start */
    int64_t allowance_bytes;           /* what it might trade at allowance_ms (purge.c) */
    uint64_t allowance_ms;
    uint64_t growth_window;            /* which stretch of GROWTH_MS it is (purge.c) */
    size_t grown_bytes, grown_earlier; /* by untouched pages: in it, and in the one before */
};
hak_global struct span_shard span_shards[MAX_SHARDS + 1];

void shard_init(struct span_shard *shard);

hak_inline size_t shard_dirty_slabs(const struct span_shard *shard) {
    return atomic_load_explicit(&shard->dirty_slabs, memory_order_relaxed);
}

/* Where a request is met. */
struct place {
    struct super *super; /* NULL: nowhere */
    unsigned first, slabs;
};
struct place shard_find(struct span_shard *shard, const struct span_request *request);

/* The lowest place of count slabs in a row out of a set, aligned; SUPER_SLABS: nowhere. */
unsigned shard_find_run(uint32_t slabs, size_t count, size_t alignment);

/* Lets a shard have a SuperSlab that no list knows: adopt puts it on none, add on all. */
void shard_adopt(struct span_shard *shard, struct super *super);
void shard_add(struct span_shard *shard, struct super *super);

/* Puts a SuperSlab on the lists where it belongs. Of those that are wholly free as many
 * stay with the shard as the profile keeps warm; another leaves for the arena. */
void shard_settle(struct span_shard *shard, struct super *super, uint64_t now_ms);

/* Those of the SuperSlabs [first, first + count) of the window that the shard keeps
 * warm leave for the arena, where a run can have them. */
void shard_release_warm(struct span_shard *shard, size_t first, size_t count);
void shard_release_all_warm(struct span_shard *shard);

/* Slabs of a SuperSlab that are on the lists are free no more; or are free again. */
void shard_take(struct span_shard *shard, struct super *super, uint32_t slabs);
void shard_give(struct span_shard *shard, struct super *super, uint32_t slabs);

/* Taken slabs are free again after an attempt to purge them; which of them are zero now. */
void shard_give_purged(struct span_shard *shard, struct super *super, uint32_t slabs,
                       uint32_t zero);

/* Every byte counts now: SuperSlabs with free slabs go back to the kernel by slabs, huge
 * pages or not. */
void shard_break_up(struct span_shard *shard);

/* --- purge.c; the lock is not held --- */

/* The shard has grown by pages never touched: dirty ones go for them. */
void span_trade(unsigned shard, size_t grown_bytes);

#endif
