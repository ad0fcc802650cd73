/* The slabs of a class in a shard: which list each is on.
 *
 *   partial[0] -> slab -> slab     under a quarter free: used first
 *   partial[1] -> slab
 *   ...
 *
 * Full slabs are on no list: the first block that comes home puts them back on one. */
#include "slab/pool.h"

enum {
    BUSY_TURNS = 4, /* how often a class must go through a slab's blocks to keep an empty one */
};

struct pool (*pools)[CLASS_COUNT];
struct os_lock pools_opening_lock;

/* Sets up a pool's lists at its first use, so that the thousands of pools that a
 * program never uses cost nothing. */
hak_cold void pool_open(struct pool *pool) {
    os_lock_acquire(&pools_opening_lock);
    if (!atomic_load_explicit(&pool->is_open, memory_order_relaxed)) {
        for (unsigned rank = 0; rank < FILL_RANKS; rank++)
            list_init(&pool->partial[rank]);
        /* A forking thread passes all locks because it holds them: this one too. */
        if (os_lock_is_passed())
            atomic_store_explicit(&pool->lock.state, LOCK_HELD, memory_order_relaxed);
        /* Pairs with the acquire in pool_lock. */
        atomic_store_explicit(&pool->is_open, true, memory_order_release);
    }
    os_lock_release(&pools_opening_lock);
}

struct pool *pool_lock_of(struct span *span) {
    for (;;) {
        uint16_t home = span_home(span);
        if (home == 0)
            return NULL;
        struct pool *pool = pool_lock(home_shard(home), home_class(home));
        if (span_home(span) == home)
            return pool;
        os_lock_release(&pool->lock);
    }
}

unsigned pool_wanted_rank(const struct span *span) {
    if (span->free_count == 0)
        return FILL_UNLISTED;
    return (span->free_count * (unsigned)FILL_RANKS - 1) / span->capacity;
}

unsigned pool_settles_at(const struct span *span, unsigned rank) {
    if (rank == FILL_UNLISTED)
        return 1;
    if (rank == FILL_RANKS - 1)
        return span->capacity - 1u; /* all, or all but the one that it keeps */
    return (rank + 1) * span->capacity / FILL_RANKS + 1;
}

static void set_rank(struct span *span, unsigned rank) {
    span->fill_rank = (uint8_t)rank;
    span->settles_at = (uint16_t)pool_settles_at(span, rank);
}

/* Puts a slab on the list that its number of free blocks asks for. */
void pool_settle(struct pool *pool, struct span *span) {
    unsigned rank = pool_wanted_rank(span);
    if (rank == span->fill_rank)
        return;
    if (span->fill_rank == FILL_UNLISTED)
        pool_count(&pool->partial_count, 1);
    else
        list_remove(&span->link);
    if (rank == FILL_UNLISTED)
        pool_count(&pool->partial_count, -1);
    else
        list_push_front(&pool->partial[rank], &span->link);
    set_rank(span, rank);
}

void pool_unlist(struct pool *pool, struct span *span) {
    if (span->fill_rank == FILL_UNLISTED)
        return;
    list_remove(&span->link);
    pool_count(&pool->partial_count, -1);
    set_rank(span, FILL_UNLISTED);
}

struct span *pool_fullest(struct pool *pool) {
    for (unsigned rank = 0; rank < FILL_RANKS; rank++) {
        if (!list_is_empty(&pool->partial[rank]))
            return container_of(pool->partial[rank].next, struct span, link);
    }
    return NULL;
}

void pool_write_entries(const struct span *span, uint16_t entry) {
    size_t first = window_slab_index(span->start);
    for (size_t i = 0; i < span->slabs; i++)
        window_entry_set(first + i, entry);
}

void pool_retire(struct pool *pool, struct span *span, struct list *retired) {
    pool_unlist(pool, span);
    populate_learn(pool, span);
    pool_count(&pool->slab_count, -span->slabs);
    pool->free_blocks -= span->free_count;
    span_set_home(span, 0);
    pool_write_entries(span, 0);
    list_push_back(retired, &span->link);
}

void pool_settle_empty(struct pool *pool, struct span *span, struct list *retired) {
    if (!pool_is_empty(span))
        return;
    bool is_last = atomic_load_explicit(&pool->partial_count, memory_order_relaxed) == 1;
    bool is_busy = pool->taken >= (uint64_t)span->capacity * BUSY_TURNS;
    if (!is_last || !is_busy || span->slabs > options_profile()->warm_slabs ||
        pool_single_slabs(span_class(span)) != 0)
        pool_retire(pool, span, retired);
}

void pool_give_retired(struct list *retired) {
    while (!list_is_empty(retired)) {
        struct span *span = container_of(retired->next, struct span, link);
        list_remove(&span->link);
        span_give(span);
    }
}
