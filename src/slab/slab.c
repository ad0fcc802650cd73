/* Slabs: spans cut into blocks of one class, their free blocks a bitmap in the
 * descriptor (span/super.h), never a list through the blocks themselves.
 *
 *   span      | block 0 | block 1 | block 2 | ...                  | tail |
 *   free_bits   0         1         1         ...
 *
 * A bit is set while its block is neither with the program nor in a thread's
 * bin. A block leaves its bin before its bit is set, so a set bit at a give is a
 * second free.
 *
 *   pool (one a shard and class)
 *     partial[0] -> slab -> slab     under a quarter free: used first
 *     partial[1] -> slab
 *     ...
 *
 * Blocks come from the fullest slab that has any, lowest address first; so
 * sparse slabs drain, become empty and go back to their SuperSlab. One small
 * empty slab of a busy class stays when it is the pool's last, so that a program
 * that frees and allocates in turns does not set up the same slab again and again.
 *
 * Lock: a pool's lock protects its lists and the slab fields of its spans, which enter and
 * leave it under this lock alone (pool.h). Spans are taken and given without it; those for a pool
 * under its shard's growth lock. */
#include "os/metadata.h"
#include "os/system.h"
#include "slab/pool.h"

enum {
    FEW_BLOCKS = 2,          /* of a slab that the first block fills, or nearly */
    HUGE_BLOCK_BYTES = 2048, /* growing classes up to here may have huge pages: the others are many,
                              * of a slab or two, and each of those would be resident to its end */
    ADOPTED_MS = 128,        /* so long, or twice that, a pool keeps what it has adopted */
    STRETCHES = 127,         /* of that are told apart */
};

static unsigned shard_count;

bool slab_init(unsigned count) {
    if (pools == NULL)
        pools = os_metadata_take(count * sizeof *pools);
    shard_count = pools == NULL ? 0 : count;
    return pools != NULL;
}

unsigned slab_shard_count(void) { return shard_count; }

/* --- new slabs ------------------------------------------------------------- */

static void mark_all_free(struct span *span, unsigned class) {
    unsigned words = span->capacity / WORD_BITS;
    for (unsigned w = 0; w < words; w++)
        span->free_bits[w] = UINT64_MAX;
    if (span->capacity % WORD_BITS != 0)
        span->free_bits[words] = bits_low(span->capacity % WORD_BITS);
    span->free_count = span->capacity;
    span->first_word = 0;
    if (slab_keeps_first(size_classes[class].size)) {
        bitmap_change(span->free_bits, 0, 1, false);
        span->free_count--;
    }
}

/* Why a class asks for a slab. */
struct need {
    bool is_first;   /* it has not handed out as many blocks as a slab holds */
    bool is_only;    /* it has no other */
    bool is_growing; /* it got its last fresh one not long ago (populate.c) */
};

static struct need need_of(unsigned shard, unsigned class) {
    struct pool *pool = pool_lock(shard, class);
    struct need need = {
        .is_first = pool->taken < size_classes[class].capacity,
        .is_only = atomic_load_explicit(&pool->slab_count, memory_order_relaxed) == 0,
        .is_growing = populate_is_growing(pool, class),
    };
    os_lock_release(&pool->lock);
    return need;
}

/* A span for a class. Its first slab may never hold more than a few blocks, so pages
 * that are resident already would be wasted on it; a class that has used one up wants
 * just those, in spans shorter than the best if need be, and the arena's before the heap
 * grows. Of blocks over a slab that would leave long ones no place, and a program often
 * has one at a time: that one gets a span for itself. */
