/* Guard sampling: which blocks are guarded, where they lie, what becomes of them, and what is said
 * of bad accesses and frees. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "modes/guard.h"
#include "modes/guarded.h"
#include "os/calls.h"
#include "os/memory.h"
#include "os/options.h"
#include "span/arena.h"

static struct thread *thread;

static void begin(uint64_t rate, uint64_t slots) {
    guard_release();
    hak_options.guard_rate = rate;
    hak_options.guard_slots = slots;
    thread->until_guard = thread->calls_until_guard = 0;
    thread->owed_class = 0;
    guard_begin(thread);
}

static void *take_aligned(size_t size, size_t alignment) {
    void *block = guard_take(thread, size, alignment, size, GUARD_BY_CHANCE);
    assert_non_null(block);
    assert_int_equal(entry_bin(window_entry(block)), BIN_GUARD);
    return block;
}

static void *take(size_t size) { return take_aligned(size, 1); }

/* --- which ------------------------------------------------------------------------- */

enum { SAMPLES = 4000 };

/* Each block has the same chance: so many samples scatter by the root of their number. */
static void assert_as_expected(size_t found, size_t blocks, uint64_t rate) {
    double expected = (double)blocks / (double)rate;
    assert_true(fabs((double)found - expected) < 5 * sqrt(expected));
}

static void test_one_in_rate_of_refilled_blocks(void **state) {
    (void)state;
    static const uint64_t rates[] = {1001, 5000, 20000};
    uint64_t chance = 1;
    for (size_t r = 0; r < 3; r++) {
        begin(rates[r], 64);
        size_t blocks = 0;
        size_t found = 0;
        while (blocks < SAMPLES * rates[r]) {
            unsigned batch = 1 + (unsigned)random_below(&chance, 128);
            thread->until_guard -= batch;
            blocks += batch;
            if (thread->until_guard < 0) {
                guard_give(take(64), SIZE_MAX, 1);
                found++;
            }
        }
        assert_as_expected(found, blocks, rates[r]);
    }
}

static void test_one_in_rate_of_calls(void **state) {
    (void)state;
    for (uint64_t rate = 1; rate <= 1000; rate *= 10) {
        begin(rate, 64);
        assert_true(guard_counts_calls());
        size_t found = 0;
        for (size_t call = 0; call < SAMPLES * rate; call++) {
            if (!guard_counts(thread))
                continue;
            guard_give(take(64), SIZE_MAX, 1);
            found++;
        }
        assert_as_expected(found, SAMPLES * rate, rate);
        if (rate == 1)
            assert_int_equal(found, SAMPLES);
    }
}

/* A program that ends after half as many blocks as the rate has guarded one with a chance of
 * 1 - exp(-1/2): the first interval is as all others. */
static void test_first_blocks_have_their_chance(void **state) {
    (void)state;
    enum { RATE = 100000 };
    size_t found = 0;
    for (size_t program = 0; program < SAMPLES; program++) {
        begin(RATE, 64);
        found += thread->until_guard < RATE / 2;
    }
    double chance = 1 - exp(-0.5);
    double deviation = sqrt(SAMPLES * chance * (1 - chance));
    assert_true(fabs((double)found - SAMPLES * chance) < 5 * deviation);
}

/* Where freed memory is watched, each class's first blocks, by turns on the right and on the left;
 * for leaks none, which are never told of guarded blocks. */
