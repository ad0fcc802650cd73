/* Does the slab layer agree with itself, and with the bins?
 *
 *   slab     bitmap     as many bits as free_count says, none behind the last block or below
 *                       first_word, all from `touched` on
 *            marks      no block in use on a page that was purged
 *            entries    of its class and shard, in all of its slabs
 *            list       the one that free_count asks for
 *   pool     its lists hold what partial_count and free_blocks say
 *   bin      its blocks are of its class, different from each other, and not free
 *
 * Each slab is looked at under the lock of its pool, each pool's lists under one hold of it:
 * whatever other threads do, they do it whole under that lock. Only pages.c takes blocks out
 * of a bitmap for a while, under slab_pages_lock, which is therefore held, for the slabs of one
 * SuperSlab at a time.
 *
 * Full slabs are on no list, so how many slabs a pool has is counted over the whole heap, pool
 * by pool while others change: that sum is for a thread that is alone. */
#include "slab/pool.h"
#include "span/arena.h"

struct check {
    struct finding *finding;
    size_t slabs[CLASS_COUNT]; /* seen, by class */
};

static size_t size_of(const struct span *span) { return class_size(span_class(span)); }

/* --- one slab; its pool's lock is held ---------------------------------------------- */

static const uint64_t *expected_bitmap(const struct super *super, const struct span *span) {
    size_t first = (size_t)(span - super->spans);
    if (span->capacity <= SPAN_INLINE_WORDS * WORD_BITS)
        return span->inline_bits;
    return span->capacity <= SPAN_SHORT_WORDS * WORD_BITS ? super->short_bitmaps[first]
                                                          : super->bitmaps[first];
}

/* What all else relies on: which memory it is, how many blocks, where their bits are. */
static bool check_shape(struct check *check, const struct super *super, const struct span *span) {
    const struct size_class *shape = &size_classes[span_class(span)];
    const char *place = super->start + (size_t)(span - super->spans) * SLAB_BYTES;
    uint32_t head = slab_mask((unsigned)(span - super->spans), 1);
    bool is_head = (atomic_load_explicit(&super->heads, memory_order_relaxed) & head) != 0;
    if (span->start != place || !is_head || span->state != SPAN_TAKEN)
        return finding_note(check->finding,
                            "slab %p of size class %u: no span in use starts there (state %u)",
                            (const void *)place, shape->size, span->state);
    unsigned single = pool_single_slabs(span_class(span));
    if (span->slabs < (single != 0 ? single : shape->slabs_least) || span->slabs > shape->slabs ||
        span->capacity != span_bytes(span) / shape->size)
        return finding_note(check->finding, "slab %p of size class %u: %u slabs, %u blocks",
                            (const void *)place, shape->size, span->slabs, span->capacity);
    if (span->free_bits != expected_bitmap(super, span))
        return finding_note(check->finding,
                            "slab %p of size class %u: its bitmap is not where it must be",
                            (const void *)place, shape->size);
    return true;
}

static bool check_bits(struct check *check, const struct span *span) {
    unsigned words = (unsigned)divide_up(span->capacity, WORD_BITS);
    unsigned tail = span->capacity % WORD_BITS;
    unsigned set = 0;
    unsigned first = words;
    for (unsigned w = 0; w < words; w++) {
        set += bit_count(span->free_bits[w]);
        first = first == words && span->free_bits[w] != 0 ? w : first;
    }
    if (set != span->free_count)
        return finding_note(check->finding,
                            "slab %p of size class %zu: %u free blocks noted, but %u bits are set",
                            (void *)span->start, size_of(span), span->free_count, set);
    if (tail != 0 && (span->free_bits[words - 1] & ~bits_low(tail)) != 0)
        return finding_note(
            check->finding,
            "slab %p of size class %zu: blocks behind the last, number %u, are free",
            (void *)span->start, size_of(span), span->capacity);
    if (span->first_word >= words || span->first_word > first)
        return finding_note(check->finding,
                            "slab %p of size class %zu: word %u of its bitmap is said to be the "
                            "first with a bit, but word %u is",
                            (void *)span->start, size_of(span), span->first_word, first);
    if (span->touched > span->capacity ||
        !bitmap_has_all(span->free_bits, span->touched, (size_t)span->capacity - span->touched))
        return finding_note(check->finding,
                            "slab %p of size class %zu: blocks from number %u on are in use, but "
                            "said never to have been",
                            (void *)span->start, size_of(span), span->touched);
    return true;
}

