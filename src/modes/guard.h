/* Guard sampling: now and then a block lies alone between inaccessible pages. See guard.c.
 *
 * Thread safe. */
#ifndef HAK_MODES_GUARD_H
#define HAK_MODES_GUARD_H

#include "cache/cache.h"

/* At the start, once the options are known. */
void guard_start(void);

/* At a thread's birth: when its next block is to be guarded. */
void guard_begin(struct thread *thread);

/* In the child of a fork, whose only thread this is (NULL: it has no blocks yet). */
void guard_forked(struct thread *thread);

/* Whether blocks are guarded so often that every call has to be seen, not only refills. */
bool guard_counts_calls(void);

/* Whether a thread's next block of a bin is to be guarded, of those that count by batches. */
hak_inline bool guard_is_due(const struct thread *thread, unsigned bin) {
    return (thread->until_guard < 0 || thread->owed_class == bin) && bin < CLASS_COUNT;
}

/* At the end of a call in which blocks of a class have counted: if one is still to be guarded,
 * because it was a free, or because two of them were to be, it will be the next of that class. */
void guard_owe(struct thread *thread, unsigned class);

/* A watched thread is about to take a block: is this one to be guarded? */
bool guard_counts(struct thread *thread);

/* At which end of its pages a block lies, so that it is seen at once what goes beyond. */
enum guard_side { GUARD_BY_CHANCE, GUARD_LEFT, GUARD_RIGHT };

/* Of each size class the first blocks, so many still, are guarded whatever the rate is. */
hak_global _Atomic uint32_t guard_first_left[CLASS_COUNT];
hak_inline bool guard_wants_first(unsigned bin) {
    return bin < CLASS_COUNT &&
           hak_unlikely(atomic_load_explicit(&guard_first_left[bin], memory_order_relaxed) != 0);
}

/* A watched thread is about to take a block of a bin: is it one of those, and on which side? */
bool guard_counts_first(unsigned bin, enum guard_side *side);

/* Any thread is about to take a large one, of so many bytes. */
bool guard_counts_large(struct thread *thread, size_t size);

/* Whether busy threads, whose bins serve them for long, should have one closed now and then. */
bool guard_wants_refills(void);
void guard_ask_for_refill(void);

/* Instead of a block of size bytes at a multiple of alignment, a power of two up to SLAB_BYTES;
 * asked: what the program asked for, which may be less. NULL: not this time. Zero but for what
 * surrounds it. */
void *guard_take(struct thread *thread, size_t size, size_t alignment, size_t asked,
                 enum guard_side side);

/* Of blocks whose map entry names BIN_GUARD. Both end the process if block is none that is in
 * use; the first also if something was written beside it, or if it is no multiple of
 * told_alignment, or cannot be of told_size bytes (SIZE_MAX: not told): between what was asked for
 * and what a size class has. */
void guard_give(void *block, size_t told_size, size_t told_alignment);
size_t guard_usable_bytes(const void *block, const char *operation);

/* The guarded block in use that covers a pointer, for the first to ask; else NULL. */
void *guard_reach(const void *pointer, size_t *bytes);

/* Memory is short: what freed blocks keep inaccessible can be had again. */
void guard_release(void);

struct guard_stats {
    uint64_t taken;
    size_t live, freed; /* blocks with the program; freed ones that nobody may touch */
};
struct guard_stats guard_stats(void);

hak_global struct os_lock guard_lock;

#endif
