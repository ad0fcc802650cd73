/* Which blocks a program that moves its own objects had better move.
 *
 *   slab A  | L L L L L L f L L L |    where new blocks come from
 *   slab B  | f f L f f f f f f f |    one block holds 64 KiB: it should move
 *
 * A slab's blocks are worth moving if it is no fuller than the slabs of its class in its
 * shard are on average, if these have room for its blocks, and if new blocks do not come
 * from this very slab. Each block that moves makes the others fuller on average, so that
 * after a few rounds over all objects every slab is either full or empty, but for one.
 *
 * Lock: that of the block's pool, for a few loads. The answer is true at that moment. */
#include "slab/pool.h"

enum { WORTH_MOVING_SHARE = 8 }; /* a slab of which less than 1/8 is free stays as it is */

static bool is_sparse(struct pool *pool, const struct span *span) {
    uint64_t slab_count = atomic_load_explicit(&pool->slab_count, memory_order_relaxed);
    unsigned used = (unsigned)span->capacity - span->free_count;
    bool has_room = span->free_count * (unsigned)WORTH_MOVING_SHARE >= span->capacity;
    bool is_below_average = span->free_count * slab_count >= pool->free_blocks * span->slabs;
    bool others_have_room = pool->free_blocks - span->free_count >= used;
    return has_room && is_below_average && others_have_room && pool_fullest(pool) != span;
}

bool slab_is_sparse(const void *block, unsigned class) {
    struct span *span = span_of(block);
    struct pool *pool = span != NULL ? pool_lock_of(span) : NULL;
    if (pool == NULL)
        return false;
    bool sparse = span_class(span) == class && is_sparse(pool, span);
    os_lock_release(&pool->lock);
    return sparse;
}
