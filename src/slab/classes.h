/* Size classes: which sizes blocks come in.
 *
 *   class        size             step          found by
 *   1 .. 64      16 .. 1 KiB      16 bytes      arithmetic
 *   65 .. 96     1 .. 2 KiB       32 bytes      a table of 1 byte for each 32
 *   97 .. 128    2 .. 4 KiB       64 bytes
 *   129 .. 136   4 .. 4.5 KiB     64 bytes
 *   137 .. 164   4.5 .. 8 KiB     128 bytes
 *   165 .. 180   8 .. 32 KiB      1/8 of the power of two below
 *   181 .. 220   32 KiB .. 1 MiB  the same      the leading bits
 *
 * A class is also the index of its bin in a row of a thread's cache, so that
 * the fast path needs no translation; class 0 is no class (span/window.h).
 *
 * Programs like powers of two plus a header; the fine steps up to 8 KiB are for
 * them, and the finest over 4 KiB, for pages with a header are the most common of
 * all. Waste inside a block is at most 15 bytes up to 1 KiB, 3.1 % up to 8 KiB
 * and less than 12.5 % above. Every size is a multiple of 16. A class's blocks
 * start at multiples of its size from a 64 KiB boundary, so each is aligned to
 * the largest power of two that divides the size: powers of two are naturally
 * aligned. */
#ifndef HAK_SLAB_CLASSES_H
#define HAK_SLAB_CLASSES_H

#include "base/bits.h"
#include "span/window.h"

enum {
    CLASS_STEP = 16, /* of the linear classes */
    CLASS_LINEAR_MAX = 1024,
    CLASS_TABLE_STEP = 32,
    CLASS_TABLE_MAX = 32 * 1024,
    CLASS_BITS_FIRST = 181,  /* the first class over CLASS_TABLE_MAX */
    CLASS_COUNT = BIN_LARGE, /* classes 1 .. CLASS_COUNT - 1 */
    CLASS_SIZE_MAX = 1024 * 1024,
};

struct size_class {
    uint32_t size;       /* bytes of a block */
    uint32_t reciprocal; /* ceil(2^32 / size): turns offsets into indexes */
    uint16_t capacity;   /* blocks in a span of the best length */
    uint8_t slabs;       /* that length */
    uint8_t slabs_least; /* the shortest whose tail, too, is at most 1/16 of it */
};
hak_global struct size_class size_classes[CLASS_COUNT];

/* Entry i: the class of sizes 32 * (i - 1) + 1 .. 32 * i, over CLASS_LINEAR_MAX.
 * All zero, so no class, until classes_init. */
hak_global uint8_t class_table[CLASS_TABLE_MAX / CLASS_TABLE_STEP + 1];

/* Fills the tables; once, before the first block. */
void classes_init(void);

/* Of sizes over CLASS_TABLE_MAX, up to CLASS_SIZE_MAX. The 3 bits below the
 * leading one select one of 8 steps:
 *
 *   size - 1 = 1xxx....  with its leading one at bit b >= 15
 *   class = CLASS_BITS_FIRST + 8 * (b - 15) + xxx
 */
hak_inline unsigned class_of_bits(size_t size) {
    unsigned b = bit_highest(size - 1);
    return (b << 3) + (unsigned)((size - 1) >> (b - 3)) + (CLASS_BITS_FIRST - 8 * 15 - 8);
}

/* Of sizes over CLASS_LINEAR_MAX, up to CLASS_TABLE_MAX. */
hak_inline unsigned class_of_table(size_t size) {
    return class_table[(size + CLASS_TABLE_STEP - 1) / CLASS_TABLE_STEP];
}

/* Of sizes 1 .. CLASS_SIZE_MAX. */
hak_inline unsigned class_of(size_t size) {
    if (size <= CLASS_LINEAR_MAX)
        return (unsigned)((size + CLASS_STEP - 1) / CLASS_STEP);
    return size <= CLASS_TABLE_MAX ? class_of_table(size) : class_of_bits(size);
}

/* The size to ask for where blocks are to be multiples of alignment, a power of two up to
 * SLAB_BYTES, of at least size <= PTRDIFF_MAX bytes. Its class's are, for from each class to
 * the next is a power of two: either alignment is a multiple of that, and the size is a
 * class's; or that is a multiple of alignment, and so are all classes here. */
hak_inline size_t class_aligned_size(size_t size, size_t alignment) {
    return align_up(size == 0 ? 1 : size, alignment);
}

hak_inline size_t class_size(unsigned class) { return size_classes[class].size; }

/* The block's index in a span of this class from its byte offset. Exact for
 * multiples of the size; for others, index * size != offset tells. Exact because
 * offset * (reciprocal - 2^32 / size) < 2^32 for all offsets inside a span. */
hak_inline uint32_t class_index(const struct size_class *class, size_t offset) {
    return (uint32_t)((offset * class->reciprocal) >> 32);
}

/* The index of the block that a byte of a span lies in, any of them: class_index may give the next
 * one for its last bytes. */
hak_inline uint32_t class_index_inside(const struct size_class *class, size_t offset) {
    uint32_t index = class_index(class, offset);
    return index - ((size_t)index * class->size > offset);
}

#endif
