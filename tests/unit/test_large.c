/* Large blocks, and the table of huge ones against a list. */
#include "support.h"

#include <string.h>

#include "os/calls.h"
#include "os/memory.h"
#include "span/large.h"

enum { HUGE_SLOTS = 300, OPERATIONS = 20000, PAGE = 4096 };

static uint64_t seed = 1;

static int start(void **state) {
    (void)state;
    start_layers("shards=2", 256 * MIB);
    return 0;
}

/* --- huge.c ---------------------------------------------------------------------------- */

/* The table takes any size, so it can be tested by pages. */
static struct {
    char *start;
    size_t bytes;
} model[HUGE_SLOTS];

static void take_huge(size_t slot) {
    size_t bytes = 1 + random_below(&seed, (size_t)5 * PAGE);
    size_t alignment = (size_t)1 << random_below(&seed, 21);
    char *start = huge_take(bytes, alignment);
    assert_non_null(start);
    assert_int_equal((uintptr_t)start % alignment, 0);
    model[slot].start = start;
    model[slot].bytes = align_up(bytes, os_page_size());
    memset(start, (int)slot, model[slot].bytes);
}

static void give_huge(size_t slot) {
    char *start = model[slot].start;
    assert_int_equal(start[model[slot].bytes - 1], (char)slot);
    assert_false(huge_give(start + 16));
    assert_true(huge_give(start));
    assert_false(huge_give(start));
    model[slot].start = NULL;
}

static void check_huge(size_t slot) {
    char *start = model[slot].start;
    size_t bytes = model[slot].bytes;
    size_t found = 0;
    assert_int_equal(huge_usable_bytes(start), bytes);
    assert_int_equal(huge_usable_bytes(start + 1), 0);
    assert_ptr_equal(huge_start_of(start, &found), start);
    assert_int_equal(found, bytes);
    assert_ptr_equal(huge_start_of(start + random_below(&seed, bytes), &found), start);
    assert_ptr_equal(huge_start_of(start + bytes - 1, &found), start);
    assert_ptr_not_equal(huge_start_of(start + bytes, &found), start);
}

static void test_huge_table(void **state) {
    (void)state;
    struct huge_stats before = huge_stats();
    uint64_t taken = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        size_t slot = random_below(&seed, HUGE_SLOTS);
        if (model[slot].start == NULL) {
            take_huge(slot);
            taken++;
        } else if (random_below(&seed, 2) == 0) {
            check_huge(slot);
        } else {
            give_huge(slot);
        }
    }
    size_t count = 0, bytes = 0;
    for (size_t slot = 0; slot < HUGE_SLOTS; slot++) {
        count += model[slot].start != NULL;
        bytes += model[slot].start != NULL ? model[slot].bytes : 0;
    }
    struct huge_stats after = huge_stats();
    assert_int_equal(after.count, count);
    assert_int_equal(after.bytes, bytes);
    assert_int_equal(after.taken - before.taken, taken);
    assert_int_equal(after.given - before.given, taken - count);
    for (size_t slot = 0; slot < HUGE_SLOTS; slot++) {
        if (model[slot].start != NULL)
            give_huge(slot);
    }
    assert_int_equal(huge_stats().count, 0);
    assert_int_equal(huge_stats().bytes, 0);
}

static void test_huge_resize(void **state) {
    (void)state;
    char *block = huge_take(GIB, 1);
    assert_non_null(block);
    block[0] = 1;
    block[GIB - 1] = 2;
    block = huge_resize(block, 3 * GIB);
    assert_non_null(block);
    assert_int_equal(huge_usable_bytes(block), 3 * GIB);
    assert_true(block[0] == 1 && block[GIB - 1] == 2 && block[3 * GIB - 1] == 0);
    assert_ptr_equal(huge_resize(block, 3 * GIB - 1), block);
    /* So much smaller that it should move into the window: a copy. */
    assert_null(huge_resize(block, MIB));
    assert_null(huge_resize(block, PTRDIFF_MAX));
    refuse_kind(OS_CALL_REMAP);
    assert_null(huge_resize(block, GIB));
    allow_all();
    assert_int_equal(huge_usable_bytes(block), 3 * GIB);
    block = huge_resize(block, GIB);
    assert_true(block[0] == 1 && block[GIB - 1] == 2);
    assert_true(huge_give(block));
    assert_null(huge_resize(block, 2 * GIB));
}

