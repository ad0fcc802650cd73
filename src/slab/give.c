/* Blocks on their way home: every promise of the caller is looked at again under the
 * lock of the pool that the block belongs to. */
#include "slab/pool.h"
#include "span/report.h"

/* The span that a block's pointer leads to, or NULL. */
static struct span *find_span(const void *block) {
    return window_contains(block) ? span_of(block) : NULL;
}

/* The SuperSlab of a block, and which of its slabs; or NULL. */
hak_inline struct super *find_slab(const void *block, size_t *slab) {
    if (!window_contains(block))
        return NULL;
    size_t index = window_slab_index(block);
    *slab = index % SUPER_SLABS;
    return window_super(index / SUPER_SLABS);
}

/* As find_span, for a block of this class: without a search where each of its spans is one slab,
 * for a slab that begins no such span has no home. */
static struct span *find_home(const struct size_class *shape, const void *block) {
    if (shape->slabs != 1)
        return find_span(block);
    size_t slab;
    struct super *super = find_slab(block, &slab);
    return super != NULL ? &super->spans[slab] : NULL;
}

/* Whether the first two are neighbours, or the first, the last and one between them near each
 * other: so, most likely, are the others. */
static bool are_near(const struct size_class *shape, void *const *blocks, unsigned count) {
    ptrdiff_t step = (char *)blocks[1] - (char *)blocks[0];
    if (step == (ptrdiff_t)shape->size || step == -(ptrdiff_t)shape->size)
        return true;
    uintptr_t from = (uintptr_t)blocks[0] - SLAB_BYTES;
    return (uintptr_t)blocks[count / 2] - from < (size_t)2 * SLAB_BYTES &&
           (uintptr_t)blocks[count - 1] - from < (size_t)2 * SLAB_BYTES;
}

/* Every promise is looked at under the pool's lock, for a pointer may be stale or never have been
 * right: exact multiple of the size, index below the capacity (which also rules out other slabs'
 * blocks), bit not set. The first two here; NO_INDEX: it is no block of this span. */
enum { NO_INDEX = UINT16_MAX }; /* a slab has fewer blocks */
hak_inline uint32_t index_at(const struct size_class *shape, uint32_t capacity, size_t offset) {
    uint32_t index = class_index(shape, offset);
    return index < capacity && (size_t)index * shape->size == offset ? index : NO_INDEX;
}

hak_inline uint32_t find_index(const struct span *span, const struct size_class *shape,
                               const void *block) {
    /* No span has no home, and that is nobody's. */
    uint32_t capacity = span->capacity; // NOLINT(clang-analyzer-core.NullDereference)
    return index_at(shape, capacity, (size_t)((const char *)block - span->start));
}

/* So many blocks from this index on are free now. */
hak_inline void note_given(struct span *span, uint32_t first, unsigned count) {
    span->free_count = (uint16_t)(span->free_count + count);
    if (first / WORD_BITS < span->first_word)
        span->first_word = (uint8_t)(first / WORD_BITS);
}

/* Gives the block of this index unless it is free. */
hak_inline bool give_index(struct span *span, uint32_t index) {
    uint64_t *word = &span->free_bits[index / WORD_BITS];
    uint64_t bit = UINT64_C(1) << index % WORD_BITS;
    if (hak_unlikely((*word & bit) != 0))
        return false;
    *word |= bit;
    note_given(span, index, 1);
    return true;
}

/* Gives a block if it is one in use of this span. */
hak_inline bool give_one(struct span *span, const struct size_class *shape, const void *block) {
    uint32_t index = find_index(span, shape, block);
    return index != NO_INDEX && give_index(span, index);
}

/* Where blocks from all over a large heap belong, as far as their addresses tell. */
enum { PLACES_MAX = 256 }; /* a flush moves no more at a time */
struct places {
    struct span *spans[PLACES_MAX]; /* NULL: no block of this class can be there */
    uint16_t indexes[PLACES_MAX];
};

/* Their descriptors and the words of their bits have left the processor's caches: asked for here,
 * all at once and before the lock is taken, they are not waited for one after the other. Near
 * blocks share theirs: false, there are no places. Nor if a span is more than one slab, for then a
 * block's slab need not be its span's first. */
static bool find_places(struct places *places, const struct size_class *class, void *const *blocks,
                        unsigned count) {
    enum { FEWEST = 4 };
    const struct size_class shape = *class; /* of our own: not read anew for each block */
    const struct bitmap_places bitmaps = super_bitmap_places(shape.capacity);
    if (count < FEWEST || count > PLACES_MAX || shape.slabs != 1 || are_near(class, blocks, count))
        return false;
    for (unsigned i = 0; i < count; i++) {
        size_t slab;
        struct super *super = find_slab(blocks[i], &slab);
        uint32_t index = index_at(&shape, shape.capacity, (uintptr_t)blocks[i] % SLAB_BYTES);
        places->spans[i] = NULL;
        if (super == NULL || index == NO_INDEX)
            continue;
        places->spans[i] = &super->spans[slab];
        places->indexes[i] = (uint16_t)index;
        __builtin_prefetch(&super->spans[slab], 1);
        __builtin_prefetch(&super_bitmap_at(super, bitmaps, slab)[index / WORD_BITS], 1);
    }
    return true;
}

/* The span that got the block of this place, or NULL: it is no block in use of this home. */
hak_inline struct span *give_placed(const struct places *places, unsigned i, uint16_t home) {
    struct span *span = places->spans[i];
    bool is_given = span != NULL && span_home(span) == home && give_index(span, places->indexes[i]);
    return is_given ? span : NULL;
}

