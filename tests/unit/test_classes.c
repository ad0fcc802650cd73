/* Size classes, exhaustively: every size, every offset in a span of every class,
 * every alignment. */
#include "support.h"

#include "slab/classes.h"
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

/* The smallest class that fits, and what it wastes. */
static void test_every_size(void **state) {
    (void)state;
    for (size_t size = 1; size <= CLASS_SIZE_MAX; size++) {
        unsigned class = class_of(size);
        if (class < 1 || class >= CLASS_COUNT)
            fail_msg("size %zu: class %u is none", size, class);
        bool is_smallest =
            class_size(class) >= size && (class == 1 || class_size(class - 1) < size);
        size_t waste = class_size(class) - size;
        bool is_thrifty = size < 128 ? waste <= 15 : waste * 8 <= size;
        if (!is_smallest || !is_thrifty)
            fail_msg("size %zu: class %u of %zu bytes", size, class, class_size(class));
    }
}

/* free tells blocks from everything else by this. */
static void test_every_offset(void **state) {
    (void)state;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        const struct size_class *shape = &size_classes[class];
        size_t span_bytes = (size_t)shape->slabs * SLAB_BYTES;
        size_t next_block = 0;
        uint32_t next_index = 0;
        for (size_t offset = 0; offset < span_bytes; offset++) {
            uint32_t index = class_index(shape, offset);
            bool says_block = (size_t)index * shape->size == offset;
            bool is_block = offset == next_block;
            if (says_block != is_block || (is_block && index != next_index))
                fail_msg("class %u, offset %zu: index %u", class, offset, index);
            if (is_block) {
                next_block += shape->size;
                next_index++;
            }
        }
    }
}

static unsigned naive_class_of_aligned(size_t size, size_t alignment) {
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        if (class_size(class) >= size && class_size(class) % alignment == 0)
            return class;
    }
    return 0;
}

static unsigned class_of_aligned(size_t size, size_t alignment) {
    size_t aligned = class_aligned_size(size, alignment);
    return aligned <= CLASS_SIZE_MAX ? class_of(aligned) : 0;
}

static void assert_aligned_as_naive(size_t size) {
    for (size_t alignment = 1; alignment <= SLAB_BYTES; alignment *= 2) {
        unsigned class = class_of_aligned(size, alignment);
        if (class != naive_class_of_aligned(size, alignment))
            fail_msg("size %zu at alignment %zu: class %u", size, alignment, class);
    }
}

static void test_aligned_sizes(void **state) {
    (void)state;
    for (size_t size = 0; size <= 2048; size++)
        assert_aligned_as_naive(size);
    for (size_t size = 2048; size <= CLASS_SIZE_MAX + 5000; size += 397)
        assert_aligned_as_naive(size);
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        for (size_t size = class_size(class) - 1; size <= class_size(class) + 1; size++)
            assert_aligned_as_naive(size);
    }
    assert_int_equal(class_of_aligned(PTRDIFF_MAX, SLAB_BYTES), 0);
}

/* Blocks of a power of two lie at multiples of it, for spans start at slabs. */
static void test_natural_alignment(void **state) {
    (void)state;
    for (size_t size = CLASS_STEP; size <= SLAB_BYTES; size *= 2)
        assert_int_equal(class_size(class_of(size)), size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_every_offset),
        cmocka_unit_test(test_aligned_sizes),
        cmocka_unit_test(test_natural_alignment),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
