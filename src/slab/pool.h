/* The pools' inside, for the files of this layer alone; others use slab.h. See pool.c.
 * The pool's lock is held in every function but pool_lock and pool_give_retired. */
#ifndef HAK_SLAB_POOL_H
#define HAK_SLAB_POOL_H

#include "slab/slab.h"

/* The pool that a span's blocks go home to, shard and class in one word:
 *
 *   | shard, 8 bits | class, 8 bits |     0: none, for there is no class 0
 *
 * A span enters and leaves a pool under its lock. So who holds the lock of a pool and then
 * reads that this is the span's home may rely on it until the lock is released. Read one
 * after the other, the class may be that of one pool and the shard that of the next
 * (home.pml). */
_Static_assert(MAX_SHARDS <= 256 && CLASS_COUNT <= 256, "a home fits 16 bits");

hak_inline uint16_t home_make(unsigned shard, unsigned class) {
    return (uint16_t)(shard << 8 | class);
}
hak_inline unsigned home_shard(uint16_t home) { return home >> 8; }
hak_inline unsigned home_class(uint16_t home) { return home & 0xff; }

hak_inline uint16_t span_home(const struct span *span) {
    return atomic_load_explicit(&span->home, memory_order_relaxed);
}
hak_inline void span_set_home(struct span *span, uint16_t home) {
    atomic_store_explicit(&span->home, home, memory_order_relaxed);
}

/* 0: it holds no blocks. */
hak_inline unsigned span_class(const struct span *span) { return home_class(span_home(span)); }

/* Locks a class's pool in a shard, setting it up at its first use. */
void pool_open(struct pool *pool);
hak_inline struct pool *pool_lock(unsigned shard, unsigned class) {
    struct pool *pool = &pools[shard][class];
    if (hak_unlikely(!atomic_load_explicit(&pool->is_open, memory_order_acquire)))
        pool_open(pool);
    os_lock_acquire(&pool->lock);
    return pool;
}

/* Locks the pool that a slab belongs to, wherever it wanders meanwhile; NULL: it is none. */
struct pool *pool_lock_of(struct span *span);

/* Of a counter that others read without the lock. */
hak_inline void pool_count(_Atomic uint32_t *counter, int change) {
    uint32_t count = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, count + (uint32_t)change, memory_order_relaxed);
}

/* The list that a slab's number of free blocks asks for; FILL_UNLISTED: none. And the number of
 * free blocks from which one on that list, which only gets blocks back, must be settled. */
unsigned pool_wanted_rank(const struct span *span);
unsigned pool_settles_at(const struct span *span, unsigned rank);

/* Puts a slab on the list that its number of free blocks asks for; takes it off all. */
void pool_settle(struct pool *pool, struct span *span);
void pool_unlist(struct pool *pool, struct span *span);

/* A slab with free blocks out of the fullest quarter that has one, or NULL. */
struct span *pool_fullest(struct pool *pool);

/* Whether all blocks that it hands out are free. */
hak_inline bool pool_is_empty(const struct span *span) {
    unsigned kept = slab_keeps_first(class_size(span_class(span)));
    return span->free_count + kept == span->capacity;
}

/* The slabs of a span for one block alone, of a class over a slab; 0: its blocks share spans. */
hak_inline unsigned pool_single_slabs(unsigned class) {
    size_t size = class_size(class);
    return size > SLAB_BYTES ? (unsigned)divide_up(size, SLAB_BYTES) : 0;
}

/* A wholly free slab is retired, unless it is worth keeping. */
void pool_settle_empty(struct pool *pool, struct span *span, struct list *retired);

/* Both for a slab that has got blocks back. Seldom is there anything to do: a slab is given
 * to in many small steps. */
hak_inline void pool_settle_given(struct pool *pool, struct span *span, struct list *retired) {
    if (hak_likely(span->free_count < span->settles_at))
        return;
    pool_settle(pool, span);
    pool_settle_empty(pool, span, retired);
}

/* Writes a map entry for each slab of a span. */
void pool_write_entries(const struct span *span, uint16_t entry);

/* A wholly free span stops being a slab of this class; it moves to retired, whose members
 * go back to their SuperSlabs once the lock is released. */
void pool_retire(struct pool *pool, struct span *span, struct list *retired);
void pool_give_retired(struct list *retired);

/* --- pages.c ------------------------------------------------------------------ */

/* No page of a new slab is marked as purged; so many bytes of it are resident, untouched. */
void pages_begin(struct span *span, size_t populated_bytes);

/* All blocks between from and to, in a slab that has purged pages, are with threads or the
 * program now; true if the pages there read as zero, all of them. */
bool pages_taken(struct span *span, const char *from, const char *to);

/* For checks, with slab_pages_lock held: whether all blocks on pages that are marked as
 * purged are free. */
bool pages_marks_hold(const struct span *span);

/* A shard has grown by a fresh slab: if it goes on growing, pages of quiet slabs go. Locks
 * of pools are not held. */
void pages_trade(unsigned shard);

/* A step as upkeep makes it, and what it did: SuperSlabs looked at, 0 while another thread
 * purges; bytes given back; whether it came round. */
struct pages_step {
    size_t supers, bytes;
    bool turn_ended;
};
struct pages_step pages_purge_step(void);

/* --- shrink.c ------------------------------------------------------------------ */

/* Blocks of the pool's class have been taken, or given if that is negative. A pool keeps small
 * changes to itself. */
enum { SHRINK_TOLD_BYTES = 16 * 1024 };
void shrink_tell(int64_t bytes);
hak_inline void shrink_count(struct pool *pool, unsigned class, int64_t blocks) {
    int64_t bytes = pool->untold_bytes + blocks * (int64_t)class_size(class);
    bool is_told = bytes >= SHRINK_TOLD_BYTES || bytes <= -SHRINK_TOLD_BYTES;
    pool->untold_bytes = (int16_t)(is_told ? 0 : bytes);
    if (is_told)
        shrink_tell(bytes);
}

#endif
