/* Threads for tests of the cache without threads: each has a struct thread, and
 * the fast path as front/fast.h has it works on whichever the test names. */
#ifndef HAK_TESTS_UNIT_THREADS_H
#define HAK_TESTS_UNIT_THREADS_H

#include "cache/cache.h"

/* Starts all layers up to slab in a profile. */
void start_threads(const char *profile, unsigned shards);

/* A thread that has moved so much that its bins may be as large as the budget lets them. */
struct thread *busy_thread(void);

/* A block of a class for a thread, and back. The test keeps count of what it
 * holds: a block is never handed out twice. What time drives (cache_tick) does not
 * happen here, so that a scene ends the same on a busy machine. */
void *thread_malloc(struct thread *thread, unsigned class);
void thread_free(struct thread *thread, void *block);

/* How many of these calls left the fast path. */
uint64_t slow_calls_made(void);

/* Blocks of a class that the test holds. */
size_t blocks_held(unsigned class);

/* The bin of a thread's own row, how many blocks are in it, and how many it holds at most. */
struct bin *own_bin(struct thread *thread, unsigned class);
unsigned own_count(struct thread *thread, unsigned class);
unsigned own_capacity(const struct thread *thread, unsigned class);

/* As many blocks of a class as the profile lets an own bin hold. */
unsigned own_capacity_most(unsigned class);

/* All that a thread's bins must be at any time. */
void assert_thread_is_sound(struct thread *thread);

/* Flushes a thread and ends it. */
void thread_end(struct thread *thread);

/* Blocks of a class in the bins of a thread. */
size_t blocks_cached(struct thread *thread, unsigned class);

/* Nothing is lost: what left the slabs is with the test or in these threads' bins. */
void assert_all_accounted_for(struct thread *const *threads, size_t count);

#endif