static bool check_entries(struct check *check, const struct span *span) {
    uint16_t wanted = slab_entry(home_shard(span_home(span)), span_class(span));
    size_t first = window_slab_index(span->start);
    for (size_t i = 0; i < span->slabs; i++) {
        uint16_t entry = atomic_load_explicit(&window_map[first + i], memory_order_relaxed);
        if (entry != wanted)
            return finding_note(
                check->finding,
                "slab %p of size class %zu (row %u, bin %u): its map entry says row %u, bin %u",
                (void *)(span->start + i * SLAB_BYTES), size_of(span), entry_row(wanted),
                entry_bin(wanted), entry_row(entry), entry_bin(entry));
    }
    return true;
}

static bool check_slab(struct check *check, const struct super *super, const struct span *span) {
    if (!check_shape(check, super, span) || !check_bits(check, span) || !check_entries(check, span))
        return false;
    if (!pages_marks_hold(span))
        return finding_note(check->finding,
                            "slab %p of size class %zu: a page marked as purged has blocks in use",
                            (void *)span->start, size_of(span));
    bool is_listed = !list_is_empty(&span->link);
    if (span->fill_rank != pool_wanted_rank(span) ||
        is_listed != (span->fill_rank != FILL_UNLISTED))
        return finding_note(check->finding,
                            "slab %p of size class %zu with %u of %u blocks free is on list %u%s",
                            (void *)span->start, size_of(span), span->free_count, span->capacity,
                            span->fill_rank, is_listed ? "" : ", but on none");
    if (span->settles_at != pool_settles_at(span, span->fill_rank))
        return finding_note(check->finding,
                            "slab %p of size class %zu, on list %u, is to be settled at %u of %u "
                            "blocks free, not at %u",
                            (void *)span->start, size_of(span), span->fill_rank, span->settles_at,
                            span->capacity, pool_settles_at(span, span->fill_rank));
    check->slabs[span_class(span)] += span->slabs;
    return true;
}

/* --- the heap's slabs ----------------------------------------------------------------- */

static bool check_span(struct check *check, const struct super *super, struct span *span) {
    uint16_t home = span_home(span);
    if (home_class(home) >= CLASS_COUNT || home_shard(home) >= slab_shard_count())
        return finding_note(check->finding, "slab %p is said to be of bin %u in shard %u",
                            (void *)(super->start + (size_t)(span - super->spans) * SLAB_BYTES),
                            home_class(home), home_shard(home));
    struct pool *pool = pool_lock_of(span);
    if (pool == NULL)
        return true;
    bool is_whole = check_slab(check, super, span);
    os_lock_release(&pool->lock);
    return is_whole;
}

static bool check_super(struct check *check, struct super *super) {
    bool is_whole = true;
    os_lock_acquire(&slab_pages_lock);
    for (unsigned i = 0; i < SUPER_SLABS && is_whole; i++)
        is_whole = check_span(check, super, &super->spans[i]);
    os_lock_release(&slab_pages_lock);
    return is_whole;
}

/* --- pools ------------------------------------------------------------------------------ */

/* A list of a pool: its members are where they belong. Adds up what they have free. */
static bool check_list(struct check *check, const struct pool *pool, unsigned shard, unsigned class,
                       unsigned rank, size_t *listed, uint64_t *free_blocks) {
    size_t most = atomic_load_explicit(&pool->partial_count, memory_order_relaxed);
    size_t count;
    if (!list_count_sound(&pool->partial[rank], most, &count))
        return finding_note(check->finding,
                            "list %u of size class %zu in shard %u is broken, or longer than the "
                            "%zu slabs that are on lists",
                            rank, class_size(class), shard, most);
    list_for_each(link, &pool->partial[rank]) {
        const struct span *span = container_of(link, struct span, link);
        if (span_home(span) != home_make(shard, class) || span->fill_rank != rank)
            return finding_note(check->finding,
                                "slab %p of bin %u in shard %u is on list %u of bin %u in shard %u",
                                (void *)span->start, span_class(span), home_shard(span_home(span)),
                                rank, class, shard);
        *free_blocks += span->free_count;
    }
    *listed += count;
    return true;
}

static bool check_lists(struct check *check, const struct pool *pool, unsigned shard,
                        unsigned class) {
    size_t listed = 0;
    uint64_t free_blocks = 0;
    for (unsigned rank = 0; rank < FILL_RANKS; rank++) {
        if (!check_list(check, pool, shard, class, rank, &listed, &free_blocks))
            return false;
    }
    size_t partial = atomic_load_explicit(&pool->partial_count, memory_order_relaxed);
    if (listed != partial || free_blocks != pool->free_blocks)
        return finding_note(check->finding,
                            "size class %zu in shard %u: %zu slabs with %zu free blocks noted, but "
                            "there are %zu with %zu",
                            class_size(class), shard, partial, (size_t)pool->free_blocks, listed,
                            (size_t)free_blocks);
    return true;
}

