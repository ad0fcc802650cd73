/* bits.h and base.h against definitions too slow to be used. */
#include "support.h"

#include "base/bits.h"

/* Words of every density, from almost empty to almost full. */
static uint64_t random_word(uint64_t *seed) {
    uint64_t word = random_next(seed);
    for (size_t i = random_below(seed, 4); i > 0; i--)
        word &= random_next(seed);
    return random_below(seed, 2) == 0 ? word : ~word;
}

static uint64_t naive_runs(uint64_t word, unsigned n) {
    uint64_t result = 0;
    for (unsigned at = 0; at + n <= 64; at++) {
        bool all = true;
        for (unsigned i = at; i < at + n; i++)
            all &= word >> i & 1;
        result |= (uint64_t)all << at;
    }
    return result;
}

static void test_runs(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (unsigned n = 1; n <= 64; n++) {
        assert_int_equal(bits_runs(~UINT64_C(0), n), naive_runs(~UINT64_C(0), n));
        assert_int_equal(bits_runs(0, n), 0);
        for (int i = 0; i < 300; i++) {
            uint64_t word = random_word(&seed);
            if (n > 8) /* long runs do not come by chance */
                word |= bits_range((unsigned)random_below(&seed, 65 - n), n);
            assert_int_equal(bits_runs(word, n), naive_runs(word, n));
        }
    }
}

static void test_ranges(void **state) {
    (void)state;
    assert_int_equal(bits_low(0), 0);
    assert_int_equal(bits_low(64), UINT64_MAX);
    for (unsigned at = 0; at < 64; at++) {
        for (unsigned n = 0; at + n <= 64; n++) {
            uint64_t range = bits_range(at, n);
            for (unsigned i = 0; i < 64; i++)
                assert_int_equal(range >> i & 1, i >= at && i < at + n);
        }
    }
}

static void test_words(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 1000; i++) {
        uint64_t word = random_word(&seed) | UINT64_C(1) << random_below(&seed, 64);
        unsigned lowest = 0, highest = 63, count = 0;
        while ((word >> lowest & 1) == 0)
            lowest++;
        while ((word >> highest & 1) == 0)
            highest--;
        for (unsigned bit = 0; bit < 64; bit++)
            count += bitmap_get(&word, bit);
        assert_int_equal(bit_lowest(word), lowest);
        assert_int_equal(bit_highest(word), highest);
        assert_int_equal(bit_count(word), count);
    }
}

static void test_bitmaps(void **state) {
    (void)state;
    enum { BITS = 200 };
    uint64_t map[4] = {0};
    bool expected[BITS] = {false};
    uint64_t seed = 3;
    for (int i = 0; i < 5000; i++) {
        size_t bit = random_below(&seed, BITS);
        expected[bit] = random_below(&seed, 2);
        if (expected[bit])
            bitmap_set(map, bit);
        else
            bitmap_clear(map, bit);
        size_t other = random_below(&seed, BITS);
        assert_int_equal(bitmap_get(map, other), expected[other]);
    }
}

/* Several bits at a time, across words, by one at a time. */
static void test_ranges_of_bitmaps(void **state) {
    (void)state;
    enum { BITS = 256 };
    uint64_t seed = 5;
    for (int i = 0; i < 20000; i++) {
        uint64_t map[4] = {0};
        for (uint64_t n = random_below(&seed, 40); n > 0; n--)
            bitmap_set(map, random_below(&seed, BITS));
        size_t first = random_below(&seed, BITS);
        size_t count = random_below(&seed, BITS - first + 1);
        size_t set = 0;
        for (size_t bit = first; bit < first + count; bit++)
            set += bitmap_get(map, bit);
        assert_int_equal(bitmap_has_any(map, first, count), set != 0);
        assert_int_equal(bitmap_has_all(map, first, count), set == count);
        assert_int_equal(bitmap_change(map, first, count, true), set == 0);
        assert_true(bitmap_has_all(map, first, count));
    }
}

static void test_arithmetic(void **state) {
    (void)state;
    for (size_t x = 0; x < 5000; x++) {
        unsigned count = 0;
        for (unsigned bit = 0; bit < 16; bit++)
            count += (x & (size_t)1 << bit) != 0;
        assert_int_equal(is_power_of_two(x), count == 1);
        assert_int_equal(divide_up(x, 7), x / 7 + (x % 7 != 0));
        for (size_t alignment = 1; alignment <= 4096; alignment *= 4) {
            size_t up = align_up(x, alignment);
            assert_true(up % alignment == 0 && up >= x && up - x < alignment);
            size_t down = align_down(x, alignment);
            assert_true(down % alignment == 0 && down <= x && x - down < alignment);
            assert_int_equal(is_aligned(x, alignment), x % alignment == 0);
        }
    }
    assert_int_equal(hak_clamp(5, 1, 3), 3);
    assert_int_equal(hak_clamp(0, 1, 3), 1);
    assert_int_equal(hak_clamp(2, 1, 3), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),       cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_words),      cmocka_unit_test(test_bitmaps),
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_ranges_of_bitmaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
