/* A thread's cache: what the fast path works on. See bins.c for its upkeep.
 *
 *   struct cache   row 0    row 1    ...   row 15        a row per shard
 *   struct row     bin 0 | bin 1 | ... | bin 223 | slots
 *   struct bin     top, limit
 *
 *   slots of a bin:  | NULL | p1 | p2 | p3 | ....... |
 *                      base         ^ top     ^ limit
 *
 * malloc pops from the thread's own row; the NULL at the base says "empty".
 * free pushes onto the bin that the block's map entry names (span/window.h): the
 * own row for blocks of the thread's own shard, other rows for foreign ones.
 * malloc never pops those; full, they go home in a batch (law 6).
 *
 * A bin that is shown empty and full, top at a NULL and limit 0, sends every
 * call to the slow path. That is how all modes work (law 2): a thread that has
 * not started, one that has ended, a bin not yet opened, a class too large for
 * bins, a watched thread.
 *
 * Who may touch what: only the owner changes a thread's cache, with two
 * exceptions. Any thread may store limit 0 to make the owner's next free of that
 * class slow (registry_ask_flush, registry_close_bin); and in the child of a fork the bins of
 * threads that did not survive are reclaimed. top and limit are relaxed atomics for those readers.
 */
#ifndef HAK_CACHE_CACHE_H
#define HAK_CACHE_CACHE_H

#include <stdatomic.h>

#include "base/finding.h"
#include "base/list.h"
#include "os/lock.h"
#include "slab/slab.h"

struct bin {
    void **_Atomic top;   /* the slot of the newest block, or one with NULL */
    void **_Atomic limit; /* the last slot that may be used */
};
_Static_assert(sizeof(struct bin) == BIN_BYTES, "map entries count in bins");

enum { ROW_SLOTS = (ROW_BYTES - BIN_COUNT * BIN_BYTES) / 8 };

struct row {
    struct bin bins[BIN_COUNT];
    void *slots[ROW_SLOTS]; /* the first small bins' slots lie close to them */
};
_Static_assert(sizeof(struct row) == ROW_BYTES, "map entries count in rows");

struct cache {
    struct row rows[ROW_COUNT];
    struct thread *thread; /* whose cache; NULL in the two shared ones */
};

/* Slots come in arrays of 8, 16 .. 512, the first slot of which holds the NULL. */
enum { SLOT_ARRAY_MIN = 8, SLOT_ARRAY_KINDS = 7, SLOT_ARRAY_MAX = 512 };
_Static_assert(SLOT_ARRAY_MIN << (SLOT_ARRAY_KINDS - 1) == SLOT_ARRAY_MAX, "a list for each");

/* Chunks that they are cut from, in pairs of 4, 8 .. 512 KiB. */
enum { SLOT_CHUNKS = 16, SLOT_CHUNK_MIN_BYTES = 4096 };

/* What the slow path knows of a bin of the thread's own row. */
struct bin_info {
    void **base;              /* NULL: not open */
    uint16_t capacity;        /* blocks; the real limit is base + capacity */
    _Atomic uint16_t parked;  /* blocks in it while it is shown empty and full (bins.c); else 0 */
    uint8_t kind;             /* of its slot array, which may be larger */
    bool was_used : 1;        /* missed since the last sweep for room or look by time, */
    bool was_used_lately : 1; /* since the last step of growth */
    bool was_emptied : 1;     /* by growth by chance: its next miss says nothing of its size */
    bool was_still : 1;       /* at the last look by time it held as many as at the one before */
    bool was_refused : 1;     /* while not open: there was no room for it */
    bool was_full : 1;        /* at its last miss; else empty */
    bool has_next_page : 1;   /* or wants none: its slab's next page is in memory (populate.c) */
    uint8_t level;            /* how many it held at the last look; while not open: what the thread
                               * had moved at the last miss, in such blocks. Low bits of either */
    uint8_t misses; /* in a row, all of them refills or all flushes; while not open: blocks
                     * taken without a bin */
};

struct thread {
    struct cache cache; /* the bins that hold its blocks */