static struct span *take_span(unsigned shard, unsigned class, struct need need, bool *is_zero) {
    const struct size_class *shape = &size_classes[class];
    struct span_request request = {
        .slabs = shape->slabs,
        .slabs_least = shape->slabs_least,
        .alignment = 1,
        .state = SPAN_TAKEN,
        .grows = need.is_growing && !need.is_first && shape->size <= HUGE_BLOCK_BYTES,
        .pages = need.is_first && shape->capacity > FEW_BLOCKS ? SPAN_UNTOUCHED
                 : shape->size <= SLAB_BYTES                   ? SPAN_USED_ANYWHERE
                                                               : SPAN_USED,
    };
    unsigned single = pool_single_slabs(class);
    if (need.is_only && single != 0) {
        request.slabs = request.slabs_least = single;
        request.pages = SPAN_USED;
    }
    return span_take(shard, &request, is_zero);
}

/* Cuts a new span into blocks and gives it to the pool; returns its slabs, 0: out of memory.
 * *is_zero: they had no memory behind them yet. */
static unsigned add_span(unsigned shard, unsigned class, struct need need, bool *is_zero) {
    struct span *span = take_span(shard, class, need, is_zero);
    if (span == NULL)
        return 0;
    unsigned slabs = span->slabs;
    span->capacity = (uint16_t)(span_bytes(span) / size_classes[class].size);
    span->free_bits = super_bitmap(window_super(window_super_index(span->start)), span);
    span->fill_rank = FILL_UNLISTED;
    list_init(&span->link);
    mark_all_free(span, class);
    span->touched = (uint16_t)(*is_zero ? span->capacity - span->free_count : span->capacity);
    bool may_populate = *is_zero && need.is_growing && !span_is_collapsed(span);
    pages_begin(span, may_populate ? populate_fresh(&pools[shard][class], class, span) : 0);
    struct pool *pool = pool_lock(shard, class);
    span_set_home(span, home_make(shard, class));
    pool_write_entries(span, slab_entry(shard, class));
    pool_count(&pool->slab_count, span->slabs);
    pool->free_blocks += span->free_count;
    if (*is_zero)
        populate_note_growth(pool, class);
    pool_settle(pool, span);
    os_lock_release(&pool->lock);
    return slabs;
}

/* A class has used up its slabs: another one, or more while it grows (populate.c). */
static bool add_spans(unsigned shard, unsigned class, unsigned *fresh) {
    struct need need = need_of(shard, class);
    bool is_zero = false;
    unsigned added = add_span(shard, class, need, &is_zero);
    unsigned untouched = is_zero ? added : 0;
    bool looks_ahead = is_zero && need.is_growing;
    unsigned ahead = looks_ahead ? populate_slabs(&pools[shard][class], class) : 0;
    while (untouched < ahead) {
        unsigned more = add_span(shard, class, need, &is_zero);
        if (more == 0 || !is_zero)
            break;
        untouched += more;
    }
    if (untouched != 0)
        pages_trade(shard);
    if (fresh != NULL)
        *fresh += untouched;
    return added != 0;
}

/* A slab that moves makes foreign what the threads of its shard hold of it. Two threads that both
 * use a class a little would take its slab from each other for ever: each would give back foreign
 * blocks only, find its shard without a slab, and write to the other's cache lines meanwhile. So
 * a pool keeps its only slab for a while. */
static bool keeps_only_slab(const struct pool *pool, unsigned stretch) {
    if (pool->adopted_in == 0 || atomic_load_explicit(&pool->slab_count, memory_order_relaxed) != 1)
        return false;
    return (stretch + STRETCHES - pool->adopted_in) % STRETCHES <= 1;
}

/* Moves the slab with the most free blocks between two pools, both locked; false
 * if there is none worth it. */
static bool move_sparse(struct pool *from, struct pool *to, unsigned shard, unsigned class) {
    unsigned stretch = (unsigned)(os_now_ms() / ADOPTED_MS % STRETCHES) + 1;
    if (keeps_only_slab(from, stretch))
        return false;
    for (unsigned rank = FILL_RANKS; rank-- > 1;) {
        if (list_is_empty(&from->partial[rank]))
            continue;
        struct span *span = container_of(from->partial[rank].next, struct span, link);
        pool_unlist(from, span);
        pool_count(&from->slab_count, -span->slabs);
        from->free_blocks -= span->free_count;
        to->free_blocks += span->free_count;
        span_set_home(span, home_make(shard, class));
        pool_write_entries(span, slab_entry(shard, class));
        pool_count(&to->slab_count, span->slabs);
        to->adopted_in = stretch & 0x7f;
        pool_settle(to, span);
        return true;
    }
    return false;
}

