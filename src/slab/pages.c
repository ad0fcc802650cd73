/* Pages without live blocks inside slabs in use go back to the kernel.
 *
 *   pages    |   0   |   1   |   2   |   3   |   4   |   5   | ...
 *   blocks   | L | f | f f f | f f f | f L f | f f f | f f f | ...   L live, f free
 *   holes            |---------------|       |-----------------
 *
 * A slab becomes empty only when its last block goes; a few long-lived ones keep all its
 * pages resident. The bitmap proves which pages hold free blocks alone, and nothing of
 * the allocator's lies on them.
 *
 * A hole is purged in three steps, the middle one without the pool's lock:
 *
 *   claim     the hole's free blocks leave the bitmap as if they had been handed out:
 *             nobody else can take them, and the slab cannot become empty
 *   purge     a call into the kernel a hole
 *   return    the blocks are free again; their pages are marked as purged
 *
 * Meanwhile other blocks of the slab come and go as ever, and another shard may adopt it:
 * so it is looked up again before the third step. A block freed twice meanwhile is found
 * then, when its bit turns out to be set, or the slab has become empty and gone (pages.pml).
 *
 * The marks (`purged` in span/super.h) say what need not be purged again, and what reads as
 * zero. They go when a block on the page is handed out. Where the kernel refuses (locked
 * memory), there is no mark, and nothing has changed.
 *
 * Lock: slab_pages_lock, from claim to return, though calls into the kernel come between:
 * only purgers and fork wait for it. Fork must, for the child would lose the blocks that
 * are claimed at that moment. */
#include "os/options.h"
#include "os/system.h"
#include "slab/pool.h"
#include "span/arena.h"
#include "span/limits.h"
#include "span/report.h"

struct os_lock slab_pages_lock;

/* As many pages in a row as hold no live block, and the blocks on them, of which some may
 * reach into the pages beside. Holes have a page between them that is none, so no
 * block lies in two. */
struct hole {
    uint16_t page, pages;
    uint16_t block, blocks;
    uint16_t dirty; /* of its pages: neither purged already nor never touched */
    bool is_purged; /* the kernel has taken it */
};

/* Of one slab at a time: every second page of the most slabs that a class of more than a
 * few blocks may have (slab/classes.c). */
enum { HOLES_MAX = 64 };
struct claim {
    struct span *span;
    unsigned class;
    unsigned count;
    struct hole holes[HOLES_MAX];
};

/* One step of upkeep: SuperSlabs looked at, at most, and bytes after which it stops. */
enum { STEP_SUPERS = 16, STEP_BYTES = 4 << 20 };
static uint8_t turn; /* which it is of those that steps make; under slab_pages_lock */

enum { BUSY_SHARE = 4 };  /* of a slab's blocks, taken within a turn: the class is busy */
enum { SPLIT_SHARE = 8 }; /* of a huge page that can go, before a step makes single pages of it */

/* --- marks; the pool's lock is held ------------------------------------------- */

static unsigned pages_of_slab(void) { return (unsigned)(SLAB_BYTES / os_page_size()); }

static uint16_t *purged_masks(const struct span *span) {
    struct super *super = window_super(window_super_index(span->start));
    return &super->purged[span - super->spans];
}

static unsigned populated_pages(const struct span *span) {
    const struct super *super = window_super(window_super_index(span->start));
    return super->populated[span - super->spans];
}

static bool is_purged(const struct span *span, unsigned page) {
    unsigned per_slab = pages_of_slab();
    return purged_masks(span)[page / per_slab] >> (page % per_slab) & 1;
}

static void mark_purged(struct span *span, unsigned page, unsigned pages) {
    unsigned per_slab = pages_of_slab();
    uint16_t *masks = purged_masks(span);
    for (unsigned p = page; p < page + pages; p++)
        masks[p / per_slab] |= (uint16_t)(1u << (p % per_slab));
    span->has_purged = true;
}

void pages_begin(struct span *span, size_t populated_bytes) {
    struct super *super = window_super(window_super_index(span->start));
    super->populated[span - super->spans] = (uint16_t)(populated_bytes / os_page_size());
    super->free_seen[span - super->spans] = 0;
    uint16_t *masks = purged_masks(span);
    for (unsigned s = 0; s < span->slabs; s++)
        masks[s] = 0;
    span->has_purged = false;
}