static void test_huge_refused(void **state) {
    (void)state;
    assert_null(huge_take(PTRDIFF_MAX, 1));
    assert_null(huge_take((size_t)1 << 61, 1));
    refuse_kind(OS_CALL_MAP);
    assert_null(huge_take(GIB, 1));
    allow_all();
    assert_int_equal(huge_stats().count, 0);
    /* The table itself cannot grow: the block is not lost in the kernel. */
    static char *blocks[1 << 13];
    size_t count = 0;
    uint64_t unmapped = 0;
    refuse_kind(OS_CALL_REMAP);
    while (count < 1 << 13 && (blocks[count] = huge_take(PAGE, 1)) != NULL)
        count++;
    unmapped = os_call_count(OS_CALL_UNMAP);
    assert_true(count < 1 << 13);
    assert_null(huge_take(PAGE, 1));
    assert_int_equal(os_call_count(OS_CALL_UNMAP), unmapped + 1);
    allow_all();
    blocks[count] = huge_take(PAGE, 1);
    assert_non_null(blocks[count++]);
    while (count != 0)
        assert_true(huge_give(blocks[--count]));
}

/* --- large.c --------------------------------------------------------------------------- */

static void *take_large(size_t bytes, size_t alignment) {
    bool is_zero;
    void *block = large_take(0, bytes, alignment, 0, &is_zero);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % alignment, 0);
    assert_true(large_usable_bytes(block, "test") >= bytes);
    return block;
}

static void test_large_in_window(void **state) {
    (void)state;
    for (size_t bytes = SLAB_BYTES; bytes <= 32 * MIB; bytes = bytes * 2 + 1) {
        char *block = take_large(bytes, 1);
        assert_true(window_contains(block));
        assert_int_equal(entry_bin(window_entry(block)), BIN_LARGE);
        assert_int_equal(large_usable_bytes(block, "test"), align_up(bytes, SLAB_BYTES));
        for (size_t at = SLAB_BYTES; at < bytes; at += SLAB_BYTES)
            assert_int_equal(window_entry(block + at), 0);
        large_give(block);
    }
}

static void test_large_alignments(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= GIB; alignment *= 2)
        large_give(take_large(2 * MIB, alignment));
    large_give(take_large(1, 4 * GIB));
}

/* From 1 GiB on, and when the window is full, blocks lie outside. */
static void test_large_outside(void **state) {
    (void)state;
    char *huge = take_large(GIB, 1);
    assert_false(window_contains(huge));
    large_give(huge);
    char *blocks[64];
    size_t count = 0;
    do {
        blocks[count] = take_large(16 * MIB, 1);
    } while (window_contains(blocks[count++]));
    assert_true(count > 4 && count < 64);
    while (count != 0)
        large_give(blocks[--count]);
    assert_int_equal(huge_stats().count, 0);
}

static void test_large_resize(void **state) {
    (void)state;
    char *block = take_large(4 * MIB, 1);
    assert_ptr_equal(large_resize(block, 4 * MIB - 1), block);
    assert_ptr_equal(large_resize(block, MIB), block);
    assert_int_equal(large_usable_bytes(block, "test"), MIB);
    assert_ptr_equal(large_resize(block, 2 * MIB), block);
    assert_int_equal(window_entry(block + MIB), 0);
    assert_null(large_resize(block, GIB));
    assert_int_equal(large_usable_bytes(block, "test"), 2 * MIB);
    large_give(block);
}

static void give(void *block) { large_give(block); }
static void ask(void *block) { large_usable_bytes(block, "test"); }

static void test_large_deaths(void **state) {
    (void)state;
    char *block = take_large(4 * MIB, 1);
    assert_dies(give, block + 16, "hakmem: invalid pointer: ", "inside block", "large", NULL);
    assert_dies(give, block + 2 * MIB, "hakmem: invalid pointer: ", "inside block", NULL);
    assert_dies(give, block + 8, "hakmem: misaligned pointer: ", NULL);
    assert_dies(ask, block + 64, "hakmem: invalid pointer: test(0x", NULL);
    large_give(block);
    assert_dies(give, block, "hakmem: double free: ", "free already", NULL);
    char *huge = take_large(GIB, 1);
    assert_dies(give, huge + PAGE, "hakmem: invalid pointer: ", "inside block", "huge", NULL);
    large_give(huge);
    assert_dies(give, huge, "hakmem: invalid pointer: ", "not a block of HAKMEM", NULL);
    assert_dies(give, &seed, "hakmem: ", NULL);
}

