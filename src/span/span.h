/* Spans: runs of slabs, taken from and given back to the SuperSlabs of a shard.
 * See span.c. Thread safe unless a line says otherwise. */
#ifndef HAK_SPAN_SPAN_H
#define HAK_SPAN_SPAN_H

#include "base/finding.h"
#include "span/super.h"

/* For so many shards, and one more behind them, which no thread belongs to: of guarded blocks
 * (modes/guard.c). Few, and kept long, they would hold SuperSlabs of others. */
void span_init(unsigned shard_count);
hak_global unsigned span_shards_used; /* with that one */
hak_inline unsigned span_shard_count(void) { return span_shards_used; }
hak_inline unsigned span_guard_shard(void) { return span_shard_count() - 1; }

/* Pages that have been used cost no fault, but are resident, all of them; untouched ones
 * become so one by one as they are written. */
enum span_pages {
    SPAN_USED,          /* of the shard, as long as it has room */
    SPAN_USED_ANYWHERE, /* the arena's before untouched ones of the shard: the heap does not grow
                         * for a span beside free memory, but long blocks find that in pieces */
    SPAN_UNTOUCHED,
};

struct span_request {
    size_t slabs;
    size_t slabs_least; /* taken instead where only that can be had of used pages */
    size_t alignment;   /* of the first slab, in slabs: a power of two */
    enum span_state state;
    enum span_pages pages; /* preferred */
    size_t zero_bytes;     /* so many from the start shall read as zero */
    bool grows;            /* more like it will follow: it may have blank slabs (span/super.h), and
                            * a fresh SuperSlab become a huge page */
    bool is_last;          /* nothing else is left: so may this */
};

/* Slabs in a row. *is_zero says whether all of it reads as zero, or as much as was asked for: then
 * what has been used of it was cleared, and the rest not touched. NULL: out of memory.
 * Its map entries may be stale: the caller writes all of them. */
struct span *span_take(unsigned shard, const struct span_request *request, bool *is_zero);

/* SuperSlabs that a shard keeps though they are wholly free are there for long spans, too. */
void span_release_warm(unsigned shard);

/* The caller has cleared what map entries must not be found any more. */
void span_give(struct span *span);

/* Gives back the large block that starts at start, if that is what span is. */
bool span_give_large(struct span *span, const void *start);

/* Makes a span of SPAN_LARGE shorter, or longer where the slabs behind it are
 * free. slabs > 0. Called by its owner. */
bool span_resize(struct span *span, size_t slabs);

hak_inline size_t span_bytes(const struct span *span) { return (size_t)span->slabs * SLAB_BYTES; }

/* The last span that starts at or below a pointer, if it reaches that far; else NULL. */
hak_inline struct span *span_up_to(struct span *span, const void *pointer) {
    return (const char *)pointer < span->start + span_bytes(span) ? span : NULL;
}

/* The span in use that covers a pointer in the window, or NULL. Exact for pointers to live
 * blocks; a guess that needs checking under a lock for others. */
struct span *span_of_long(const void *pointer); /* one that began in an earlier SuperSlab */
hak_inline struct span *span_of(const void *pointer) {
    size_t slab = window_slab_index(pointer);
    struct super *super = window_super(slab / SUPER_SLABS);
    if (hak_unlikely(super == NULL))
        return NULL;
    uint32_t heads = atomic_load_explicit(&super->heads, memory_order_acquire);
    heads &= slab_mask(0, slab % SUPER_SLABS + 1);
    if (hak_unlikely(heads == 0))
        return span_of_long(pointer);
    return span_up_to(&super->spans[bit_highest(heads)], pointer);
}

/* Purges what has been free and dirty for as long as the profile's decay time, of a shard
 * and the arena; true: there is more, not as old yet. Called now and then from slow paths
 * without locks held. One thread at a time does it; another that comes meanwhile goes on. */
bool span_decay(unsigned shard, uint64_t now_ms);

/* The same of all shards; keeps_some: but for what the profile keeps for ever. */
bool span_decay_all(uint64_t now_ms, bool keeps_some);

/* A heap that grows gives back dirty memory for the fresh it takes: free slabs when a span
 * is taken; for more, the caller asks how many bytes may go besides, and tells how many went. */
size_t span_may_trade(unsigned shard);
void span_traded(unsigned shard, size_t bytes);

/* Purges what is free and dirty, that of a shard first, until the heap is below its soft
 * limit; returns bytes. */
size_t span_purge_excess(unsigned shard);

/* Purges all that is free and dirty, whatever its age; returns bytes. */
size_t span_purge_all(void);

/* --- collapse.c --- */

/* Whether SuperSlabs that are in memory all over are to become huge pages: by the profile, in a
 * large heap. No call. And a step of it, for the scavenger alone. */
bool span_may_collapse(void);
void span_collapse(void);

/* Whether a huge page for what a heap grows by takes not much longer now than single pages. */
bool span_collapse_is_worth_it(void);

/* Makes one of an untouched SuperSlab that is the caller's, if it is worth it; all of it is blank
 * and counted then. false: nothing has changed. */
bool span_collapse_fresh(struct super *super);

/* The other way: faults in whole pages of a fresh span. false: they are not there. */
bool span_populate(void *start, size_t bytes);

/* Whether a span is part of a huge page that was made here, and not split since. */
hak_inline bool span_is_collapsed(const struct span *span) {
    const struct super *super = window_super(window_super_index(span->start));
    return atomic_load_explicit(&super->is_collapsed, memory_order_relaxed);
}

/* Parts of the SuperSlabs in [start, start + bytes) are about to be purged or moved. */
void span_split(const char *start, size_t bytes);

/* SuperSlabs, since the start. What was purged as a whole needed no split. */
struct collapse_stats {
    uint64_t collapsed, split;
};
struct collapse_stats span_collapse_stats(void);

struct span_stats {
    size_t super_count, large_count, large_bytes, free_bytes, dirty_bytes;
    uint64_t large_taken, large_given;
};
struct span_stats span_stats(void);

/* --- check.c ------------------------------------------------------------------- */

/* Whether SuperSlabs, spans, the class map and huge blocks agree; else *finding says what
 * does not. is_alone: no other thread is inside the allocator, nor was one in the moment of a
 * fork; then also what threads change without a lock must be as they leave it. */
bool span_check(struct finding *finding, bool is_alone);

#endif