static void test_first_blocks_of_each_class(void **state) {
    (void)state;
    enum { FIRST = 4, LARGEST = 32 * 1024 };
    begin(100000, 64);
    enum guard_side side;
    for (hak_options.hardened = 0; hak_options.hardened <= 2; hak_options.hardened++) {
        hak_options.leaks = hak_options.hardened == 2;
        guard_start();
        for (unsigned bin = 1; bin < CLASS_COUNT; bin++)
            assert_false(guard_wants_first(bin) || guard_counts_first(bin, &side));
    }
    begin(100000, 1);
    hak_options.hardened = 2;
    hak_options.leaks = 0;
    guard_start();
    for (unsigned bin = 1; bin <= BIN_LARGE; bin++) {
        unsigned count = 0;
        while (guard_wants_first(bin)) {
            assert_true(guard_counts_first(bin, &side));
            assert_int_equal(side, count++ % 2 == 0 ? GUARD_RIGHT : GUARD_LEFT);
        }
        assert_false(guard_counts_first(bin, &side));
        bool is_small = bin < CLASS_COUNT && class_size(bin) <= LARGEST;
        assert_int_equal(count, is_small ? FIRST : 0);
    }
    /* They leave guard_slots to others, and when these are due, and to which class. */
    int64_t due = thread->until_guard;
    thread->owed_class = (uint16_t)class_of(1008);
    char *blocks[FIRST * 8];
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        side = i % 2 == 0 ? GUARD_RIGHT : GUARD_LEFT;
        blocks[i] = guard_take(thread, 1008, 1, 1008, side);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % os_page_size() != 0, side == GUARD_RIGHT);
    }
    assert_int_equal(thread->until_guard, due);
    assert_true(guard_is_due(thread, class_of(1008)));
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        guard_give(blocks[i], 1008, 1);
    hak_options.hardened = 0;
}

/* Large blocks count one by one, but for those that are too large. */
static void test_one_in_rate_of_large_blocks(void **state) {
    (void)state;
    enum { RATE = 2000 };
    begin(RATE, 64);
    assert_false(guard_counts_large(thread, GIB));
    size_t found = 0;
    for (size_t block = 0; block < (size_t)SAMPLES * RATE; block++) {
        if (!guard_counts_large(thread, 2 << 20))
            continue;
        guard_give(take(2 << 20), SIZE_MAX, 1);
        found++;
    }
    assert_as_expected(found, (size_t)SAMPLES * RATE, RATE);
}

/* What is due in a free is left to the next block of that class; what is due beside that, to the
 * next of any. */
static void test_owed_to_a_class(void **state) {
    (void)state;
    begin(100000, 64);
    unsigned class = class_of(64), other = class_of(1024);
    thread->until_guard = 5;
    guard_owe(thread, class);
    assert_int_equal(thread->until_guard, 5);
    assert_false(guard_is_due(thread, class));
    thread->until_guard = -1;
    assert_true(guard_is_due(thread, class) && guard_is_due(thread, other));
    assert_false(guard_is_due(thread, BIN_LARGE));
    guard_owe(thread, class);
    assert_true(thread->until_guard >= 0);
    assert_true(guard_is_due(thread, class) && !guard_is_due(thread, other));
    thread->until_guard = -1;
    guard_owe(thread, other);
    assert_int_equal(thread->until_guard, -1);
    guard_give(take(1024), SIZE_MAX, 1); /* the one due beside it */
    assert_true(thread->until_guard >= 0);
    assert_true(guard_is_due(thread, class));
    guard_give(take(64), SIZE_MAX, 1);
    assert_false(guard_is_due(thread, class) || guard_is_due(thread, other));
    /* A child has a countdown of its own. */
    thread->until_guard = -1;
    guard_owe(thread, class);
    guard_forked(thread);
    assert_false(guard_is_due(thread, class));
}

static void test_no_rate_no_guards(void **state) {
    (void)state;
    begin(0, 64);
    assert_int_equal(thread->until_guard, INT64_MAX);
    assert_false(guard_counts_calls());
    assert_false(guard_wants_refills());
}

/* --- where ------------------------------------------------------------------------- */