/* A slab that another shard hardly uses is better than a fresh one: else small
 * programs would pay for each class in each shard. */
static bool adopt_sparse(unsigned shard, unsigned class) {
    bool adopted = false;
    for (unsigned i = 1; i < shard_count && !adopted; i++) {
        unsigned other = (shard + i) % shard_count;
        if (atomic_load_explicit(&pools[other][class].partial_count, memory_order_relaxed) == 0)
            continue;
        /* Two locks of one rank: the lower shard's first. */
        struct pool *low = pool_lock(hak_min(shard, other), class);
        struct pool *high = pool_lock(hak_max(shard, other), class);
        struct pool *to = shard < other ? low : high;
        adopted = move_sparse(to == low ? high : low, to, shard, class);
        os_lock_release(&high->lock);
        os_lock_release(&low->lock);
    }
    return adopted;
}

/* --- taking ---------------------------------------------------------------- */

/* A processor's own prefetching ends with a page, so a program that fills one block after the other
 * would wait at the start of each. So for each page that begins in a run, the start of the page
 * after it is asked for. */
static void prefetch_ahead(const char *run, size_t bytes) {
    size_t page = os_page_size();
    const char *from = run + page;
    const char *to = from + bytes;
    for (const char *at = from + (-(uintptr_t)from & (page - 1)); at < to; at += page)
        __builtin_prefetch(at, 1);
}

/* Puts a run of neighbours into the places below end, the first one highest; returns the lowest. */
static void **put_run(void **end, unsigned run, char *block, size_t size) {
    void **stop = end - run;
    if (size < os_page_size())
        prefetch_ahead(block, run * size);
    for (; end - stop >= 4; end -= 4, block += 4 * size) {
        end[-1] = block;
        end[-2] = block + size;
        end[-3] = block + 2 * size;
        end[-4] = block + 3 * size;
    }
    for (; end > stop; block += size)
        *--end = block;
    return stop;
}

/* Moves up to want free blocks of a slab to the places just below end. */
static unsigned take_from(struct span *span, uint32_t size, void **end, unsigned want) {
    void **at = end;
    void **stop = end - hak_min(want, (unsigned)span->free_count);
    unsigned w = span->first_word;
    while (at > stop) {
        uint64_t word = span->free_bits[w];
        if (word == 0) {
            w++;
            continue;
        }
        char *base = span->start + (size_t)w * WORD_BITS * size;
        unsigned first = bit_lowest(word);
        if (word == UINT64_MAX << first) { /* all from there on, as in a fresh slab */
            unsigned run = hak_min(WORD_BITS - first, (unsigned)(at - stop));
            at = put_run(at, run, base + (size_t)first * size, size);
            word &= ~bits_range(first, run);
        }
        for (; word != 0 && at > stop; word &= word - 1)
            *--at = base + (size_t)bit_lowest(word) * size;
        span->free_bits[w] = word;
    }
    unsigned taken = (unsigned)(end - at);
    uint32_t last =
        class_index(&size_classes[span_class(span)], (size_t)((char *)*at - span->start));
    span->touched = (uint16_t)hak_max((unsigned)span->touched, last + 1);
    span->free_count = (uint16_t)(span->free_count - taken);
    span->first_word = (uint8_t)w;
    return taken;
}

