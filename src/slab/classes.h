/* Size classes: which sizes blocks come in.
 *
 *   class     size                        step
 *   1 .. 64   16, 32 .. 1024              16 bytes, no branch, no table
 *   65 .. 72  1152 .. 2048                1/8 of the power of two below
 *   ...                                   8 classes a doubling
 *   137 .. 144  576 KiB .. 1 MiB
 *
 * A class is also the index of its bin in a row of a thread's cache, so that
 * the fast path needs no translation; class 0 is no class (span/window.h).
 *
 * Waste inside a block is at most 15 bytes up to 128 bytes and less than 12.5 %
 * above. Every size is a multiple of 16. A class's blocks start at multiples of
 * its size from a 64 KiB boundary, so each is aligned to the largest power of
 * two that divides the size: powers of two are naturally aligned. */
#ifndef HAK_SLAB_CLASSES_H
#define HAK_SLAB_CLASSES_H

#include "base/bits.h"
#include "span/window.h"

enum {
    CLASS_STEP = 16, /* of the linear classes */
    CLASS_LINEAR_MAX = 1024,
    CLASS_LINEAR_COUNT = CLASS_LINEAR_MAX / CLASS_STEP,
    CLASS_COUNT = BIN_LARGE, /* classes 1 .. CLASS_COUNT - 1 */
    CLASS_SIZE_MAX = 1024 * 1024,
};

struct size_class {
    uint32_t size;       /* bytes of a block */
    uint32_t reciprocal; /* ceil(2^32 / size): turns offsets into indexes */
    uint16_t capacity;   /* blocks in a span */
    uint8_t slabs;       /* of a span: its tail is at most 1/16 of it */
};
hak_global struct size_class size_classes[CLASS_COUNT];

/* Fills the table; once, before the first block. */
void classes_init(void);

/* Of sizes over CLASS_LINEAR_MAX, up to CLASS_SIZE_MAX. The 3 bits below the
 * leading one select one of 8 steps:
 *
 *   size - 1 = 1xxx....  with its leading one at bit b >= 10
 *   class = 65 + 8 * (b - 10) + xxx
 */
hak_inline unsigned class_of_mid(size_t size) {
    unsigned b = bit_highest(size - 1);
    return (b << 3) + (unsigned)((size - 1) >> (b - 3)) - 23;
}

/* Of sizes 1 .. CLASS_SIZE_MAX. */
hak_inline unsigned class_of(size_t size) {
    if (size <= CLASS_LINEAR_MAX)
        return (unsigned)((size + CLASS_STEP - 1) / CLASS_STEP);
    return class_of_mid(size);
}

/* The smallest class for size whose blocks are multiples of alignment, a power
 * of two up to SLAB_BYTES; 0 if there is none. */
unsigned class_of_aligned(size_t size, size_t alignment);

hak_inline size_t class_size(unsigned class) { return size_classes[class].size; }

/* The block's index in a span of this class from its byte offset. Exact for
 * multiples of the size; for others, index * size != offset tells. Exact because
 * offset * (reciprocal - 2^32 / size) < 2^32 for all offsets inside a span. */
hak_inline uint32_t class_index(const struct size_class *class, size_t offset) {
    return (uint32_t)((offset * class->reciprocal) >> 32);
}

#endif
