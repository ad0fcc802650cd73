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
 * Lock: a pool's lock protects its lists and the slab fields of its spans. A
 * span's class and shard change only under the lock of the pool that it leaves;
 * so whoever holds that lock and finds them as expected may rely on them. Spans
 * are taken and given without the lock. */
#include "slab/slab.h"

#include "os/metadata.h"
#include "span/report.h"

enum {
    NO_WORD = SPAN_BITMAP_WORDS,
    FEW_BLOCKS = 2, /* of a slab that the first block fills, or nearly */
    BUSY_TURNS = 4, /* how often a class must have gone through a slab's blocks for that */
};

struct pool (*pools)[CLASS_COUNT];
static unsigned shard_count;
struct os_lock pools_opening_lock;

bool slab_init(unsigned count) {
    if (pools == NULL)
        pools = os_metadata_take(count * sizeof *pools);
    shard_count = pools == NULL ? 0 : count;
    return pools != NULL;
}

unsigned slab_shard_count(void) { return shard_count; }

/* Pairs with the release in add_fresh: who finds the new class finds the new shard, too,
 * read after it, and never takes the lock of the old one for the right one. */
hak_inline unsigned span_class(const struct span *span) {
    return atomic_load_explicit(&span->class, memory_order_acquire);
}

hak_inline unsigned span_shard_of(const struct span *span) {
    return atomic_load_explicit(&span->shard, memory_order_relaxed);
}

/* Sets up a pool's lists at its first use, so that the thousands of pools that a
 * program never uses cost nothing. */
static hak_cold void open_pool(struct pool *pool) {
    os_lock_acquire(&pools_opening_lock);
    if (!atomic_load_explicit(&pool->is_open, memory_order_relaxed)) {
        for (unsigned rank = 0; rank < FILL_RANKS; rank++)
            list_init(&pool->partial[rank]);
        /* A forking thread passes all locks because it holds them: this one too. */
        if (os_lock_is_passed())
            atomic_store_explicit(&pool->lock.state, LOCK_HELD, memory_order_relaxed);
        /* Pairs with the acquire in lock_pool. */
        atomic_store_explicit(&pool->is_open, true, memory_order_release);
    }
    os_lock_release(&pools_opening_lock);
}

static struct pool *lock_pool(unsigned shard, unsigned class) {
    struct pool *pool = &pools[shard][class];
    if (hak_unlikely(!atomic_load_explicit(&pool->is_open, memory_order_acquire)))
        open_pool(pool);
    os_lock_acquire(&pool->lock);
    return pool;
}

/* Of a counter that others read without the lock. */
static void change_count(_Atomic uint32_t *counter, int change) {
    uint32_t count = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, count + (uint32_t)change, memory_order_relaxed);
}

/* --- which list a slab is on; the pool's lock is held --------------------- */

static unsigned wanted_rank(const struct span *span) {
    if (span->free_count == 0)
        return FILL_UNLISTED;
    return (span->free_count * (unsigned)FILL_RANKS - 1) / span->capacity;
}

/* Puts a slab on the list that its number of free blocks asks for. */
static void settle(struct pool *pool, struct span *span) {
    unsigned rank = wanted_rank(span);
    if (rank == span->fill_rank)
        return;
    if (span->fill_rank == FILL_UNLISTED)
        change_count(&pool->partial_count, 1);
    else
        list_remove(&span->link);
    if (rank == FILL_UNLISTED)
        change_count(&pool->partial_count, -1);
    else
        list_push_front(&pool->partial[rank], &span->link);
    span->fill_rank = (uint8_t)rank;
}

static void unlist(struct pool *pool, struct span *span) {
    if (span->fill_rank == FILL_UNLISTED)
        return;
    list_remove(&span->link);
    change_count(&pool->partial_count, -1);
    span->fill_rank = FILL_UNLISTED;
}

static struct span *fullest(struct pool *pool) {
    for (unsigned rank = 0; rank < FILL_RANKS; rank++) {
        if (!list_is_empty(&pool->partial[rank]))
            return container_of(pool->partial[rank].next, struct span, link);
    }
    return NULL;
}

/* --- new slabs ------------------------------------------------------------- */

static void write_entries(const struct span *span, uint16_t entry) {
    size_t first = window_slab_index(span->start);
    for (size_t i = 0; i < span->slabs; i++)
        window_entry_set(first + i, entry);
}