static void test_sizes_and_alignments(void **state) {
    (void)state;
    begin(1, 64);
    static const size_t sizes[] = {0,     1,     15,    16,     17,      64,      100,
                                   1000,  4000,  4096,  4097,   8192,    32768,   61440,
                                   61441, 65536, 65537, 131072, 1 << 20, 3 << 20, (5 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int round = 0; round < 8; round++) { /* left and right */
            size_t size = sizes[i];
            size_t alignment = size == 0 ? 16 : hak_clamp(size & -size, (size_t)16, (size_t)65536);
            char *block = take(size);
            assert_true(is_aligned((uintptr_t)block, alignment));
            assert_int_equal(guard_usable_bytes(block, "test"), size);
            for (size_t at = 0; at < size; at++)
                assert_int_equal(block[at], 0);
            memset(block, 1, size);
            guard_give(block, SIZE_MAX, 1);
        }
    }
}

static void test_aligned_blocks_are_of_the_size_asked_for(void **state) {
    (void)state;
    begin(1, 64);
    static const size_t sizes[] = {0, 1, 100, 4096, 5000, 65536, 66000};
    for (size_t alignment = 1; alignment <= SLAB_BYTES; alignment *= 4) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (int round = 0; round < 8; round++) { /* left and right */
                char *block = take_aligned(sizes[i], alignment);
                assert_true(is_aligned((uintptr_t)block, alignment));
                assert_int_equal(guard_usable_bytes(block, "test"), sizes[i]);
                memset(block, 1, sizes[i]);
                guard_give(block, SIZE_MAX, 1);
            }
        }
    }
}

/* Of a size that is no multiple of 16 the inaccessible page is not quite behind the last byte. */
static void test_where_the_inaccessible_page_begins(void **state) {
    (void)state;
    begin(1, 64);
    size_t at_the_right = 0;
    for (int round = 0; round < 64; round++) {
        volatile char *block = take(100);
        for (size_t at = 100; at < 112; at++)
            (void)block[at];
        bool is_at_the_right = is_aligned((uintptr_t)block + 112, os_page_size());
        at_the_right += is_at_the_right;
        assert_true(is_at_the_right || is_aligned((uintptr_t)block, os_page_size()));
        guard_give((void *)block, SIZE_MAX, 1);
    }
    assert_in_range(at_the_right, 1, 63);
}

/* What nallocx says of such a block is a truth, too. */
static void test_aligned_blocks_may_be_told_of_as_their_class(void **state) {
    (void)state;
    begin(1, 64);
    guard_give(take_aligned(100, 64), 100, 64);
    guard_give(take_aligned(100, 64), 128, 64);
    guard_give(take_aligned(5000, 4096), 8192, 4096);
    guard_give(take_aligned(CLASS_SIZE_MAX - 1, SLAB_BYTES), CLASS_SIZE_MAX, SLAB_BYTES);
}

/* A freed block keeps its place from others for as long as there are free slots. */
static void test_freed_blocks_wait_their_turn(void **state) {
    (void)state;
    enum { SLOTS = 8 };
    begin(1001, SLOTS);
    char *blocks[SLOTS];
    for (size_t i = 0; i < SLOTS; i++)
        blocks[i] = take(100);
    assert_null(guard_take(thread, 100, 1, 100, GUARD_BY_CHANCE));
    assert_int_equal(guard_stats().live, SLOTS);
    for (size_t i = 0; i < SLOTS; i++)
        guard_give(blocks[i], SIZE_MAX, 1);
    assert_int_equal(guard_stats().freed, SLOTS);
    /* The one freed first makes room, and only that. */
    char *again = take(100);
    assert_int_equal(guard_stats().freed, SLOTS - 1);
    assert_true(window_slab_index(again) == window_slab_index(blocks[0]));
    for (size_t i = 1; i < SLOTS; i++)
        assert_int_equal(entry_bin(window_entry(blocks[i])), BIN_GUARD);
    guard_give(again, SIZE_MAX, 1);
}

static void test_no_limit_where_every_block_is_guarded(void **state) {
    (void)state;
    enum { BLOCKS = 1000 };
    begin(1, 1);
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = take(i);
    for (size_t i = 0; i < BLOCKS; i++)
        guard_give(blocks[i], SIZE_MAX, 1);
    assert_int_equal(guard_stats().live, 0);
    assert_int_equal(guard_stats().freed, BLOCKS);
    guard_release();
    assert_int_equal(guard_stats().freed, 0);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(window_entry(blocks[i]), 0);
}

