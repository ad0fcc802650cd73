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
#include "os/metadata.h"
#include "span/arena.h"
#include "span/large.h"
#include "span/purge.h"
#include "span/shard.h"

typedef void lock_action(struct os_lock *lock);

/* Applies action to every lock, in rank order. Pools that are not open have no
 * lock worth taking, and stay so, for pools_opening_lock is held. */
static void for_each_lock(lock_action *action) {
    unsigned shards = slab_shard_count();
    action(&purge_lock);
    action(&front_start_lock);
    action(&registry_lock);
    action(&pools_opening_lock);
    for (unsigned s = 0; s < shards; s++) {
        for (unsigned class = 1; class < CLASS_COUNT; ++class) {
            struct pool *pool = &pools[s][class];
            if (atomic_load_explicit(&pool->is_open, memory_order_acquire))
                action(&pool->lock);
        }
    }
    for (unsigned s = 0; s < shards; s++)
        action(&span_shards[s].lock);
    action(&arena_lock);
    action(&huge_lock);
    action(&os_metadata_lock);
}

static void acquire(struct os_lock *lock) { os_lock_acquire(lock); }
static void release(struct os_lock *lock) { os_lock_release(lock); }
static void reset(struct os_lock *lock) { os_lock_reset(lock); }

static void prepare(void) {
    for_each_lock(acquire);
    os_lock_pass_begin();
}

static void in_parent(void) {
    os_lock_pass_end();
    for_each_lock(release);
}

static void in_child(void) {
    os_lock_pass_end();
    for_each_lock(reset);
    scavenger_forget();
    registry_orphan_all_but(front_tls.cache->thread);
}

void front_register_fork(void) { pthread_atfork(prepare, in_parent, in_child); }
