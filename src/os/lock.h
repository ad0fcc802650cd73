/* A lock that sleeps in the kernel when it must wait, and that a forking thread can walk
 * through. See lock.c.
 *
 * Each lock counts how often it was taken and how often that meant waiting
 * (docs/reference/statistics.md).
 *
 * Ranks: a thread takes locks in this order only, and holds at most one of each
 * rank but for the exceptions named; fork takes all.
 *
 *   growth     one per shard: slabs on their way into its pools; held across calls into
 *              the kernel that bring their pages: who waits wants those slabs
 *   purge      slabs that are on no list while the kernel takes their pages
 *   start      the first call of all
 *   callbacks  what the program wants to be told
 *   guard      the blocks that are guarded, and what is known of them
 *   registry   the list of thread caches
 *   pages      one purge of pages inside slabs at a time; held across calls into the
 *              kernel, for fork to wait until it is over: nothing else waits for it
 *   opening    the first use of a class in a shard
 *   class      one per shard and size class: its slabs. A slab that moves from
 *              one shard to another needs both, the lower shard's first
 *   spans      one per shard: its SuperSlabs
 *   arena      the window's SuperSlabs
 *   huge       the table of huge blocks
 *   metadata   memory for descriptors
 *
 * Calls into the kernel are made outside them, with five exceptions, rare or wanted:
 * addresses are reserved under arena's (arena.c:grow), chunks mapped under metadata's, and so
 * under registry's or arena's, whose holder asks; a huge block and its table move under
 * huge's, where it costs nobody else a wait; and growth's and purge's are there to be held
 * meanwhile.
 */
#ifndef HAK_OS_LOCK_H
#define HAK_OS_LOCK_H

#include <stdatomic.h>

#include "base/base.h"

enum lock_rank {
    RANK_GROWTH,
    RANK_PURGE,
    RANK_START,
    RANK_CALLBACKS,
    RANK_GUARD,
    RANK_REGISTRY,
    RANK_PAGES,
    RANK_OPENING,
    RANK_CLASS,
    RANK_SPANS,
    RANK_ARENA,
    RANK_HUGE,
    RANK_METADATA,
    RANK_COUNT,
};

enum { LOCK_FREE, LOCK_HELD, LOCK_HELD_WITH_WAITERS };

/* All zero is a free lock that nobody ever took. Its holder counts, so that counting
 * needs no atomic operation, and touches no line but the one that the lock is on. */
struct os_lock {
    _Atomic uint32_t state;     /* LOCK_… */
    _Atomic uint64_t acquired;  /* times */
    _Atomic uint64_t contended; /* of them, when somebody else held it: the taker spun or slept */
};

/* The thread that forks, between its taking all locks and giving them back; 0
 * else. Compared with os_thread_identity(). */
hak_global _Atomic uintptr_t os_lock_forker;

uintptr_t os_thread_identity(void);
void os_lock_wait(struct os_lock *lock);
void os_lock_wake(struct os_lock *lock);

hak_inline bool os_lock_is_passed(void) {
    uintptr_t forker = atomic_load_explicit(&os_lock_forker, memory_order_relaxed);
    return hak_unlikely(forker != 0) && forker == os_thread_identity();
}

/* Of a counter of the lock that the caller holds; statistics read it without. */
hak_inline void os_lock_count(_Atomic uint64_t *counter) {
    uint64_t count = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, count + 1, memory_order_relaxed);
}

hak_inline bool os_lock_try(struct os_lock *lock) {
    if (os_lock_is_passed())
        return true;
    uint32_t expected = LOCK_FREE;
    /* atomic: warm, correctness; pairs with the release of the holder before. */
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, LOCK_HELD,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    os_lock_count(&lock->acquired);
    return true;
}

hak_inline void os_lock_acquire(struct os_lock *lock) {
    if (hak_unlikely(!os_lock_try(lock)))
        os_lock_wait(lock);
}

hak_inline void os_lock_release(struct os_lock *lock) {
    if (os_lock_is_passed())
        return;
    /* atomic: warm, correctness; pairs with the acquire of the next holder, which
     * sees all writes made here. */
    uint32_t was = atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release);
    hak_assert(was != LOCK_FREE);
    if (hak_unlikely(was == LOCK_HELD_WITH_WAITERS))
        os_lock_wake(lock);
}

/* Sleeps until *word is not value, or somebody wakes it; and wakes all who sleep on it. */
void os_wait(_Atomic uint32_t *word, uint32_t value);
void os_wake(_Atomic uint32_t *word);

/* In the child of a fork: the lock is free and nobody waits. */
hak_inline void os_lock_reset(struct os_lock *lock) {
    atomic_store_explicit(&lock->state, LOCK_FREE, memory_order_relaxed);
}

/* The calling thread holds every lock: from here on it passes them all. */
void os_lock_pass_begin(void);
void os_lock_pass_end(void);

#endif