/* --- when the kernel refuses ---------------------------------------------------------- */

static void test_without_guard_pages_no_guarded_block(void **state) {
    (void)state;
    begin(1, 1);
    for (unsigned granted = 0; granted < 2; granted++) {
        refuse_after(OS_CALL_GUARD, granted);
        assert_null(guard_take(thread, 100, 1, 100, GUARD_BY_CHANCE));
        allow_all();
        assert_int_equal(guard_stats().live, 0);
        guard_give(take(100), SIZE_MAX, 1);
    }
    guard_release();
    refuse_kind(OS_CALL_KINDS);
    size_t taken = 0;
    for (; guard_take(thread, 1 << 20, 1, 1 << 20, GUARD_BY_CHANCE) != NULL; taken++) {
    }
    allow_all();
    assert_int_equal(guard_stats().live, taken);
}

/* --- what is reported ------------------------------------------------------------------ */

struct bug {
    const char *kind;
    const char *text;
    size_t size;
    size_t alignment;
    void (*make)(char *block, size_t size);
};

static void touch(volatile char *place) { *place = (char)(*place + 1); }

static void read_after_free(char *block, size_t size) {
    guard_give(block, SIZE_MAX, 1);
    touch(block + size / 2);
}
static void write_behind(char *block, size_t size) {
    touch(block + size);
    guard_give(block, SIZE_MAX, 1);
}
static void write_last_of_slack(char *block, size_t size) {
    touch(block + align_up(size, 16) - 1);
    guard_give(block, SIZE_MAX, 1);
}
static void write_last_of_class(char *block, size_t size) {
    touch(block + align_up(size, 64) - 1);
    guard_give(block, SIZE_MAX, 1);
}
static void write_before(char *block, size_t size) {
    (void)size;
    touch(block - 1);
    guard_give(block, SIZE_MAX, 1);
}
static void write_far_behind(char *block, size_t size) {
    size_t page = os_page_size();
    touch(block + align_up((uintptr_t)block + size, page) - (uintptr_t)block + page - 1);
}
static void give_twice(char *block, size_t size) {
    (void)size;
    guard_give(block, SIZE_MAX, 1);
    guard_give(block, SIZE_MAX, 1);
}
static void give_inside(char *block, size_t size) {
    (void)size;
    guard_give(block + 16, SIZE_MAX, 1);
}
static void give_odd(char *block, size_t size) {
    (void)size;
    guard_give(block + 1, SIZE_MAX, 1);
}
static void ask_after_free(char *block, size_t size) {
    (void)size;
    guard_give(block, SIZE_MAX, 1);
    guard_usable_bytes(block, "realloc");
}

static void tell_too_little(char *block, size_t size) { guard_give(block, size - 1, 1); }
static void tell_too_much(char *block, size_t size) { guard_give(block, size + 4096, 1); }
static void tell_wrong_alignment(char *block, size_t size) {
    (void)size;
    guard_give(block, SIZE_MAX, 2 * ((uintptr_t)block & -(uintptr_t)block));
}

static void make(void *context) {
    const struct bug *bug = context;
    os_fault_watch(guarded_look); /* the test framework has taken its place */
    bug->make(take_aligned(bug->size, bug->alignment), bug->size);
}