static void mark_all_free(struct span *span) {
    unsigned words = span->capacity / WORD_BITS;
    for (unsigned w = 0; w < words; w++)
        span->free_bits[w] = UINT64_MAX;
    if (span->capacity % WORD_BITS != 0)
        span->free_bits[words] = bits_low(span->capacity % WORD_BITS);
    span->free_count = span->capacity;
    span->first_word = 0;
}

/* Whether a class has handed out as many blocks as a slab holds. */
static bool has_used_up_a_slab(unsigned shard, unsigned class) {
    struct pool *pool = lock_pool(shard, class);
    bool has = pool->taken >= size_classes[class].capacity;
    os_lock_release(&pool->lock);
    return has;
}

/* A span for a class. Its first slab may never hold more than a few blocks, so pages
 * that are resident already would be wasted on it; a class that has used one up wants
 * just those, in spans shorter than the best if need be. */
static struct span *take_span(unsigned shard, unsigned class, bool *is_zero) {
    const struct size_class *shape = &size_classes[class];
    bool is_first = !has_used_up_a_slab(shard, class);
    struct span_request request = {
        .slabs = shape->slabs,
        .slabs_least = shape->slabs_least,
        .alignment = 1,
        .state = SPAN_TAKEN,
        .pages = is_first && shape->capacity > FEW_BLOCKS ? SPAN_UNTOUCHED : SPAN_USED,
    };
    return span_take(shard, &request, is_zero);
}

/* Cuts a new span into blocks and gives it to the pool. */
static bool add_span(unsigned shard, unsigned class, unsigned *fresh) {
    bool is_zero;
    struct span *span = take_span(shard, class, &is_zero);
    if (span == NULL)
        return false;
    if (fresh != NULL && is_zero)
        *fresh += span->slabs;
    span->capacity = (uint16_t)(span_bytes(span) / size_classes[class].size);
    span->free_bits = super_bitmap(window_super(window_super_index(span->start)), span);
    span->touched = is_zero ? 0 : span->capacity;
    span->fill_rank = FILL_UNLISTED;
    list_init(&span->link);
    mark_all_free(span);
    if (is_zero)
        populate_fresh(&pools[shard][class], class, span);
    struct pool *pool = lock_pool(shard, class);
    atomic_store_explicit(&span->shard, (uint16_t)shard, memory_order_relaxed);
    atomic_store_explicit(&span->class, (uint8_t) class, memory_order_release);
    write_entries(span, slab_entry(shard, class));
    change_count(&pool->slab_count, span->slabs);
    settle(pool, span);
    os_lock_release(&pool->lock);
    return true;
}

/* Moves the slab with the most free blocks between two pools, both locked; false
 * if there is none worth it. */
static bool move_sparse(struct pool *from, struct pool *to, unsigned shard, unsigned class) {
    for (unsigned rank = FILL_RANKS; rank-- > 1;) {
        if (list_is_empty(&from->partial[rank]))
            continue;
        struct span *span = container_of(from->partial[rank].next, struct span, link);
        unlist(from, span);
        change_count(&from->slab_count, -span->slabs);
        atomic_store_explicit(&span->shard, (uint16_t)shard, memory_order_relaxed);
        write_entries(span, slab_entry(shard, class));
        change_count(&to->slab_count, span->slabs);
        settle(to, span);
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
        struct pool *low = lock_pool(hak_min(shard, other), class);
        struct pool *high = lock_pool(hak_max(shard, other), class);
        struct pool *to = shard < other ? low : high;
        adopted = move_sparse(to == low ? high : low, to, shard, class);
        os_lock_release(&high->lock);
        os_lock_release(&low->lock);
    }
    return adopted;
}

/* --- taking ---------------------------------------------------------------- */

/* Moves up to want free blocks of a slab to the places just below end. */
static unsigned take_from(struct span *span, uint32_t size, void **end, unsigned want) {
    void **at = end;
    void **stop = end - hak_min(want, (unsigned)span->free_count);
    unsigned w = span->first_word;
    while (at > stop) {
        uint64_t word = span->free_bits[w];
        char *base = span->start + (size_t)w * WORD_BITS * size;
        for (; word != 0 && at > stop; word &= word - 1)
            *--at = base + (size_t)bit_lowest(word) * size;
        span->free_bits[w] = word;
        if (word == 0)
            w++;
    }
    unsigned taken = (unsigned)(end - at);
    uint32_t last =
        class_index(&size_classes[span_class(span)], (size_t)((char *)*at - span->start));
    span->touched = (uint16_t)hak_max((unsigned)span->touched, last + 1);
    span->free_count = (uint16_t)(span->free_count - taken);
    span->first_word = (uint16_t)w;
    return taken;
}