bool pages_taken(struct span *span, const char *from, const char *to) {
    unsigned per_slab = pages_of_slab();
    uint16_t *masks = purged_masks(span);
    unsigned first = (unsigned)((size_t)(from - span->start) / os_page_size());
    unsigned last = (unsigned)((size_t)(to - 1 - span->start) / os_page_size());
    bool all_zero = true;
    for (unsigned p = first; p <= last; p++) {
        all_zero &= is_purged(span, p);
        masks[p / per_slab] &= (uint16_t) ~(1u << (p % per_slab));
    }
    bool any = false;
    for (unsigned s = 0; s < span->slabs; s++)
        any |= masks[s] != 0;
    span->has_purged = any;
    return all_zero;
}

/* --- holes; the pool's lock is held -------------------------------------------- */

/* The blocks on a page; none behind the last one. */
struct on_page {
    unsigned first, count;
};
static struct on_page blocks_on(const struct span *span, unsigned page) {
    const struct size_class *shape = &size_classes[span_class(span)];
    uint32_t capacity = span->capacity;
    size_t start = page * os_page_size();
    unsigned first = hak_min(class_index_inside(shape, start), capacity);
    unsigned end = hak_min(class_index_inside(shape, start + os_page_size() - 1) + 1, capacity);
    return (struct on_page){first, end - first};
}

static bool are_free(const struct span *span, struct on_page blocks) {
    return bitmap_has_all(span->free_bits, blocks.first, blocks.count);
}

/* What was zero from the start and never handed out has no page to give. */
static bool is_dirty(const struct span *span, unsigned page, unsigned first_block) {
    bool is_untouched = first_block >= span->touched && span->touched < span->capacity &&
                        page >= populated_pages(span);
    return !is_untouched && !is_purged(span, page);
}

/* Makes the hole one page longer: the first block there may be its last. */
static void lengthen(struct hole *hole, const struct span *span, unsigned page,
                     struct on_page blocks) {
    if (hole->pages == 0)
        *hole = (struct hole){.page = (uint16_t)page, .block = (uint16_t)blocks.first};
    hole->pages++;
    hole->blocks = (uint16_t)(blocks.first + blocks.count - hole->block);
    hole->dirty = (uint16_t)(hole->dirty + is_dirty(span, page, blocks.first));
}

static void find_holes(struct claim *claim) {
    struct span *span = claim->span;
    unsigned pages = span->slabs * pages_of_slab();
    struct hole hole = {0};
    for (unsigned p = 0; p <= pages && claim->count < HOLES_MAX; p++) {
        struct on_page blocks = p < pages ? blocks_on(span, p) : (struct on_page){0};
        if (p < pages && are_free(span, blocks)) {
            lengthen(&hole, span, p, blocks);
            continue;
        }
        if (hole.dirty != 0 && hole.blocks != 0) /* without a block nothing holds the slab */
            claim->holes[claim->count++] = hole;
        hole = (struct hole){0};
    }
}

bool pages_marks_hold(const struct span *span) {
    unsigned per_slab = pages_of_slab();
    const uint16_t *masks = purged_masks(span);
    bool holds = populated_pages(span) <= span->slabs * per_slab;
    for (unsigned s = 0; s < span->slabs; s++) {
        for (unsigned mask = masks[s]; mask != 0 && holds; mask &= mask - 1) {
            unsigned p = bit_lowest(mask);
            holds = p < per_slab && span->has_purged &&
                    are_free(span, blocks_on(span, s * per_slab + p));
        }
    }
    return holds;
}

/* --- claim, purge, return ---------------------------------------------------------- */

/* Whose holes are purged. NOT_THE_NEXT leaves out the slab that the next blocks come from,
 * for they would fault its pages in again; QUIET_CLASSES takes quiet slabs of those only whose
 * next blocks will be long in coming. */
enum choice { ANY_SLABS, NOT_THE_NEXT, QUIET_SLABS, QUIET_CLASSES };

/* Whether as many blocks are free as at the last look; most likely the same ones. */
static bool is_quiet(const struct span *span) {
    struct super *super = window_super(window_super_index(span->start));
    uint16_t *seen = &super->free_seen[span - super->spans];
    uint16_t now = (uint16_t)(span->free_count + 1);
    bool is_same = *seen == now;
    *seen = now;
    return is_same;
}