/* Whether it is worth while to look for neighbours: *step is how far the second block is from the
 * first, up or down, and the fourth lies where it would in a row. */
hak_inline bool begins_row(void *const *blocks, unsigned count, ptrdiff_t size, ptrdiff_t *step) {
    enum { FEWEST = 4 };
    if (count < FEWEST)
        return false;
    *step = (char *)blocks[1] - (char *)blocks[0];
    return (*step == size || *step == -size) &&
           (char *)blocks[FEWEST - 1] - (char *)blocks[0] == (FEWEST - 1) * *step;
}

/* How many of at most `most` blocks lie side by side, each so many bytes after the last: four at a
 * time, for in a heap that is freed in order they are dozens. */
static unsigned count_neighbours(void **blocks, unsigned most, ptrdiff_t step) {
    void **at = blocks + 1;
    void **end = blocks + most;
    char *next = (char *)blocks[0] + step;
    for (; end - at >= 4; at += 4, next += 4 * step) {
        if (at[0] != next || at[1] != next + step || at[2] != next + 2 * step ||
            at[3] != next + 3 * step)
            break;
    }
    for (; at < end && *at == next; at++)
        next += step;
    return (unsigned)(at - blocks);
}

/* Gives neighbours, upwards or downwards, of which there may be more than one. 0: one of them is
 * not in use, or they are not of this span: give_one tells which. */
static unsigned give_row(struct span *span, const struct size_class *shape, void **blocks,
                         unsigned count, ptrdiff_t step) {
    uint32_t index = find_index(span, shape, blocks[0]);
    if (index == NO_INDEX)
        return 0;
    uint32_t most = step > 0 ? span->capacity - index : index + 1;
    unsigned row = count_neighbours(blocks, hak_min(most, count), step);
    uint32_t first = step > 0 ? index : index + 1 - row;
    if (hak_unlikely(bitmap_has_any(span->free_bits, first, row)))
        return 0;
    bitmap_change(span->free_bits, first, row, true);
    note_given(span, first, row);
    return row;
}

/* Whether the three first blocks are of one slab: two may be by chance. */
hak_inline bool begins_near(void *const *blocks, unsigned count) {
    return count > 2 && ((uintptr_t)blocks[0] ^ (uintptr_t)blocks[1]) < SLAB_BYTES &&
           ((uintptr_t)blocks[0] ^ (uintptr_t)blocks[2]) < SLAB_BYTES;
}

/* Gives as many of the blocks as come next and are of this span, whose home is known: most programs
 * free what lies near together, though not in order. Returns how many. */
hak_noinline static unsigned give_near(struct span *span, const struct size_class *shape,
                                       void **blocks, unsigned count) {
    unsigned given = 0;
    while (given < count) {
        unsigned row = 0;
        ptrdiff_t step;
        if (begins_row(blocks + given, count - given, shape->size, &step))
            row = give_row(span, shape, blocks + given, count - given, step);
        if (row == 0) {
            if (!give_one(span, shape, blocks[given]))
                break;
            row = 1;
        }
        given += row;
    }
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

/* Gives the blocks that belong to `shard`; moves the others to the front of
 * blocks and returns how many they are. Stops at a bad one, which *bad then
 * names; bad NULL: steps over bad ones.
 *
 * A slab's home, read here under the pool's lock, holds still as long as the lock is held
 * if it is this pool. */
static unsigned give_to(unsigned shard, unsigned class, void **blocks, unsigned count, void **bad) {
    const struct size_class *shape = &size_classes[class];
    struct list retired;
    list_init(&retired);
    unsigned rest = 0;
    unsigned given = 0;
    const uint16_t ours = home_make(shard, class);
    struct places places;
    bool has_places = find_places(&places, shape, blocks, count);
    struct pool *pool = pool_lock(shard, class);
    for (unsigned i = 0; i < count;) {
        unsigned same = 1;
        struct span *span = has_places ? give_placed(&places, i, ours) : NULL;
        if (span == NULL) {
            span = find_home(shape, blocks[i]);
            uint16_t home = span != NULL ? span_home(span) : 0;
            bool is_ours = home == ours;
            if (hak_unlikely(!is_ours) && home_class(home) == class) { /* another shard's */
                blocks[rest++] = blocks[i++];
                continue;
            }
            if (hak_unlikely(!is_ours || !give_one(span, shape, blocks[i]))) {
                if (bad != NULL) {
                    *bad = blocks[i];
                    break;
                }
                i++;
                continue;
            }
            if (begins_near(blocks + i, count - i))
                same += give_near(span, shape, blocks + i + 1, count - i - 1);
        }
        pool_settle_given(pool, span, &retired);
        given += same;
        i += same;
    }
    pool->free_blocks += given;
    pool->given += given;
    shrink_count(pool, class, -(int64_t)given);
    os_lock_release(&pool->lock);
    pool_give_retired(&retired);
    return rest;
}

void slab_give(unsigned class, void **blocks, unsigned count) {
    while (count != 0) {
        struct span *span = find_span(blocks[0]);
        void *bad = span == NULL ? blocks[0] : NULL;
        if (bad == NULL)
            count = give_to(home_shard(span_home(span)), class, blocks, count, &bad);
        if (bad != NULL)
            report_block(class, bad, "free");
    }
}

void slab_reclaim(unsigned class, void **blocks, unsigned count) {
    while (count != 0) {
        struct span *span = find_span(blocks[0]);
        uint16_t home = span != NULL ? span_home(span) : 0;
        if (home_class(home) != class)
            blocks[0] = blocks[--count];
        else
            count = give_to(home_shard(home), class, blocks, count, NULL);
    }
}
