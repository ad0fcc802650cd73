/* What the files of this layer share and other layers do not use. */
#ifndef HAK_CACHE_BINS_H
#define HAK_CACHE_BINS_H

#include "cache/cache.h"

enum { FOREIGN_CAPACITY = 63 }; /* blocks in a foreign bin, at most */

/* --- slots.c --- */

/* The least kind of array that has so many slots. */
unsigned slots_kind(unsigned slots);

/* An array of a kind, its first slot NULL; NULL when out of memory. And its return. */
void **slots_take(struct thread *thread, unsigned kind);
void slots_give(struct thread *thread, void **array, unsigned kind);

/* For checks: whether so many slots, which may be anywhere, are among those of the thread. */
bool slots_contain(const struct thread *thread, void *const *array, size_t slots);

/* Forgets all arrays of a thread that has no bin open, and gives their pages back. */
void slots_release(struct thread *thread);

/* --- flush.c --- */

/* Gives the oldest count blocks of a bin home, those just above its base. */
void bin_flush_oldest(struct bin *bin, void **base, unsigned class, unsigned count);

/* Gives all of them home; the second returns how many. */
void bin_flush_own(struct thread *thread, unsigned class);
unsigned bin_flush_foreign(struct bin *bin, unsigned class);
void bins_flush_foreign(struct thread *thread);

/* Calls visit for each open foreign bin. */
void bins_each_foreign(struct thread *thread,
                       void (*visit)(struct thread *, struct bin *, unsigned class));

/* --- bins.c --- */

/* Opens the own bin of a class, if the class is worth one and the budget has room. */
void bin_open_own(struct thread *thread, unsigned class);

/* After a miss: an open own bin grows, or shrinks where the budget has. */
void bin_adapt(struct thread *thread, unsigned class);

/* A refill of class made the shard grow by fresh slabs. */
void bins_note_growth(struct thread *thread, unsigned class, unsigned fresh);

/* For guard sampling, which sees no more than the blocks that leave refills: parks a few own bins,
 * of each class in turn, so that the next call of each is slow. */
void bins_park(struct thread *thread, uint64_t now_ms);

/* An own bin that is parked with blocks in it is as before; false: it was not. If it is for a call
 * of that size, they count. */
bool bin_unpark(struct thread *thread, unsigned class);
bool bin_unpark_for_call(struct thread *thread, unsigned class);

/* Blocks count for guard sampling as if they had left a refill. */
void bin_count_for_guard(struct thread *thread, unsigned class, unsigned blocks);

/* Blocks of a class came from slabs, or went to slabs. */
void bins_note_moved(struct thread *thread, unsigned class, unsigned taken, unsigned given);

/* The heap has lost a good part of its blocks: if this thread only gives, its own bins go
 * home, and all but the smallest halve. */
void bins_note_shrinking(struct thread *thread);

/* A look for bins at rest: an own bin that has not missed since the last look but one, and held
 * as many blocks at both as it does now, goes home and halves. Foreign bins all go home. */
void bins_age(struct thread *thread);

/* Classes in use get the page that their next block may be the first of. */
void bins_look_ahead(struct thread *thread);

/* Opens a foreign bin, if the class is worth one and the budget has room; else its blocks go
 * home one by one. */
bool bin_open_foreign(struct thread *thread, struct bin *bin, unsigned row, unsigned class);

/* How many blocks a foreign bin of a class holds: half of a batch at first, all of it where there
 * is ample room, and several batches for who only gives. 0: the class has none. */
enum foreign_size { FOREIGN_FIRST, FOREIGN_AMPLE, FOREIGN_GIVER };
unsigned foreign_capacity(unsigned class, enum foreign_size size);

/* After it was full and its blocks went home: a foreign bin becomes as large as it should be, and
 * is closed where the thread is over its budget. */
void bin_adapt_foreign(struct thread *thread, struct bin *bin, unsigned class);

#endif
