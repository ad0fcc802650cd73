/* The tables of size classes, computed at start: that takes less than reading them
 * from the file would. */
#include "slab/classes.h"

#include "os/frozen.h"

enum {
    TAIL_SHARE = 16,        /* a span's tail is at most 1/16 of it, */
    WANTED_TAIL_SHARE = 64, /* 1/64 where a short span has that */
    WANTED_BLOCKS = 8,      /* in a span, as long as that takes at most */
    WANTED_SLABS = 8,
    FINE_MAX = 8192, /* up to here FINE_STEPS classes a doubling, COARSE_STEPS above */
    FINE_STEPS = 32,
    COARSE_STEPS = 8,
    PAGED_MIN = 4096, /* over this, a page with a header of up to an eighth of it */
    PAGED_MAX = 4096 + 512,
    PAGED_STEP = 64,
};

hak_frozen struct size_class size_classes[CLASS_COUNT];

hak_frozen uint8_t class_table[CLASS_TABLE_MAX / CLASS_TABLE_STEP + 1];

/* From one class's size to the next. */
static uint32_t step_after(uint32_t size) {
    uint32_t power = (uint32_t)1 << bit_highest(size);
    if (power < CLASS_LINEAR_MAX)
        return CLASS_STEP;
    if (size >= PAGED_MIN && size < PAGED_MAX)
        return PAGED_STEP;
    return power < FINE_MAX ? power / FINE_STEPS : power / COARSE_STEPS;
}

/* The shortest span of at least from slabs whose tail is at most 1/share of it; 0 if
 * none of up to most slabs has that. */
static unsigned shortest_span(uint32_t size, unsigned share, unsigned from, unsigned most) {
    for (unsigned slabs = from; slabs <= most; slabs++) {
        uint32_t bytes = slabs * SLAB_BYTES;
        if (bytes >= size && bytes % size <= bytes / share)
            return slabs;
    }
    return 0;
}

/* With enough blocks that a refill or two does not use it up. */
static unsigned best_span(uint32_t size) {
    unsigned from = (unsigned)hak_min(divide_up((size_t)WANTED_BLOCKS * size, SLAB_BYTES),
                                      (size_t)WANTED_SLABS);
    unsigned slabs = shortest_span(size, WANTED_TAIL_SHARE, from, WANTED_SLABS);
    return slabs != 0 ? slabs : shortest_span(size, TAIL_SHARE, from, SUPER_SLABS);
}

static void fill_table(unsigned class, uint32_t above, uint32_t size) {
    for (uint32_t i = above / CLASS_TABLE_STEP + 1; i <= size / CLASS_TABLE_STEP; i++)
        class_table[i] = (uint8_t) class;
}

void classes_init(void) {
    uint32_t size = CLASS_STEP;
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        unsigned slabs = best_span(size);
        size_classes[class] = (struct size_class){
            .size = size,
            .reciprocal = (uint32_t)(((UINT64_C(1) << 32) + size - 1) / size),
            .capacity = (uint16_t)(slabs * SLAB_BYTES / size),
            .slabs = (uint8_t)slabs,
            .slabs_least = (uint8_t)shortest_span(size, TAIL_SHARE, 1, slabs),
        };
        uint32_t next = size + step_after(size);
        if (size >= CLASS_LINEAR_MAX && next <= CLASS_TABLE_MAX)
            fill_table(class + 1, size, next);
        size = next;
    }
}