    struct row *own;     /* the row that malloc pops: that of its shard */
    struct cache *cover; /* watched: all zero, shown instead of cache (modes); else NULL */
    struct exact_counts *_Atomic counts; /* of modes/exact.c, else NULL */
    _Atomic bool is_asked_to_flush;      /* by registry_ask_flush; answered in cache_tick */
    unsigned shard;
    uint16_t foreign_rows;                /* bit r: a bin of row r has been opened */
    unsigned sweep;                       /* where the next sweep for room starts */
    _Atomic uint64_t slow_calls;          /* since the start, those of threads before it included */
    uint64_t aged_ms;                     /* when its bins were last looked through, */
    uint64_t looked_ahead_ms;             /* and their slabs, for pages that come next */
    int64_t until_guard;                  /* blocks that may still leave refills before one is to be
                                           * guarded (modes/guard.c); below 0: it is time, */
    int64_t calls_until_guard;            /* and calls of malloc, where all are seen */
    uint16_t owed_class;                  /* whose next block is to be guarded; 0: none */
    uint8_t owed_parks;                   /* of its bin, by frees, since bins were parked by time */
    bool wants_refills;                   /* its bins are parked now and then for that: */
    bool has_unparked;                    /* one, since the last look at the clock */
    unsigned parked_class;                /* the latest one, */
    uint64_t parked_ms;                   /* and when that was */
    unsigned grown_slabs;                 /* since it last let go of idle small blocks, */
    uint64_t grew_ms;                     /* and when that was */
    size_t moved_bytes;                   /* to and from slabs; earns it larger bins */
    size_t surplus_bytes;                 /* given to slabs less taken; never below 0 */
    size_t promised_bytes;                /* limit_bytes as the registry last heard of it */
    size_t limit_bytes;                   /* sum over open bins of capacity * block size */
    void **free_arrays[SLOT_ARRAY_KINDS]; /* linked through their first slot */
    void **bump, **bump_end;              /* slots not used yet, of the newest chunk */
    void **chunks[SLOT_CHUNKS];           /* its own for ever; NULL: never needed */
    unsigned chunks_used;                 /* the first of them */
    uint64_t rests_since_ms;              /* while its thread has ended and it waits for another */
    bool is_released;                     /* while dead: its pages went to the kernel */
    struct list link;                     /* registry, or those of the dead */
    struct bin_info infos[BIN_COUNT];
};
/* An idle thread has two pages in use: its own row, and this. */
_Static_assert(sizeof(struct thread) - sizeof(((struct cache *)0)->rows) <= 4096,
               "what the slow path works on is a page");

/* The slot at which empty bins point, and a row of such bins, all shown full. */
hak_global void *const cache_no_block[1];
hak_global const struct row cache_closed_row;

hak_inline void **bin_top(const struct bin *bin) {
    return atomic_load_explicit(&bin->top, memory_order_relaxed);
}
hak_inline void bin_set_top(struct bin *bin, void **top) {
    atomic_store_explicit(&bin->top, top, memory_order_relaxed);
}
hak_inline void **bin_limit(const struct bin *bin) {
    return atomic_load_explicit(&bin->limit, memory_order_relaxed);
}
hak_inline void bin_set_limit(struct bin *bin, void **limit) {
    atomic_store_explicit(&bin->limit, limit, memory_order_relaxed);
}

/* Whether a bin with this top has no room. The comparison itself reads the limit: compilers load
 * what is atomic into a register first. */
hak_inline bool bin_is_full(const struct bin *bin, void **top) {
#if defined(__x86_64__)
    bool is_full;
    __asm__("cmpq %2, %1" : "=@ccae"(is_full) : "r"(top), "m"(bin->limit));
    return is_full;
#else
    return top >= bin_limit(bin);
#endif
}

hak_inline unsigned bin_parked(const struct bin_info *info) {
    return atomic_load_explicit(&info->parked, memory_order_relaxed);
}

/* Slow calls of a thread: a block of a class, or NULL when out of memory; and a
 * block back, entry being its map entry. They work on the real bins, whatever
 * is shown to the fast path. */
void *cache_take(struct thread *thread, unsigned class);
void cache_give(struct thread *thread, uint16_t entry, void *block);

/* What the fast path does, on the real bins of a watched thread. NULL: the bin has no block;
 * false: it has no room. */
hak_inline void *cache_pop(struct thread *thread, unsigned class) {
    struct bin *bin = &thread->own->bins[class];
    void **top = bin_top(bin);
    if (*top != NULL)
        bin_set_top(bin, top - 1);
    return *top;
}
hak_inline bool cache_push(struct thread *thread, uint16_t entry, void *block) {
    struct bin *bin = (struct bin *)((char *)&thread->cache + entry);
    void **top = bin_top(bin);
    if (bin_is_full(bin, top))
        return false;
    top[1] = block;
    bin_set_top(bin, top + 1);
    return true;
}

/* For a block that has just been popped, one of it and the next ones of its bin by chance; the
 * block takes its place. random: of 32 bits. One store, so that the child of a fork in another
 * thread finds one or the other in the bin. */
enum { CACHE_EXCHANGE_MAX = 15 }; /* further down blocks have left the processor's caches */
hak_inline void *cache_exchange(struct thread *thread, unsigned class, void *block,
                                uint32_t random) {
    void **base = thread->infos[class].base;
    if (hak_unlikely(base == NULL))
        return block;
    size_t held = (size_t)(bin_top(&thread->own->bins[class]) - base);
    size_t depth = (random * (hak_min(held, (size_t)CACHE_EXCHANGE_MAX) + 1)) >> 32;
    if (depth == 0)
        return block;
    void **slot = &base[held + 1 - depth];
    void *other = *slot;
    *slot = block;
    return other;
}