static void test_each_bug_is_reported(void **state) {
    (void)state;
    begin(1, 64);
    static struct bug bugs[] = {
        {"hakmem: use after free: ", "50 bytes into block 0x", 100, 1, read_after_free},
        {"hakmem: use after free: ", "bytes into block 0x", 100000, 1, read_after_free},
        {"hakmem: heap overflow: ", " 0 bytes behind block 0x", 100, 1, write_behind},
        {"hakmem: heap overflow: ", " 0 bytes behind block 0x", 4096, 1, write_behind},
        {"hakmem: heap overflow: ", " 0 bytes behind block 0x", 1, 1, write_behind},
        {"hakmem: heap overflow: ", " 11 bytes behind block 0x", 100, 1, write_last_of_slack},
        {"hakmem: heap overflow: ", " 0 bytes behind block 0x", 100, 64, write_behind},
        {"hakmem: heap overflow: ", " 27 bytes behind block 0x", 100, 64, write_last_of_class},
        {"hakmem: heap overflow: ", " 0 bytes behind block 0x", 5000, 4096, write_behind},
        {"hakmem: heap overflow: ", " 1 bytes before block 0x", 100, 4096, write_before},
        {"hakmem: heap overflow: ", " 1 bytes before block 0x", 100, 1, write_before},
        {"hakmem: heap overflow: ", " 1 bytes before block 0x", 4096, 1, write_before},
        {"hakmem: heap overflow: ", "behind block 0x", 100, 1, write_far_behind},
        {"hakmem: double free: free(0x", "is free already", 100, 1, give_twice},
        {"hakmem: invalid pointer: free(0x", "inside block 0x", 100, 1, give_inside},
        {"hakmem: misaligned pointer: free(0x", "inside block 0x", 100, 1, give_odd},
        {"hakmem: double free: realloc(0x", "is free already", 100, 1, ask_after_free},
        {"hakmem: size mismatch: free(0x", "is given back as one of 99", 100, 1, tell_too_little},
        {"hakmem: size mismatch: free(0x", "is given back as one of 4196", 100, 1, tell_too_much},
        {"hakmem: misaligned pointer: free(0x", "a multiple of ", 4096, 1, tell_wrong_alignment},
    };
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        for (int round = 0; round < 6; round++) { /* left and right */
            char size[64];
            snprintf(size, sizeof size, "of %zu bytes (guarded, size class %zu, slab 0x",
                     bugs[i].size,
                     class_size(class_of(class_aligned_size(bugs[i].size, bugs[i].alignment))));
            assert_dies(make, &bugs[i], bugs[i].kind, bugs[i].text, size, "allocated by thread",
                        NULL);
        }
    }
}

static void tell_class_size(char *block, size_t size) {
    guard_give(block, class_size(class_of(size)), 1);
}

/* It promises no more than was asked for (nallocx), so nothing else may be told. */
static void test_hardened_mode_knows_the_size(void **state) {
    (void)state;
    begin(1, 64);
    struct bug bug = {"hakmem: size mismatch: free(0x", "is given back as one of 112", 100, 1,
                      tell_class_size};
    bug.make(take(bug.size), bug.size);
    hak_options.hardened = 1;
    assert_dies(make, &bug, bug.kind, bug.text, NULL);
    hak_options.hardened = 0;
}

int main(void) {
    start_layers("shards=1", 16 * GIB);
    thread = registry_add();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_in_rate_of_refilled_blocks),
        cmocka_unit_test(test_one_in_rate_of_calls),
        cmocka_unit_test(test_first_blocks_have_their_chance),
        cmocka_unit_test(test_one_in_rate_of_large_blocks),
        cmocka_unit_test(test_owed_to_a_class),
        cmocka_unit_test(test_no_rate_no_guards),
        cmocka_unit_test(test_sizes_and_alignments),
        cmocka_unit_test(test_aligned_blocks_are_of_the_size_asked_for),
        cmocka_unit_test(test_where_the_inaccessible_page_begins),
        cmocka_unit_test(test_aligned_blocks_may_be_told_of_as_their_class),
        cmocka_unit_test(test_freed_blocks_wait_their_turn),
        cmocka_unit_test(test_no_limit_where_every_block_is_guarded),
        cmocka_unit_test(test_each_bug_is_reported),
        cmocka_unit_test(test_hardened_mode_knows_the_size),
        cmocka_unit_test(test_without_guard_pages_no_guarded_block),
        cmocka_unit_test(test_first_blocks_of_each_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