static void use_large(size_t bytes) {
    bool is_zero;
    char *block = large_take(0, bytes, 1, 0, &is_zero);
    assert_non_null(block);
    block[0] = block[bytes - 1] = 1;
    large_give(block);
}

/* How many pages of a range are in memory. */
static size_t resident_pages(char *start, size_t bytes) {
    size_t pages = 0;
    const size_t most = (size_t)OS_RESIDENT_MAX_PAGES * os_page_size();
    for (size_t at = 0; at < bytes; at += most)
        pages += os_resident_pages(start + at, hak_min(bytes - at, most));
    return pages;
}

/* A block of which a part was written, given back, and taken again with so many bytes zero. */
static void is_cleared_where_written(size_t bytes, size_t from, size_t to, size_t zero_bytes) {
    bool is_zero;
    char *block = take_large(bytes, 1);
    memset(block + from, 0x5a, to - from);
    large_give(block);
    char *zeroed = large_take(0, bytes, 1, zero_bytes, &is_zero);
    assert_non_null(zeroed);
    assert_true(is_zero);
    for (size_t i = from; i < to && i < zero_bytes; i++)
        assert_int_equal(zeroed[i], 0);
    large_give(zeroed);
}

static void test_zeroed_where_written(void **state) {
    (void)state;
    for (size_t bytes = SLAB_BYTES; bytes <= 24 * MIB; bytes = bytes * 3 + SLAB_BYTES) {
        is_cleared_where_written(bytes, 0, bytes, bytes);
        is_cleared_where_written(bytes, bytes - 1, bytes, bytes);
        is_cleared_where_written(bytes, bytes / 2, bytes / 2 + PAGE, bytes - 5);
        is_cleared_where_written(bytes, 0, bytes, bytes / 3);
    }
}

/* Zeros are written where something has been, not to pages that nobody has touched: neither
 * fresh ones nor such as were only ever lent. */
static void test_zeroed_stay_untouched(void **state) {
    (void)state;
    const size_t bytes = 64 * MIB;
    bool is_zero;
    (void)span_purge_all();
    use_large(2 * MIB);
    for (int round = 0; round < 2; round++) {
        char *zeroed = large_take(0, bytes, 1, bytes, &is_zero);
        assert_non_null(zeroed);
        assert_true(is_zero);
        assert_true(resident_pages(zeroed, bytes) * os_page_size() <= 4 * MIB);
        assert_int_equal(zeroed[0] | zeroed[2 * MIB - 1] | zeroed[bytes - 1], 0);
        large_give(zeroed);
    }
}

/* A program that takes and gives back large blocks in turn maps nothing anew. */
static void test_no_churn(void **state) {
    (void)state;
    static const size_t sizes[] = {2 * MIB, 8 * MIB, 64 * MIB, 150 * MIB};
    static const enum os_call kinds[] = {OS_CALL_RESERVE, OS_CALL_COMMIT, OS_CALL_MAP,
                                         OS_CALL_UNMAP,   OS_CALL_REMAP,  OS_CALL_ADVISE};
    enum { KINDS = sizeof kinds / sizeof kinds[0], ROUNDS = 20 };
    /* What a heap does once: it reads its limits at 16 MiB, and keeps a SuperSlab in reserve. */
    use_large(150 * MIB);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t before[KINDS];
        for (int round = 0; round < ROUNDS; round++) {
            use_large(sizes[i]);
            for (int k = 0; k < KINDS && round == 0; k++)
                before[k] = os_call_count(kinds[k]);
        }
        for (int k = 0; k < KINDS; k++)
            assert_int_equal(os_call_count(kinds[k]), before[k]);
    }
}

int main(void) {
    /* No churn first: where addresses are few, as under ThreadSanitizer, the others leave the
     * window in pieces too short for its largest block. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_churn),
        cmocka_unit_test(test_huge_table),
        cmocka_unit_test(test_huge_resize),
        cmocka_unit_test(test_huge_refused),
        cmocka_unit_test(test_large_in_window),
        cmocka_unit_test(test_large_alignments),
        cmocka_unit_test(test_large_outside),
        cmocka_unit_test(test_large_resize),
        cmocka_unit_test(test_large_deaths),
        cmocka_unit_test(test_zeroed_where_written),
        cmocka_unit_test(test_zeroed_stay_untouched),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