static unsigned take_partial(unsigned shard, unsigned class, void **out, unsigned want) {
    uint32_t size = size_classes[class].size;
    struct pool *pool = lock_pool(shard, class);
    void **end = out + want;
    struct span *span;
    while (end > out && (span = fullest(pool)) != NULL) {
        end -= take_from(span, size, end, (unsigned)(end - out));
        settle(pool, span);
    }
    unsigned taken = (unsigned)(out + want - end);
    pool->taken += taken;
    os_lock_release(&pool->lock);
    if (taken < want) {
        for (unsigned i = 0; i < taken; i++)
            out[i] = end[i];
    }
    return taken;
}

unsigned slab_take(unsigned shard, unsigned class, void **out, unsigned want, unsigned *fresh) {
    unsigned taken;
    while ((taken = take_partial(shard, class, out, want)) == 0) {
        if (!adopt_sparse(shard, class) && !add_span(shard, class, fresh))
            return 0;
    }
    return taken;
}

static void *take_one(unsigned shard, unsigned class, bool *is_zero) {
    void *block = NULL;
    struct pool *pool = lock_pool(shard, class);
    struct span *span = fullest(pool);
    if (span != NULL) {
        unsigned touched = span->touched;
        take_from(span, size_classes[class].size, &block + 1, 1);
        *is_zero = span->touched > touched;
        settle(pool, span);
        pool->taken++;
    }
    os_lock_release(&pool->lock);
    return block;
}

void *slab_take_one(unsigned shard, unsigned class, bool *is_zero) {
    void *block;
    while ((block = take_one(shard, class, is_zero)) == NULL) {
        if (!adopt_sparse(shard, class) && !add_span(shard, class, NULL))
            return NULL;
    }
    return block;
}

/* --- giving ---------------------------------------------------------------- */

/* The span that a block's pointer leads to, or NULL. */
static struct span *find_span(const void *block) {
    return window_contains(block) ? span_of(block) : NULL;
}

/* Gives the leading ones of blocks that are blocks in use of this slab; returns
 * how many. The pool's lock is held. Every promise is looked at here, for a
 * pointer may be stale or never have been right: exact multiple of the size, index
 * below the capacity (which also rules out other slabs' blocks), bit not set. */
static unsigned give_run(struct span *span, const struct size_class *shape, void **blocks,
                         unsigned count) {
    const char *start = span->start;
    uint32_t capacity = span->capacity;
    uint32_t first_word = span->first_word;
    uint32_t w = NO_WORD; /* neighbours share a word of the bitmap: it stays in a register */
    uint64_t word = 0;
    unsigned given = 0;
    for (; given < count; given++) {
        size_t offset = (size_t)((const char *)blocks[given] - start);
        uint32_t index = class_index(shape, offset);
        if (index >= capacity || (size_t)index * shape->size != offset)
            break;
        if (index / WORD_BITS != w) {
            if (w != NO_WORD)
                span->free_bits[w] = word;
            w = index / WORD_BITS;
            word = span->free_bits[w];
            first_word = hak_min(first_word, w);
        }
        uint64_t bit = UINT64_C(1) << (index % WORD_BITS);
        if ((word & bit) != 0)
            break;
        word |= bit;
    }
    if (w != NO_WORD)
        span->free_bits[w] = word;
    span->free_count = (uint16_t)(span->free_count + given);
    span->first_word = (uint16_t)first_word;
    return given;
}

/* Reports a block that could not be given; the lock is no longer held. */
_Noreturn static void report_block(unsigned class, const void *block, const char *operation) {
    struct span *span = find_span(block);
    if (span == NULL || span_class(span) != class) {
        if (!is_aligned((uintptr_t)block, CLASS_STEP))
            report_bad_pointer(block, operation);
        hak_panic(HAK_DOUBLE_FREE,
                  "%s(%p): block of size class %zu is free already, its slab given back since",
                  operation, block, class_size(class));
    }
    const struct size_class *shape = &size_classes[class];
    size_t offset = (size_t)((const char *)block - span->start);
    size_t index = offset / shape->size;
    bool is_free = index < span->capacity && bitmap_get(span->free_bits, index);
    report_bad_block(block, operation, span->start, shape->size, span->capacity, is_free);
}

