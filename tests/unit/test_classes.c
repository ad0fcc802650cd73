/* Size classes, exhaustively: every size, every offset in a span of every class, every size at
 * every alignment, each of them as the fast path computes it. What is checked against is written
 * the slow way. */
#include "support.h"

#include "front/fast.h"
#include "slab/pool.h"
#include "span/super.h"

static int start(void **state) {
    (void)state;
    classes_init();
    return 0;
}

static void test_table(void **state) {
    (void)state;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        const struct size_class *shape = &size_classes[class];
        assert_true(shape->size > class_size(class - 1));
        assert_int_equal(shape->size % CLASS_STEP, 0);
        assert_in_range(shape->slabs, 1, SUPER_SLABS);
        size_t span_bytes = (size_t)shape->slabs * SLAB_BYTES;
        assert_int_equal(shape->capacity, span_bytes / shape->size);
        assert_in_range(shape->capacity, 1, SPAN_BITMAP_WORDS * WORD_BITS);
        size_t tail = span_bytes - (size_t)shape->capacity * shape->size;
        assert_true(tail * 16 <= span_bytes);
        assert_in_range(shape->slabs_least, 1, shape->slabs);
        span_bytes = (size_t)shape->slabs_least * SLAB_BYTES;
        assert_true(span_bytes >= shape->size && span_bytes % shape->size * 16 <= span_bytes);
    }
    assert_int_equal(class_size(CLASS_COUNT - 1), CLASS_SIZE_MAX);
}

/* As slab/classes.h says. */
static bool is_thrifty(size_t size, size_t waste) {
    if (size <= 1024)
        return waste <= 15;
    return size <= 8192 ? waste * 32 < size : waste * 8 < size;
}

/* The smallest class that fits, and what it wastes. */
static void test_every_size(void **state) {
    (void)state;
    unsigned smallest = 1;
    for (size_t size = 1; size <= CLASS_SIZE_MAX; size++) {
        if (size > class_size(smallest))
            smallest++;
        unsigned class = class_of(size);
        if (class != smallest || !is_thrifty(size, class_size(class) - size))
            fail_msg("size %zu: class %u, not %u", size, class, smallest);
    }
    assert_int_equal(smallest, CLASS_COUNT - 1);
}

/* --- the fast path ------------------------------------------------------------------------ */

_Thread_local struct front_tls front_tls;

/* In each bin one block, which tells which bin it is. */
static struct row row;
static char names[BIN_COUNT];
static void *slots[BIN_COUNT][2];

static void *go_slow(size_t size) {
    (void)size;
    return NULL;
}

static unsigned fast_bin_of(size_t size) {
    char *block = front_malloc(size, go_slow);
    if (block == NULL)
        return BIN_NONE;
    unsigned bin = (unsigned)(block - names);
    bin_set_top(&row.bins[bin], &slots[bin][1]);
    return bin;
}

static void test_every_size_by_the_fast_path(void **state) {
    (void)state;
    for (unsigned bin = 1; bin < BIN_COUNT; bin++) {
        slots[bin][1] = &names[bin];
        bin_set_top(&row.bins[bin], &slots[bin][1]);
    }
    bin_set_top(&row.bins[BIN_NONE], slots[BIN_NONE]);
    front_tls.row = &row;
    assert_int_equal(fast_bin_of(0), BIN_NONE);
    for (size_t size = 1; size <= CLASS_SIZE_MAX; size++) {
        unsigned bin = fast_bin_of(size);
        if (bin != class_of(size))
            fail_msg("size %zu: bin %u, class %u", size, bin, class_of(size));
    }
    for (size_t over = 1; over <= SLAB_BYTES; over++) {
        assert_int_equal(fast_bin_of(CLASS_SIZE_MAX + over), BIN_NONE);
        assert_int_equal(fast_bin_of(SIZE_MAX - over + 1), BIN_NONE);
    }
}

/* --- spans -------------------------------------------------------------------------------- */

/* free tells blocks from everything else by this: multiplication finds the block, as division
 * would, and only for a block's start does index * size give the offset. And a look at pages the
 * blocks on them. */
