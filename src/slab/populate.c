/* Fresh slabs are faulted in by the step, not page by page, while their class grows.
 *
 * A page fault costs half again as much as what it is for, a zeroed page. A class that
 * has used up its slabs and asks for one more will write to all of it, so some of its
 * pages are asked for in one call:
 *
 *   slab    | populated: step | one by one, as they are written |
 *   step    0, then twice as much each time a class asks again, up to the profile's
 *           most; 0 again when it gives back a slab that it has hardly used
 *
 * Small programs have many classes of a few slabs each, and would pay for all of them.
 * So a step is never more than an eighth of what the class has in the shard already.
 * A class of many slabs is beyond learning: it takes several at once, a sixteenth of what
 * it has, all their pages populated; where the shard has many SuperSlabs, those of a fresh one may
 * be a huge page, which is there as a whole (span/collapse.c).
 *
 * Once a class does not grow any more, it needs more only when the number of its blocks
 * happens to be higher than ever, more seldom each time. That finds what was taken ahead;
 * behind it, a page is faulted in when it is written. A class grows whose last fresh slab is
 * not many turns of all its blocks ago: counted in blocks and not in time, so that a slow
 * machine and a fast one come to the same.
 *
 * Not for blocks of many pages: nobody knows how much of them will be written.
 *
 * A class of one slab finds such highs, too: a block or two more than ever, and with blocks of a
 * twelfth of a page and more these are often the next page's.
 *
 *   page      | written | written | written, in part | next |
 *
 * So once a thread has lived for a while, each such class that it uses has the next page.
 *
 * No lock for fresh slabs: the span is not the pool's yet. The step is a hint that any thread may
 * change; the call into the kernel is what it is for. The next page, too, is asked for without the
 * pool's lock: what is on it is kept, so whoever has it meanwhile, nothing is lost. */
#include "slab/pool.h"

enum {
    STEP_BYTES = 16 * 1024,
    LARGEST_BLOCK_BYTES = 32 * 1024,
    MOST_SHARE = 8,   /* of what the class has */
    AHEAD_SHARE = 16, /* of its slabs are taken at once, */
    AHEAD_SLABS = 8,  /* and no more than that */
    GROWING_TURNS = 8,
    GREW_AT_MASK = (1 << GREW_AT_BITS) - 1,
    NEXT_AFTER = 8,        /* blocks that a class has handed out, of which a page holds */
    NEXT_MOST_BLOCKS = 12, /* fewer than this */
    NEXT_LEAST_BLOCKS = 2, /* and so many at least */
};

static size_t most_bytes(unsigned class) {
    return class_size(class) > LARGEST_BLOCK_BYTES ? 0 : options_profile()->populate_max_bytes;
}

/* How many slabs the blocks would fill that the class has handed out since the start. */
static uint64_t slabs_taken(const struct pool *pool, unsigned class) {
    return pool->taken * class_size(class) / SLAB_BYTES;
}

void populate_note_growth(struct pool *pool, unsigned class) {
    pool->grew_at = slabs_taken(pool, class) & GREW_AT_MASK;
}

bool populate_is_growing(const struct pool *pool, unsigned class) {
    uint64_t taken_since = (slabs_taken(pool, class) - pool->grew_at) & GREW_AT_MASK;
    size_t slabs = atomic_load_explicit(&pool->slab_count, memory_order_relaxed);
    return taken_since <= slabs * GROWING_TURNS;
}

unsigned populate_slabs(const struct pool *pool, unsigned class) {
    unsigned slabs = atomic_load_explicit(&pool->slab_count, memory_order_relaxed);
    unsigned ahead = hak_min(slabs / AHEAD_SHARE, (unsigned)AHEAD_SLABS);
    return most_bytes(class) == 0 ? 1 : hak_max(ahead, 1u);
}

size_t populate_fresh(struct pool *pool, unsigned class, const struct span *span) {
    size_t most = most_bytes(class);
    if (most == 0)
        return 0;
    size_t steps = atomic_load_explicit(&pool->steps, memory_order_relaxed);
    size_t next = hak_min(hak_max(steps * 2, (size_t)1), most / STEP_BYTES);
    atomic_store_explicit(&pool->steps, (uint8_t)next, memory_order_relaxed);
    size_t slabs = atomic_load_explicit(&pool->slab_count, memory_order_relaxed);
    size_t bytes = slabs < AHEAD_SHARE ? steps * STEP_BYTES : most;
    bytes = hak_min(bytes, slabs * SLAB_BYTES / MOST_SHARE);
    bytes = align_down(hak_min(bytes, span_bytes(span)), os_page_size());
    /* One page is cheaper by a fault. */
    return bytes > os_page_size() && span_populate(span->start, bytes) ? bytes : 0;
}

void populate_learn(struct pool *pool, const struct span *span) {
    if (span->touched < span->capacity / 2)
        atomic_store_explicit(&pool->steps, 0, memory_order_relaxed);
}

bool populate_wants_next(unsigned class) {
    size_t size = class_size(class);
    return size > os_page_size() / NEXT_MOST_BLOCKS && size <= os_page_size() / NEXT_LEAST_BLOCKS &&
           most_bytes(class) != 0;
}

/* What of a slab has been handed out, as it was under the pool's lock. */
struct reach {
    char *start;
    size_t pages, span_pages;
    unsigned populated; /* of them */
};

static uint16_t *populated_of(struct span *span) {
    struct super *super = window_super(window_super_index(span->start));
    return &super->populated[span - super->spans];
}

static struct reach reach_of(struct span *span, size_t size) {
    return (struct reach){
        .start = span->start,
        .pages = divide_up(span->touched * size, os_page_size()),
        .span_pages = span_bytes(span) / os_page_size(),
        .populated = *populated_of(span),
    };
}

/* Of a refill's blocks, ascending in address, the last may lie in a bin for ever: which pages the
 * program has written to, the kernel knows. The next one may hold blocks in use by now. Returns how
 * many pages of the slab are in memory then, 0: nothing was to be done. */
static size_t populate_after(const struct reach *reach) {
    size_t page = os_page_size();
    size_t next = os_resident_pages(reach->start, reach->pages * page);
    bool is_there = reach->populated != 0 && next <= reach->populated; /* not written to, perhaps */
    if (is_there || next >= reach->span_pages ||
        !os_populate_kept(reach->start + next * page, page))
        return 0;
    return next + 1;
}

bool slab_populate_next(unsigned shard, unsigned class) {
    struct pool *pool = pool_lock(shard, class);
    bool is_in_use = pool->taken >= NEXT_AFTER;
    struct span *span = is_in_use ? pool_fullest(pool) : NULL;
    struct reach reach = {0};
    if (span != NULL)
        reach = reach_of(span, class_size(class));
    os_lock_release(&pool->lock);
    size_t pages = span != NULL ? populate_after(&reach) : 0;
    if (pages == 0)
        return is_in_use;
    pool = pool_lock(shard, class);
    if (span_home(span) == home_make(shard, class) && span->start == reach.start)
        *populated_of(span) = (uint16_t)pages;
    os_lock_release(&pool->lock);
    return true;
}