static bool check_pool(struct check *check, unsigned shard, unsigned class) {
    /* One never used is not opened for this. */
    if (!atomic_load_explicit(&pools[shard][class].is_open, memory_order_acquire))
        return true;
    struct pool *pool = pool_lock(shard, class);
    bool is_whole = check_lists(check, pool, shard, class);
    os_lock_release(&pool->lock);
    return is_whole;
}

/* As many slabs as the pools of a class count. */
static bool check_slab_count(struct check *check, unsigned class) {
    size_t noted = 0;
    for (unsigned shard = 0; shard < slab_shard_count(); shard++)
        noted += atomic_load_explicit(&pools[shard][class].slab_count, memory_order_relaxed);
    return noted == check->slabs[class] ||
           finding_note(check->finding, "size class %zu: %zu slabs noted, but there are %zu",
                        class_size(class), noted, check->slabs[class]);
}

bool slab_check(struct finding *finding, bool is_alone) {
    struct check check = {.finding = finding};
    for (unsigned shard = 0; shard < slab_shard_count(); shard++) {
        for (unsigned class = 1; class < CLASS_COUNT; ++class) {
            if (!check_pool(&check, shard, class))
                return false;
        }
    }
    for (size_t i = arena_known(0); i < window_super_count(); i = arena_known(i + 1)) {
        struct super *super = window_super(i);
        if (super != NULL && !check_super(&check, super))
            return false;
    }
    for (unsigned class = 1; is_alone && class < CLASS_COUNT; ++class) {
        if (!check_slab_count(&check, class))
            return false;
    }
    return true;
}

/* --- blocks in a bin -------------------------------------------------------------------- */

static struct span *span_of_block(const void *block) {
    return window_contains(block) ? span_of(block) : NULL;
}

/* They hold still: they are the calling thread's. Only their slab's shard may change. */
static bool check_place(struct finding *finding, unsigned class, const void *block) {
    struct span *span = span_of_block(block);
    const struct size_class *shape = &size_classes[class];
    size_t offset = span == NULL ? 0 : (size_t)((const char *)block - span->start);
    uint32_t index = class_index(shape, offset);
    if (span == NULL || span_class(span) != class || entry_bin(window_entry(block)) != class ||
        index >= span->capacity || (size_t)index * shape->size != offset)
        return finding_note(
            finding, "%p, in a bin of size class %u, is no block of that class: freed by mistake",
            block, shape->size);
    return true;
}

/* Sets the bits of those that are of a shard, or clears them again; returns how many it went
 * over before it found a bit that was so already. */
static unsigned mark(unsigned shard, unsigned class, void *const *blocks, unsigned count, bool on) {
    for (unsigned i = 0; i < count; i++) {
        struct span *span = span_of_block(blocks[i]);
        if (span_home(span) != home_make(shard, class))
            continue;
        size_t offset = (size_t)((const char *)blocks[i] - span->start);
        if (!bitmap_change(span->free_bits, class_index(&size_classes[class], offset), 1, on))
            return i;
    }
    return count;
}

/* Marks the blocks in their slabs' own bitmaps, where nobody can see it, for the pool is
 * locked: so a block that is there twice is found without any memory for it. */
static bool check_marks(struct finding *finding, unsigned shard, unsigned class,
                        void *const *blocks, unsigned count) {
    unsigned marked = mark(shard, class, blocks, count, true);
    mark(shard, class, blocks, marked, false);
    if (marked == count)
        return true;
    bool is_free = mark(shard, class, &blocks[marked], 1, true) == 0;
    if (!is_free)
        mark(shard, class, &blocks[marked], 1, false);
    return finding_note(finding, "block %p of size class %zu (slab %p) is in a bin %s",
                        blocks[marked], class_size(class),
                        (void *)span_of_block(blocks[marked])->start,
                        is_free ? "and free: freed twice" : "twice: freed twice");
}

bool slab_check_cached(struct finding *finding, unsigned class, void *const *blocks,
                       unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (!check_place(finding, class, blocks[i]))
            return false;
    }
    bool is_whole = true;
    for (unsigned shard = 0; shard < slab_shard_count() && count != 0 && is_whole; shard++) {
        if (!atomic_load_explicit(&pools[shard][class].is_open, memory_order_acquire))
            continue;
        struct pool *pool = pool_lock(shard, class);
        is_whole = check_marks(finding, shard, class, blocks, count);
        os_lock_release(&pool->lock);
    }
    return is_whole;
}
