/* Blocks on their way home: every promise of the caller is looked at again under the
 * lock of the pool that the block belongs to. */
#include "slab/pool.h"
#include "span/report.h"

enum {
    NO_WORD = SPAN_BITMAP_WORDS,
};

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
    struct pool *pool = pool_lock(shard, class);
    for (unsigned i = 0; i < count && (bad == NULL || *bad == NULL);) {
        struct span *span = find_span(blocks[i]);
        bool is_ours = span != NULL && span_class(span) == class;
        if (is_ours && span_shard_of(span) != shard) {
            blocks[rest++] = blocks[i++];
            continue;
        }
        unsigned run = is_ours ? give_run(span, &size_classes[class], blocks + i, count - i) : 0;
        pool->free_blocks += run;
        if (run != 0)
            pool_settle_given(pool, span, &retired);
        else if (bad != NULL)
            *bad = blocks[i];
        given += run;
        i += hak_max(run, 1u);
    }
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