static void test_every_offset(void **state) {
    (void)state;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        const struct size_class *shape = &size_classes[class];
        size_t span_bytes = (size_t)shape->slabs * SLAB_BYTES;
        for (size_t offset = 0; offset < span_bytes; offset++) {
            uint32_t index = class_index(shape, offset);
            bool is_start = offset % shape->size == 0;
            bool is_right =
                is_start ? index == offset / shape->size : (size_t)index * shape->size != offset;
            is_right &= class_index_inside(shape, offset) == offset / shape->size;
            if (!is_right)
                fail_msg("class %u, offset %zu: index %u", class, offset, index);
        }
    }
}

/* What a bin of fewer bytes holds (cache/bins.c): floor division, though they need be no
 * multiple of the size. */
static void test_every_bin(void **state) {
    (void)state;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        for (size_t bytes = KIB; bytes <= SLAB_BYTES; bytes += KIB)
            assert_int_equal(class_index(&size_classes[class], bytes - 1),
                             (bytes - 1) / class_size(class));
    }
}

/* A span of any length between the shortest and the best: its last block ends within, and what
 * lies behind is found to be none by its index. */
static void test_every_length(void **state) {
    (void)state;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        const struct size_class *shape = &size_classes[class];
        for (size_t slabs = shape->slabs_least; slabs <= shape->slabs; slabs++) {
            size_t capacity = slabs * SLAB_BYTES / shape->size;
            assert_in_range(capacity, 1, shape->capacity);
            for (size_t i = capacity * shape->size; i < slabs * SLAB_BYTES; i++)
                assert_true(class_index(shape, i) >= capacity);
        }
    }
}

/* --- alignment ---------------------------------------------------------------------------- */

/* The next class from `class` on whose blocks all lie at multiples of alignment: spans start
 * at multiples of SLAB_BYTES. */
static unsigned next_aligned(unsigned class, size_t alignment) {
    while (class < CLASS_COUNT && class_size(class) % alignment != 0)
        class ++;
    return class;
}

static void test_every_size_at_every_alignment(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= SLAB_BYTES; alignment *= 2) {
        unsigned smallest = next_aligned(1, alignment);
        for (size_t size = 0; size <= CLASS_SIZE_MAX; size++) {
            if (size > class_size(smallest))
                smallest = next_aligned(smallest + 1, alignment);
            size_t aligned = class_aligned_size(size, alignment);
            if (aligned > CLASS_SIZE_MAX || class_of(aligned) != smallest)
                fail_msg("size %zu at alignment %zu: %zu bytes", size, alignment, aligned);
        }
        for (size_t over = 1; over <= SLAB_BYTES; over++) {
            assert_true(class_aligned_size(CLASS_SIZE_MAX + over, alignment) > CLASS_SIZE_MAX);
            assert_true(class_aligned_size((size_t)PTRDIFF_MAX + 1 - over, alignment) >
                        CLASS_SIZE_MAX);
        }
    }
}

/* Blocks of a power of two lie at multiples of it, for spans start at slabs. */
static void test_natural_alignment(void **state) {
    (void)state;
    for (size_t size = CLASS_STEP; size <= SLAB_BYTES; size *= 2)
        assert_int_equal(class_size(class_of(size)), size);
}

/* --- names of classes --------------------------------------------------------------------- */

/* Map entries and homes hold what they are made of, and differ from "none". */
static void test_entries_and_homes(void **state) {
    (void)state;
    for (unsigned class = 1; class < BIN_COUNT; class ++) {
        for (unsigned r = 0; r < ROW_COUNT; r++) {
            uint16_t entry = entry_make(r, class);
            assert_int_not_equal(entry, 0);
            assert_int_equal(entry_row(entry), r);
            assert_int_equal(entry_bin(entry), class);
        }
        for (unsigned shard = 0; class < CLASS_COUNT && shard < MAX_SHARDS; shard++) {
            uint16_t home = home_make(shard, class);
            assert_int_not_equal(home, 0);
            assert_int_equal(home_shard(home), shard);
            assert_int_equal(home_class(home), class);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_every_size_by_the_fast_path),
        cmocka_unit_test(test_every_offset),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_bin),
        cmocka_unit_test(test_every_size_at_every_alignment),
        cmocka_unit_test(test_natural_alignment),
        cmocka_unit_test(test_entries_and_homes),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
