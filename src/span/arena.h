/* The window's SuperSlabs that belong to no shard: taken and given by the run.
 * See arena.c. Thread safe. */
#ifndef HAK_SPAN_ARENA_H
#define HAK_SPAN_ARENA_H

#include "os/lock.h"
#include "span/purge.h"
#include "span/super.h"

void arena_init(void);

/* count SuperSlabs in a row, the first at a multiple of alignment SuperSlabs (a
 * power of two), committed, every slab free. The caller owns them. NULL: out of
 * memory or addresses. */
struct super *arena_take(size_t count, size_t alignment);

/* Such a run apart from what others have, at the window's end, while there is room. */
struct super *arena_take_apart(size_t count);

/* One that has been used: the first such of a run; NULL: none of those looked at. */
struct super *arena_take_used(void);

/* Whether so many lie free side by side that have all been used, so that the next such request
 * need not have the heap grow. A hint: true now; and where very many lie free, not looked for. */
bool arena_has_used(size_t count);

/* Takes exactly the SuperSlabs [index, index + count) if all are free. */
bool arena_take_at(size_t index, size_t count);

/* Gives one back; all its slabs are free. now_ms: when it became so. */
void arena_give(struct super *super, uint64_t now_ms);

/* Purges free SuperSlabs. Called with purge_lock alone. */
void arena_purge(struct purge *purge);

/* Both change under the lock, and are read without as hints. */
struct arena_hints {
    _Atomic size_t taken;
    _Atomic bool looks_dirty;
};
hak_global struct arena_hints arena_hints;

/* SuperSlabs that shards or runs have: how large the heap is, roughly. */
hak_inline size_t arena_taken(void) {
    return atomic_load_explicit(&arena_hints.taken, memory_order_relaxed);
}

/* Whether arena_purge would find any. */
hak_inline bool arena_looks_dirty(void) {
    return atomic_load_explicit(&arena_hints.looks_dirty, memory_order_relaxed);
}

/* The first index from this one on whose SuperSlab may ever have been used: below
 * window_super_count, or not if there is none. And how many such there are. */
size_t arena_known(size_t index);
size_t arena_known_count(void);

struct arena_stats {
    size_t reserved_bytes;  /* address space */
    size_t committed_bytes; /* that may be touched */
    size_t free_bytes;      /* committed, owned by no shard */
    size_t dirty_bytes;     /* of those: not yet given back to the kernel */
};
struct arena_stats arena_stats(void);

/* What check.c holds against the descriptors. Valid while arena_lock is held. */
struct arena_view {
    const uint64_t *free_set;      /* bit i: SuperSlab i is free */
    size_t frontier, ceiling;      /* bits in between do not count */
    size_t reserved, committed;    /* SuperSlabs */
    const struct list *dirty_list; /* by dirty_link */
};
struct arena_view arena_view(void);

/* As arena_known. */
hak_inline size_t arena_view_known(const struct arena_view *arena, size_t index) {
    return index >= arena->frontier && index < arena->ceiling ? arena->ceiling : index;
}

hak_global struct os_lock arena_lock;

#endif
