/* Fork with other threads inside the allocator.
 *
 * The child has one thread, and a copy of memory in which the others may have
 * been anywhere. So before the fork the forking thread takes every lock, in rank
 * order; then nobody is inside a locked section, and all shared structures are
 * whole. In the child the locks are simply made free again.
 *
 * Between the handlers other libraries' handlers run, in the same thread, and
 * may allocate: from prepare on this thread passes all locks (os/lock.h).
 *
 * Blocks in the bins of threads that are gone are reclaimed later, thread by
 * thread, when the child makes slow calls: most children call exec first, and
 * should not pay for it. */
#include <pthread.h>

#include "front/front.h"
#include "modes/guard.h"
#include "os/metadata.h"
#include "span/arena.h"
#include "span/large.h"
#include "span/purge.h"
#include "span/shard.h"

/* Pools that are not open have no lock worth taking; when a fork takes all locks they
 * stay so, for pools_opening_lock is held. */
void front_each_lock(front_lock_visit *visit, void *context) {
    unsigned shards = slab_shard_count();
    for (unsigned s = 0; s < shards; s++)
        visit(RANK_GROWTH, slab_growth_lock(s), context);
    visit(RANK_PURGE, &purge_lock, context);
    visit(RANK_START, &front_start_lock, context);
    visit(RANK_CALLBACKS, &front_callbacks_lock, context);
    visit(RANK_GUARD, &guard_lock, context);
    visit(RANK_REGISTRY, &registry_lock, context);
    visit(RANK_PAGES, &slab_pages_lock, context);
    visit(RANK_OPENING, &pools_opening_lock, context);
    for (unsigned s = 0; s < shards; s++) {
        for (unsigned class = 1; class < CLASS_COUNT; ++class) {
            struct pool *pool = &pools[s][class];
            if (atomic_load_explicit(&pool->is_open, memory_order_acquire))
                visit(RANK_CLASS, &pool->lock, context);
        }
    }
    for (unsigned s = 0; s < span_shard_count(); s++)
        visit(RANK_SPANS, &span_shards[s].lock, context);
    visit(RANK_ARENA, &arena_lock, context);
    visit(RANK_HUGE, &huge_lock, context);
    visit(RANK_METADATA, &os_metadata_lock, context);
}

static void acquire(enum lock_rank rank, struct os_lock *lock, void *context) {
    (void)rank, (void)context;
    os_lock_acquire(lock);
}

/* All but the one that keeps pools shut: once it is free, other threads open pools, whose
 * locks are theirs and were never taken here. */
static void release(enum lock_rank rank, struct os_lock *lock, void *context) {
    (void)context;
    if (rank != RANK_OPENING)
        os_lock_release(lock);
}

static void reset(enum lock_rank rank, struct os_lock *lock, void *context) {
    (void)rank, (void)context;
    os_lock_reset(lock);
}

static void prepare(void) {
    front_each_lock(acquire, NULL);
    os_lock_pass_begin();
}

static void in_parent(void) {
    os_lock_pass_end();
    front_each_lock(release, NULL);
    os_lock_release(&pools_opening_lock);
}

static void in_child(void) {
    os_lock_pass_end();
    front_each_lock(reset, NULL);
    scavenger_forget();
    front_callbacks_forked();
    registry_orphan_all_but(front_tls.cache->thread);
    guard_forked(front_tls.cache->thread);
}

void front_register_fork(void) { pthread_atfork(prepare, in_parent, in_child); }