/* A wholly free span stops being a slab of this class; moves to retired. */
static void retire(struct pool *pool, struct span *span, struct list *retired) {
    unlist(pool, span);
    populate_learn(pool, span);
    change_count(&pool->slab_count, -span->slabs);
    atomic_store_explicit(&span->class, 0, memory_order_relaxed);
    write_entries(span, 0);
    list_push_back(retired, &span->link);
}

/* A slab has got blocks back. If it is wholly free and not worth keeping, moves
 * it to retired: no longer a slab, its entries cleared. */
static void settle_given(struct pool *pool, struct span *span, struct list *retired) {
    settle(pool, span);
    if (span->free_count < span->capacity)
        return;
    bool is_last = atomic_load_explicit(&pool->partial_count, memory_order_relaxed) == 1;
    bool is_busy = pool->taken >= (uint64_t)span->capacity * BUSY_TURNS;
    if (is_last && is_busy && span->slabs <= options_profile()->warm_slabs)
        return;
    retire(pool, span, retired);
}

static void give_retired(struct list *retired) {
    while (!list_is_empty(retired)) {
        struct span *span = container_of(retired->next, struct span, link);
        list_remove(&span->link);
        span_give(span);
    }
}

/* Gives the blocks that belong to `shard`; moves the others to the front of
 * blocks and returns how many they are. Stops at a bad one, which *bad then
 * names; bad NULL: steps over bad ones.
 *
 * A slab's class and shard, read here under the pool's lock, hold still as long
 * as the lock is held if they are this pool's. */
static unsigned give_to(unsigned shard, unsigned class, void **blocks, unsigned count, void **bad) {
    struct list retired;
    list_init(&retired);
    unsigned rest = 0;
    unsigned given = 0;
    struct pool *pool = lock_pool(shard, class);
    for (unsigned i = 0; i < count && (bad == NULL || *bad == NULL);) {
        struct span *span = find_span(blocks[i]);
        bool is_ours = span != NULL && span_class(span) == class;
        if (is_ours && span_shard_of(span) != shard) {
            blocks[rest++] = blocks[i++];
            continue;
        }
        unsigned run = is_ours ? give_run(span, &size_classes[class], blocks + i, count - i) : 0;
        if (run != 0)
            settle_given(pool, span, &retired);
        else if (bad != NULL)
            *bad = blocks[i];
        given += run;
        i += hak_max(run, 1u);
    }
    pool->given += given;
    os_lock_release(&pool->lock);
    give_retired(&retired);
    return rest;
}

void slab_give(unsigned class, void **blocks, unsigned count) {
    while (count != 0) {
        struct span *span = find_span(blocks[0]);
        void *bad = span == NULL ? blocks[0] : NULL;
        if (bad == NULL)
            count = give_to(span_shard_of(span), class, blocks, count, &bad);
        if (bad != NULL)
            report_block(class, bad, "free");
    }
}

void slab_reclaim(unsigned class, void **blocks, unsigned count) {
    while (count != 0) {
        struct span *span = find_span(blocks[0]);
        if (span == NULL || span_class(span) != class)
            blocks[0] = blocks[--count];
        else
            count = give_to(span_shard_of(span), class, blocks, count, NULL);
    }
}

/* --- upkeep ---------------------------------------------------------------- */

static void trim_pool(unsigned shard, unsigned class) {
    struct list retired;
    list_init(&retired);
    struct pool *pool = lock_pool(shard, class);
    struct list *emptiest = &pool->partial[FILL_RANKS - 1];
    for (struct list *link = emptiest->next, *next; link != emptiest; link = next) {
        next = link->next;
        struct span *span = container_of(link, struct span, link);
        if (span->free_count == span->capacity)
            retire(pool, span, &retired);
    }
    os_lock_release(&pool->lock);
    give_retired(&retired);
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
        struct pool *pool = lock_pool(shard, class);
        stats.taken += pool->taken;
        stats.given += pool->given;
        stats.slab_bytes +=
            (size_t)atomic_load_explicit(&pool->slab_count, memory_order_relaxed) * SLAB_BYTES;
        os_lock_release(&pool->lock);
    }
    return stats;
}