static unsigned take_partial(unsigned shard, unsigned class, void **out, unsigned want) {
    uint32_t size = size_classes[class].size;
    struct pool *pool = pool_lock(shard, class);
    void **end = out + want;
    struct span *span;
    while (end > out && (span = pool_fullest(pool)) != NULL) {
        unsigned part = take_from(span, size, end, (unsigned)(end - out));
        if (hak_unlikely(span->has_purged))
            pages_taken(span, end[-1], (char *)end[-(int)part] + size);
        end -= part;
        pool_settle(pool, span);
    }
    unsigned taken = (unsigned)(out + want - end);
    pool->taken += taken;
    shrink_count(pool, class, taken);
    pool->free_blocks -= taken;
    os_lock_release(&pool->lock);
    if (taken < want) {
        for (unsigned i = 0; i < taken; i++)
            out[i] = end[i];
    }
    return taken;
}

/* The pool had no free block. False: out of memory. */
static bool grow(unsigned shard, unsigned class, unsigned *fresh) {
    if (adopt_sparse(shard, class))
        return true;
    os_lock_acquire(slab_growth_lock(shard));
    const struct pool *pool = &pools[shard][class];
    bool has_some = atomic_load_explicit(&pool->partial_count, memory_order_relaxed) != 0;
    bool done = has_some || add_spans(shard, class, fresh);
    os_lock_release(slab_growth_lock(shard));
    return done;
}

unsigned slab_take(unsigned shard, unsigned class, void **out, unsigned want, unsigned *fresh) {
    unsigned taken;
    while ((taken = take_partial(shard, class, out, want)) == 0) {
        if (!grow(shard, class, fresh))
            return 0;
    }
    return taken;
}

static void *take_one(unsigned shard, unsigned class, bool *is_zero) {
    void *block = NULL;
    struct pool *pool = pool_lock(shard, class);
    struct span *span = pool_fullest(pool);
    if (span != NULL) {
        unsigned touched = span->touched;
        size_t size = size_classes[class].size;
        take_from(span, (uint32_t)size, &block + 1, 1);
        *is_zero = span->touched > touched;
        if (hak_unlikely(span->has_purged))
            *is_zero |= pages_taken(span, block, (char *)block + size);
        pool_settle(pool, span);
        pool->taken++;
        shrink_count(pool, class, 1);
        pool->free_blocks--;
    }
    os_lock_release(&pool->lock);
    return block;
}

void *slab_take_one(unsigned shard, unsigned class, bool *is_zero) {
    void *block;
    while ((block = take_one(shard, class, is_zero)) == NULL) {
        if (!grow(shard, class, NULL))
            return NULL;
    }
    return block;
}

/* --- upkeep ---------------------------------------------------------------- */

static void trim_pool(unsigned shard, unsigned class) {
    struct list retired;
    list_init(&retired);
    struct pool *pool = pool_lock(shard, class);
    struct list *emptiest = &pool->partial[FILL_RANKS - 1];
    for (struct list *link = emptiest->next, *next; link != emptiest; link = next) {
        next = link->next;
        struct span *span = container_of(link, struct span, link);
        if (pool_is_empty(span))
            pool_retire(pool, span, &retired);
    }
    os_lock_release(&pool->lock);
    pool_give_retired(&retired);
}

void slab_trim(void) {
    for (unsigned shard = 0; shard < shard_count; shard++) {
        for (unsigned class = 1; class < CLASS_COUNT; ++class) {
            if (atomic_load_explicit(&pools[shard][class].partial_count, memory_order_relaxed) != 0)
                trim_pool(shard, class);
        }
    }
}

struct class_stats slab_stats(unsigned class) {
    struct class_stats stats = {0};
    for (unsigned shard = 0; shard < shard_count; shard++) {
        if (!atomic_load_explicit(&pools[shard][class].is_open, memory_order_acquire))
            continue;
        struct pool *pool = pool_lock(shard, class);
        stats.taken += pool->taken;
        stats.given += pool->given;
        stats.slab_bytes +=
            (size_t)atomic_load_explicit(&pool->slab_count, memory_order_relaxed) * SLAB_BYTES;
        os_lock_release(&pool->lock);
    }
    return stats;
}
