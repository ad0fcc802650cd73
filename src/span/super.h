/* SuperSlabs and the spans in them: the descriptors, apart from the memory that
 * they describe.
 *
 *   SuperSlab, 2 MiB = 32 slabs of 64 KiB
 *   | slab | slab   slab   slab | slab | .... |  a span: one or more slabs in a row
 *     ^ spans[0]    ^ not used    ^ spans[4]
 *
 *   free    1 1 0 0 0 1 ...   bit per slab: free to take
 *   zero    0 1 ...           of the free ones: known to read as zero
 *   heads   ...               bit per slab: a span in use starts here
 *
 * A slab that is neither free nor in a span is being purged: it is off all
 * lists and belongs to the purger.
 *
 * A span larger than a SuperSlab starts at a SuperSlab's first slab, covers
 * whole ones and the first slabs of the last. Its descriptor is the first
 * SuperSlab's spans[0]; the other SuperSlabs know of it only by their free bits.
 *
 * Descriptors are never unmapped: a stale pointer finds a descriptor that says
 * "free", never a fault. */
#ifndef HAK_SPAN_SUPER_H
#define HAK_SPAN_SUPER_H

#include "base/bits.h"
#include "base/list.h"
#include "span/window.h"

enum {
    SPAN_BITMAP_WORDS = SLAB_BYTES / 16 / WORD_BITS, /* at most: blocks of 16 bytes */
    SPAN_SHORT_WORDS = 1408 / WORD_BITS,             /* enough for blocks from 48 bytes up */
    SPAN_INLINE_WORDS = 2,
};

enum span_state { SPAN_FREE, SPAN_TAKEN, SPAN_LARGE, SPAN_GUARDED };

struct guarded; /* of modes/guard.c */

struct span {
    /* The span layer's; written under the lock of the SuperSlab's shard. */
    char *start;
    uint16_t slabs;
    uint8_t state; /* enum span_state */

    /* The slab layer's, while it uses the span for blocks of one class. */
    bool has_purged;       /* some bit of its slabs' purged masks may be set */
    _Atomic uint16_t home; /* its pool (slab/pool.h), 0: none; read without a lock to find the
                            * lock, then checked under it */
    uint8_t fill_rank;     /* which of the class's lists it is on */
    uint8_t first_word;    /* no bit is set in the words below */
    uint16_t capacity;     /* blocks */
    uint16_t free_count;   /* bits set in free_bits */
    uint16_t settles_at;   /* so many may belong on another list, or be all */
    uint16_t touched;      /* blocks from this index on have been zero all along */
    struct list link;
    union {
        uint64_t *free_bits;     /* bit i: block i is free, and not cached either */
        struct guarded *guarded; /* of SPAN_GUARDED: what is known of its block */
    };
    uint64_t inline_bits[SPAN_INLINE_WORDS]; /* free_bits of a slab of few blocks */
};
_Static_assert(sizeof(struct span) == HAK_CACHE_LINE, "a descriptor is a cache line");
_Static_assert(SPAN_BITMAP_WORDS <= UINT8_MAX, "first_word names any word");

/* Where a SuperSlab is. */
enum super_home { SUPER_IN_ARENA, SUPER_IN_SHARD, SUPER_IN_RUN };