/* Whether the class took many blocks in the turn before this: it will take those on the holes,
 * too. */
static bool is_busy(struct pool *pool, const struct span *span) {
    if (pool->turn != turn) {
        uint16_t taken = (uint16_t)(pool->taken - pool->turn_taken);
        pool->was_busy = taken > span->capacity / BUSY_SHARE;
        pool->turn_taken = (uint16_t)pool->taken;
        pool->turn = turn;
    }
    return pool->was_busy;
}

static bool is_chosen(struct pool *pool, const struct span *span, enum choice choice) {
    if (choice == QUIET_SLABS)
        return is_quiet(span);
    if (choice == QUIET_CLASSES)
        return is_quiet(span) && !is_busy(pool, span);
    return choice == ANY_SLABS || pool_fullest(pool) != span;
}

/* Takes the blocks of a slab's holes out of its bitmap; false if it has none. */
static bool claim_holes(struct claim *claim, enum choice choice) {
    struct span *span = claim->span;
    struct pool *pool = pool_lock_of(span);
    if (pool == NULL)
        return false;
    claim->class = span_class(span);
    claim->count = 0;
    size_t used = (size_t)span->capacity - span->free_count;
    bool may_have = span_bytes(span) - used * class_size(claim->class) >= os_page_size();
    if (may_have && is_chosen(pool, span, choice))
        find_holes(claim);
    for (unsigned h = 0; h < claim->count; h++) {
        const struct hole *hole = &claim->holes[h];
        bitmap_change(span->free_bits, hole->block, hole->blocks, false);
        span->free_count = (uint16_t)(span->free_count - hole->blocks);
        pool->free_blocks -= hole->blocks;
    }
    if (claim->count != 0)
        pool_settle(pool, span);
    os_lock_release(&pool->lock);
    return claim->count != 0;
}

/* Returns the bytes given to the kernel. */
static size_t purge_holes(struct claim *claim) {
    size_t page_bytes = os_page_size();
    size_t bytes = 0;
    span_split(claim->span->start, span_bytes(claim->span));
    for (unsigned h = 0; h < claim->count; h++) {
        struct hole *hole = &claim->holes[h];
        char *start = claim->span->start + hole->page * page_bytes;
        hole->is_purged = os_purge(start, hole->pages * page_bytes);
        bytes += hole->is_purged ? hole->dirty * page_bytes : 0;
    }
    return bytes;
}

static bool return_hole(struct span *span, const struct hole *hole) {
    if (hole->is_purged)
        mark_purged(span, hole->page, hole->pages);
    span->free_count = (uint16_t)(span->free_count + hole->blocks);
    span->first_word = (uint8_t)hak_min((unsigned)span->first_word, hole->block / WORD_BITS);
    return bitmap_change(span->free_bits, hole->block, hole->blocks, true);
}

/* The pool of a claimed slab. NULL: claimed blocks have been given back once more, and so it
 * became empty and went, perhaps to another class. */
static struct pool *lock_claimed(const struct claim *claim) {
    struct pool *pool = pool_lock_of(claim->span);
    if (pool == NULL || span_class(claim->span) == claim->class)
        return pool;
    os_lock_release(&pool->lock);
    return NULL;
}

/* False if some blocks of the holes were free already. */
static bool return_holes(struct claim *claim) {
    struct span *span = claim->span;
    struct list retired;
    list_init(&retired);
    struct pool *pool = lock_claimed(claim);
    if (pool == NULL)
        return false;
    bool is_whole = true;
    for (unsigned h = 0; h < claim->count; h++) {
        is_whole &= return_hole(span, &claim->holes[h]);
        pool->free_blocks += claim->holes[h].blocks;
    }
    if (is_whole) /* else it counts more free blocks than there are */
        pool_settle_given(pool, span, &retired);
    os_lock_release(&pool->lock);
    pool_give_retired(&retired);
    return is_whole;
}