/* A block that reads as zero if *is_zero: one of the bin, whose pages are there but
 * whose contents are not known, or one whose pages may never have been touched. */
void *cache_take_zeroed(struct thread *thread, unsigned class, bool *is_zero);

/* Whether the program had better move this block, of a map entry's class (slab_is_sparse).
 * If so, the thread's next block of the class comes from another slab. */
bool cache_is_sparse(struct thread *thread, uint16_t entry, const void *block);

/* Sends all blocks of a thread's bins home. */
void cache_flush(struct thread *thread);

/* The same for its own large blocks alone. */
void cache_flush_large(struct thread *thread);

/* The same for its foreign blocks; and their bins promise nothing any more. */
void cache_close_foreign(struct thread *thread);

/* For the registry: shapes the bins of a thread without blocks for its shard,
 * and back to all zero. */
void cache_open(struct thread *thread, unsigned shard);
void cache_close(struct thread *thread);

/* Gives the pages of a thread without blocks that is all zero but for its slots back
 * to the kernel: its rows and its slots, not what the registry knows of it. */
void cache_release(struct thread *thread);

/* Gives the blocks of a thread home that did not survive a fork. */
void cache_reclaim(struct thread *thread);

/* Parks an own bin for guard sampling: the next call of its size is slow (bins.c). False: it is not
 * open, or parked already. Only its own thread may, in a slow call. */
bool cache_park(struct thread *thread, unsigned class);

/* Blocks of each class that were in bins as calls of that class unparked those. */
hak_global _Atomic uint64_t cache_unparked[CLASS_COUNT];

/* Set by a mode that holds blocks for threads besides their bins: gives those home, too. */
hak_global void (*cache_reclaim_held)(struct thread *thread);

/* Whether bins are whole that nobody works on meanwhile, the calling thread's as a rule: see
 * check.c. Else *finding says what is not. */
bool cache_check(const struct thread *thread, struct finding *finding);

/* Called once in each slow call: time-driven upkeep, at once or only now and then. True:
 * there is free memory that time alone will make old enough to be purged. */
bool cache_tick(struct thread *thread, bool at_once);

/* --- registry.c: the threads ------------------------------------------------ */

/* A thread in the shard with the fewest threads, its cache empty or as one that ended there
 * left it; NULL when out of memory. And its end; its bins are empty. */
struct thread *registry_add(void);
void registry_remove(struct thread *thread);

/* The end of a thread that has blocks in its bins: they wait there for the next thread of the
 * shard, but for large ones. False: they have to go home, because those of a thread before it
 * wait still, or nothing is to be kept, or the thread was asked for them. */
bool registry_rest(struct thread *thread);

/* Sends home what has rested by now for as long as free pages are kept; UINT64_MAX: all that
 * rests. True: there is more. */
bool registry_settle(uint64_t now_ms);
hak_global _Atomic unsigned registry_resting_count; /* a hint that saves the lock */
hak_inline bool registry_has_resting(void) {
    return atomic_load_explicit(&registry_resting_count, memory_order_relaxed) != 0;
}

/* Gives the pages of at most so many structures that no thread uses to the kernel, those
 * first that were used last. */
void registry_release(unsigned most);

/* Threads alive; a hint when read without the lock. */
unsigned registry_count(void);

/* Calls of all threads that left the fast path, since the start; calls of threads
 * without a cache are not among them. */
uint64_t registry_slow_calls(void);

/* What a thread's bins may hold in all: law 5. All threads together are kept to the
 * profile's total, and a little for each: a thread that sleeps with full bins cannot be
 * asked to give any back, so what it may hold is missing to the others. */
size_t registry_budget_bytes(const struct thread *thread);

/* Notes what the thread's bins may hold now; small changes are left for later. */
void registry_promise(struct thread *thread, size_t bytes);

/* In the child of a fork: all threads but survivor (NULL: none) are gone; their
 * bins are reclaimed one thread a call by registry_reclaim. */
void registry_orphan_all_but(struct thread *survivor);
hak_global _Atomic bool registry_has_orphans; /* a hint that saves the lock */
void registry_reclaim_one(void);
hak_inline void registry_reclaim(void) {
    if (hak_unlikely(atomic_load_explicit(&registry_has_orphans, memory_order_relaxed)))
        registry_reclaim_one();
}

/* Asks all threads but asker (NULL: all) to send their blocks home, which each does in its
 * next slow call. Their own bins are closed, so that the next free is one. */
void registry_ask_flush(const struct thread *asker);

/* Closes an own bin of some thread, chosen by a random number: its next free of that class is a
 * slow call, which sends home what the bin holds. */
void registry_close_bin(uint64_t random);

/* Calls visit for each thread that there is or was (their counts live on), under
 * the registry's lock. */
void registry_visit(void (*visit)(const struct thread *thread, void *context), void *context);

/* Whether the lists and counts of threads agree; else *finding says what does not. */
bool registry_check(struct finding *finding);

hak_global struct os_lock registry_lock;

#endif