struct super {
    char *start;
    /* Which lock protects the rest: that of shard, or the arena's. Read without
     * it to find it, then checked under it. */
    _Atomic uint16_t shard;
    _Atomic uint8_t home; /* enum super_home */
    bool committed;
    bool wants_huge;           /* huge pages have been asked for */
    bool goes_whole;           /* and it goes back to the kernel as a whole, not by slabs */
    _Atomic bool is_collapsed; /* into a huge page, which is split before a part of it goes */
    bool is_written; /* all of it, by who cleared it, and only large blocks lay there since */
    _Atomic bool has_bitmaps; /* something may be written in short_bitmaps or bitmaps */
    _Atomic uint32_t heads;   /* read without a lock by span_of */
    uint32_t free;
    uint32_t zero;  /* of these: never touched, or not since they went back; not counted as heap */
    uint32_t blank; /* of these: in memory, but read as zero: parts of a huge page (collapse.c) */
    _Atomic uint32_t moved;         /* slabs into which pages were moved (move.c), */
    _Atomic uint32_t moved_heads;   /* and those of them where a range of such begins */
    uint64_t dirty_since_ms;        /* while on a dirty list */
    uint64_t came;                  /* into the arena, used: after so many others */
    _Atomic uint64_t collapsed_ms;  /* when it was last made a huge page, */
    _Atomic uint64_t split_ms;      /* and when split; 0: never */
    struct list link;               /* shard's list by number of free slabs */
    struct list dirty_link;         /* list of those with free slabs that are not zero */
    struct span spans[SUPER_SLABS]; /* by first slab */
    /* The slab layer's, under the lock of the pool that has the slab. Bit p: page p has
     * been purged and its blocks have all been free since, so it reads as zero. */
    uint16_t purged[SUPER_SLABS];
    uint16_t free_seen[SUPER_SLABS]; /* by first slab: free blocks at the last look for quiet
                                      * slabs, and 1; 0: none yet */
    uint16_t populated[SUPER_SLABS]; /* by first slab: pages at its span's start faulted in early */
    /* For slabs of more blocks than inline_bits holds. All that a SuperSlab can ever
     * need is had with its descriptor, so that its memory can be used to the end when
     * nothing more is to be had; untouched, it costs nothing. Short ones lie together, for
     * most are: their lines and pages are fewer. */
    uint64_t short_bitmaps[SUPER_SLABS][SPAN_SHORT_WORDS];
    uint64_t bitmaps[SUPER_SLABS][SPAN_BITMAP_WORDS];
};

#define ALL_SLABS UINT32_MAX

hak_inline uint32_t slab_mask(unsigned first, unsigned count) {
    return (uint32_t)bits_range(first, count);
}

/* Free slabs that read as zero. */
hak_inline uint32_t super_reads_zero(const struct super *super) {
    return super->zero | super->blank;
}

/* What may go back to the kernel: free slabs that are not zero. Of huge pages, all slabs
 * or none: a part that goes breaks such a page up, and frees nothing before the kernel
 * gets round to it. */
hak_inline uint32_t super_purgeable(const struct super *super) {
    uint32_t dirty = super->free & ~super->zero;
    if (!super->goes_whole)
        return dirty;
    return dirty != 0 && super->free == ALL_SLABS ? ALL_SLABS : 0;
}

hak_inline unsigned super_index_of_slab(const struct super *super, const void *pointer) {
    return (unsigned)((size_t)((const char *)pointer - super->start) >> SLAB_SHIFT);
}

/* Where the bits of spans of so many blocks are in a struct super: of one that starts at slab i, at
 * first + i * step bytes. */
struct bitmap_places {
    size_t first, step;
};
hak_inline struct bitmap_places super_bitmap_places(unsigned capacity) {
    if (capacity <= SPAN_INLINE_WORDS * WORD_BITS)
        return (struct bitmap_places){offsetof(struct super, spans[0].inline_bits),
                                      sizeof(struct span)};
    if (capacity <= SPAN_SHORT_WORDS * WORD_BITS)
        return (struct bitmap_places){offsetof(struct super, short_bitmaps),
                                      SPAN_SHORT_WORDS * sizeof(uint64_t)};
    return (struct bitmap_places){offsetof(struct super, bitmaps),
                                  SPAN_BITMAP_WORDS * sizeof(uint64_t)};
}
hak_inline uint64_t *super_bitmap_at(struct super *super, struct bitmap_places places,
                                     size_t slab) {
    return (uint64_t *)((char *)super + places.first + slab * places.step);
}

/* The bitmap of a span, for capacity blocks, that will be written. */
hak_inline uint64_t *super_bitmap(struct super *super, struct span *span) {
    struct bitmap_places places = super_bitmap_places(span->capacity);
    uint64_t *bitmap = super_bitmap_at(super, places, (size_t)(span - super->spans));
    if (bitmap != span->inline_bits)
        atomic_store_explicit(&super->has_bitmaps, true, memory_order_relaxed);
    return bitmap;
}

#endif