static size_t purge_slab(struct span *span, enum choice choice) {
    struct claim claim = {.span = span};
    if (!claim_holes(&claim, choice))
        return 0;
    size_t bytes = purge_holes(&claim);
    if (!return_holes(&claim))
        hak_panic(HAK_DOUBLE_FREE, "free: a block of size class %zu in slab %p was free already",
                  class_size(claim.class), (void *)span->start);
    return bytes;
}

/* Of all slabs of a SuperSlab. */
static size_t hole_bytes(struct super *super) {
    size_t pages = 0;
    uint32_t heads = atomic_load_explicit(&super->heads, memory_order_acquire);
    for (; heads != 0; heads &= heads - 1) {
        struct claim claim = {.span = &super->spans[bit_lowest(heads)]};
        struct pool *pool = pool_lock_of(claim.span);
        if (pool == NULL)
            continue;
        find_holes(&claim);
        os_lock_release(&pool->lock);
        for (unsigned h = 0; h < claim.count; h++)
            pages += claim.holes[h].dirty;
    }
    return pages * os_page_size();
}

/* A huge page is split for what goes of it. A heap in steady state has a page or two in each slab
 * that nobody uses just now; for those it would split all of its huge pages, again and again. */
static bool is_worth_it(struct super *super, enum choice choice) {
    return choice == ANY_SLABS || limits_excess() != 0 ||
           !atomic_load_explicit(&super->is_collapsed, memory_order_relaxed) ||
           hole_bytes(super) >= SUPER_BYTES / SPLIT_SHARE;
}

/* The slabs of one SuperSlab; slab_pages_lock is held. */
static size_t purge_super(size_t index, enum choice choice) {
    struct super *super = window_super(index);
    size_t bytes = 0;
    if (super == NULL || !is_worth_it(super, choice))
        return 0;
    uint32_t heads = atomic_load_explicit(&super->heads, memory_order_acquire);
    for (; heads != 0; heads &= heads - 1)
        bytes += purge_slab(&super->spans[bit_lowest(heads)], choice);
    return bytes;
}

size_t slab_purge_pages(void) {
    size_t bytes = 0;
    for (size_t i = arena_known(0); i < window_super_count(); i = arena_known(i + 1)) {
        os_lock_acquire(&slab_pages_lock);
        bytes += purge_super(i, ANY_SLABS);
        os_lock_release(&slab_pages_lock);
    }
    return bytes;
}

/* Of the next SuperSlabs in turn, until about so many bytes have gone; slab_pages_lock is
 * held. */
static struct pages_step purge_next(enum choice choice, size_t most_bytes) {
    static size_t next;
    struct pages_step step = {0};
    while (step.supers < STEP_SUPERS && step.bytes < most_bytes && !step.turn_ended) {
        if (next < window_super_count())
            step.bytes += purge_super(next, choice);
        next = arena_known(next + 1);
        step.supers++;
        step.turn_ended = next >= window_super_count();
    }
    if (step.turn_ended) {
        next = 0;
        turn++;
    }
    return step;
}

static struct pages_step try_step(enum choice choice) {
    struct pages_step step = {0};
    if (os_lock_try(&slab_pages_lock)) {
        step = purge_next(choice, STEP_BYTES);
        os_lock_release(&slab_pages_lock);
    }
    return step;
}

size_t slab_purge_pages_step(bool only_quiet, bool *turn_ended) {
    struct pages_step step = try_step(only_quiet ? QUIET_SLABS : NOT_THE_NEXT);
    if (turn_ended != NULL && step.supers != 0)
        *turn_ended = step.turn_ended;
    return step.bytes;
}

struct pages_step pages_purge_step(void) {
    return try_step(NOT_THE_NEXT);
}

void pages_trade(unsigned shard) {
    static uint64_t traded_ms; /* under slab_pages_lock */
    if (options_profile()->page_purge == PAGE_PURGE_NEVER)
        return;
    size_t most_bytes = span_may_trade(shard);
    if (most_bytes == 0 || !os_lock_try(&slab_pages_lock))
        return;
    uint64_t now_ms = os_now_ms();
    size_t bytes = 0;
    if (now_ms != traded_ms)
        bytes = purge_next(QUIET_CLASSES, most_bytes).bytes;
    traded_ms = now_ms;
    os_lock_release(&slab_pages_lock);
    if (bytes != 0)
        span_traded(shard, bytes);
}
