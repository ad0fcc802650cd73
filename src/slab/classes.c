/* The table of size classes, computed at start: it is smaller than a table in
 * the file would be to load, and cannot disagree with class_of. */
#include "slab/classes.h"

enum {
    TAIL_SHARE = 16,   /* a span's tail is at most 1/16 of it */
    WANTED_BLOCKS = 8, /* in a span, as long as that takes at most */
    WANTED_SLABS = 8,
};

struct size_class size_classes[CLASS_COUNT];

static uint32_t size_of(unsigned class) {
    if (class <= CLASS_LINEAR_COUNT)
        return class * CLASS_STEP;
    unsigned mid = class - CLASS_LINEAR_COUNT - 1;
    return (9 + mid % 8) << (mid / 8 + 7);
}

/* The shortest span with little waste at its end, and with enough blocks that a
 * refill or two does not use it up. */
static unsigned slabs_for(uint32_t size) {
    for (unsigned slabs = 1;; slabs++) {
        uint32_t bytes = slabs * SLAB_BYTES;
        bool enough = bytes / size >= WANTED_BLOCKS || slabs >= WANTED_SLABS;
        if (bytes >= size && bytes % size <= bytes / TAIL_SHARE && enough)
            return slabs;
    }
}

void classes_init(void) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        uint32_t size = size_of(class);
        unsigned slabs = slabs_for(size);
        size_classes[class] = (struct size_class){
            .size = size,
            .reciprocal = (uint32_t)(((UINT64_C(1) << 32) + size - 1) / size),
            .capacity = (uint16_t)(slabs * SLAB_BYTES / size),
            .slabs = (uint8_t)slabs,
        };
    }
}

unsigned class_of_aligned(size_t size, size_t alignment) {
    size = align_up(hak_max(size, (size_t)1), alignment);
    if (size > CLASS_SIZE_MAX)
        return 0;
    unsigned class = class_of(size);
    while (class < CLASS_COUNT && !is_aligned(class_size(class), alignment))
        ++class;
    return class < CLASS_COUNT ? class : 0;
}
