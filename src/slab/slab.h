/* Blocks of the size classes: taken from and given back to shards in batches.
 * See slab.c. Thread safe. */
#ifndef HAK_SLAB_SLAB_H
#define HAK_SLAB_SLAB_H

#include "os/lock.h"
#include "os/options.h"
#include "slab/classes.h"
#include "span/span.h"

enum {
    FILL_RANKS = 4,      /* lists of a pool: quarters of free blocks, fullest first */
    FILL_UNLISTED = 255, /* full, or between two pools */
    GREW_AT_BITS = 24,   /* come round after 1 TiB: then a class may seem to grow for once */
};

/* The slabs of one class in one shard. */
struct pool {
    hak_line_aligned struct os_lock lock;
    _Atomic bool is_open;           /* the lists are set up; only then may it be locked */
    uint8_t was_busy : 1;           /* in the turn before `turn` */
    uint8_t adopted_in : 7;         /* the stretch of time, 1 to 127 (slab.c); 0: never */
    int16_t untold_bytes;           /* taken less given since shrink.c was told, in blocks' bytes */
    _Atomic uint32_t partial_count; /* slabs on the lists; read without the lock as a hint */
    struct list partial[FILL_RANKS]; /* slabs with free blocks */
    _Atomic uint32_t slab_count;     /* read without the lock as a hint */
    _Atomic uint8_t steps;           /* of the next slab to be faulted in (populate.c) */
    uint8_t turn;                    /* the last in which pages.c came by, */
    uint16_t turn_taken;             /* and taken then; the low bits of both */
    uint64_t taken, given;           /* blocks since the start */
    uint64_t free_blocks : 40;       /* bits set in its slabs' bitmaps */
    uint64_t grew_at : GREW_AT_BITS; /* populate.c: slabs full of blocks taken by then */
};
_Static_assert(sizeof(struct pool) == 128, "two lines");
/* pools[shard][class]: as many rows as there are shards, had at the start. */
hak_global struct pool (*pools)[CLASS_COUNT];

/* Held while a shard gets slabs for any of its classes: who finds none left waits for the slabs
 * that another thread is fetching, instead of fetching more. Else as many slabs as there are
 * threads would come of one moment in which that other one does not run. (There is no class 0.) */
hak_inline struct os_lock *slab_growth_lock(unsigned shard) { return &pools[shard][0].lock; }

/* Held while a pool is opened: who holds it, as fork does, knows that the pools
 * that are not open stay so. */
hak_global struct os_lock pools_opening_lock;

/* Hardened mode keeps the first block of a slab from all, for what is written before the first
 * one in use (modes/hardened.c): of blocks of so many bytes, of which that is at most 1/16. */
enum { SLAB_KEEPS_MAX = SLAB_BYTES / 16 };
hak_inline bool slab_keeps_first(size_t block_bytes) {
    return hak_unlikely(hak_options.hardened != 0) && block_bytes <= SLAB_KEEPS_MAX;
}

/* Before all else here; false when out of memory. May be tried again. */
bool slab_init(unsigned shard_count);
unsigned slab_shard_count(void);

/* Takes up to want blocks; out[0 .. result - 1] descend in address, so that
 * popping from the end hands them out in ascending order. 0: out of memory. *fresh,
 * unless NULL, grows by the slabs taken for them that had no memory behind them yet. */
unsigned slab_take(unsigned shard, unsigned class, void **out, unsigned want, unsigned *fresh);

/* Takes one block; *is_zero: all of it is known to read as zero. */
void *slab_take_one(unsigned shard, unsigned class, bool *is_zero);

/* Gives blocks of one class home, whatever their shards. blocks is used as
 * working space. Panics on a pointer that is no block in use. */
void slab_give(unsigned class, void **blocks, unsigned count);

/* As slab_give, for bins that nobody vouches for (flush.c, reclaiming after a
 * fork): what is no block in use is left alone. */
void slab_reclaim(unsigned class, void **blocks, unsigned count);

/* Whether moving this block of a class, in use, elsewhere in its shard would help its slab
 * to become empty (sparse.c). False for other pointers. A hint: true now. */
bool slab_is_sparse(const void *block, unsigned class);

/* The block of a class that a pointer points into, in use or not; false: into none. For reports. */
struct slab_place {
    const char *block, *slab; /* where they start; of several slabs, the first */
    unsigned class;
};
bool slab_find(const void *pointer, struct slab_place *place);

/* Gives wholly free slabs back to their SuperSlabs. */
void slab_trim(void);

/* --- pages.c: pages without live blocks in slabs that have such ------------------- */

/* Gives all of them back to the kernel; returns bytes. May wait for another purge. */
size_t slab_purge_pages(void);

/* The same for the next SuperSlabs in turn, as upkeep does it: nothing while another thread
 * purges, and not the slabs that the next blocks come from; only_quiet: those that have not
 * changed since the last such look, these too. *turn_ended, unless NULL: it has come round. */
size_t slab_purge_pages_step(bool only_quiet, bool *turn_ended);

/* Upkeep of every few slow calls: if blocks have gone of late, a step of giving the pages
 * back that they left in slabs in use (shrink.c). True: that begins with the next call. */
bool slab_heed_shrinking(uint64_t now_ms);

/* Whether so many blocks have gone since slab_note_look that pages without any are worth looking
 * for by who purges while nobody calls. Costs two loads. */
bool slab_has_lost_blocks(void);
void slab_note_look(void);

/* Held while blocks are out of their bitmaps to have their pages purged. */
hak_global struct os_lock slab_pages_lock;

/* --- populate.c: the slab layer's own --- */

/* A fresh span, untouched and not yet the pool's, may have pages faulted in: so many bytes
 * from its start. */
size_t populate_fresh(struct pool *pool, unsigned class, const struct span *span);

/* A class has got a fresh slab; and whether, when it asks for the next, that is not long ago.
 * The pool's lock is held. */
void populate_note_growth(struct pool *pool, unsigned class);
bool populate_is_growing(const struct pool *pool, unsigned class);

/* How many slabs a growing class had better take at once, having used up its own. */
unsigned populate_slabs(const struct pool *pool, unsigned class);

/* Whether one more block of this size would often be the first of a page. Then, once the class
 * is in use, the next page of its slab is faulted in: true. False: not yet in use. */
bool populate_wants_next(unsigned class);
bool slab_populate_next(unsigned shard, unsigned class);

/* The pool gives a span back: was it worth it? The pool's lock is held. */
void populate_learn(struct pool *pool, const struct span *span);

struct class_stats {
    uint64_t taken, given;
    size_t slab_bytes;
};
struct class_stats slab_stats(unsigned class);

/* --- check.c ------------------------------------------------------------------- */

/* Whether pools, slabs, their bitmaps and map entries agree; else *finding says what does
 * not. is_alone: as span_check has it. */
bool slab_check(struct finding *finding, bool is_alone);

/* Whether all of count pointers, which lie in a bin of the calling thread, are different blocks
 * of a class that are with a thread or the program. */
bool slab_check_cached(struct finding *finding, unsigned class, void *const *blocks,
                       unsigned count);

/* The slab entry of a class in a shard's row. */
hak_inline uint16_t slab_entry(unsigned shard, unsigned class) {
    return entry_make(shard % ROW_COUNT, class);
}

#endif
