/* How much of a fresh slab is faulted in: nothing at first, more with each that a class
 * uses up, bounded by what it has and by the profile. */
#include "support.h"

#include <string.h>
#include <sys/mman.h>

#include "os/calls.h"
#include "os/memory.h"
#include "os/options.h"
#include "os/system.h"
#include "slab/slab.h"

enum {
    SPAN_SLABS = 16,
    FEW = 15,  /* slabs of a class that still learns how much of one it uses */
    MANY = 16, /* and of one that takes more than one at once from twice as many on */
    CLASS = 3,
};

static int start(void **state) {
    (void)state;
    start_layers("shards=2,profile=speed", 256 * MIB);
    return 0;
}

static size_t resident_bytes(void *begin, size_t bytes) {
    size_t page = os_page_size();
    unsigned char map[SPAN_SLABS * SLAB_BYTES / 4096];
    assert_int_equal(mincore(begin, bytes, map), 0);
    size_t resident = 0;
    for (size_t i = 0; i < bytes / page; i++)
        resident += (map[i] & 1) * page;
    return resident;
}

/* What a pool has faulted in of a fresh span that it is given. */
static size_t populated(struct pool *pool, unsigned class) {
    struct span span = {.slabs = SPAN_SLABS, .capacity = 100};
    span.start = os_map_aligned(span_bytes(&span), SLAB_BYTES);
    assert_non_null(span.start);
    size_t bytes = populate_fresh(pool, class, &span);
    if (kernel_populates())
        assert_int_equal(resident_bytes(span.start, span_bytes(&span)), bytes);
    for (size_t i = 0; i < span_bytes(&span); i++)
        assert_int_equal(span.start[i], 0);
    os_unmap(span.start, span_bytes(&span));
    return bytes;
}

/* In multiples of pages, and none instead of one: by a fault it comes cheaper. */
static size_t whole_pages(size_t bytes) {
    bytes = align_down(bytes, os_page_size());
    return bytes > os_page_size() ? bytes : 0;
}

/* Twice as much each time, up to what it has a right to. */
static void test_steps_double(void **state) {
    (void)state;
    struct pool pool = {.slab_count = FEW};
    assert_int_equal(populated(&pool, CLASS), 0);
    for (size_t step = 16 * KIB; step <= 64 * KIB; step *= 2)
        assert_int_equal(populated(&pool, CLASS), whole_pages(step));
    for (int i = 0; i < 3; i++)
        assert_int_equal(populated(&pool, CLASS), whole_pages(FEW * SLAB_BYTES / 8));
}

/* An eighth of what the class has: a small program pays for no class. */
static void test_share_of_the_class(void **state) {
    (void)state;
    struct pool pool = {.steps = 64};
    assert_int_equal(populated(&pool, CLASS), 0);
    for (unsigned slabs = 1; slabs <= 64; slabs *= 2) {
        pool.slab_count = slabs;
        assert_int_equal(populated(&pool, CLASS), whole_pages((size_t)slabs * SLAB_BYTES / 8));
    }
}

/* A class of many slabs: the whole of it from the first on, whatever it gave back before, and
 * several slabs at once. */
static void test_many_slabs(void **state) {
    (void)state;
    struct pool pool = {.slab_count = MANY};
    assert_int_equal(populated(&pool, CLASS), whole_pages(MANY * SLAB_BYTES / 8));
    pool.slab_count = 1 << 20;
    assert_int_equal(populated(&pool, CLASS), whole_pages(options_profile()->populate_max_bytes));
    const unsigned wanted[][2] = {{0, 1}, {31, 1}, {32, 2}, {127, 7}, {128, 8}, {1 << 20, 8}};
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        pool.slab_count = wanted[i][0];
        assert_int_equal(populate_slabs(&pool, CLASS), wanted[i][1]);
        assert_int_equal(populate_slabs(&pool, class_of(40 * KIB)), 1);
    }
    options_parse("profile=lean");
    assert_int_equal(populate_slabs(&pool, CLASS), 1);
    options_parse("profile=speed");
}

/* Of a block of many pages nobody knows how much is used. */
static void test_no_long_blocks(void **state) {
    (void)state;
    struct pool pool = {.slab_count = 1 << 20};
    assert_int_equal(populated(&pool, class_of(32 * KIB)), 1 * MIB);
    assert_int_equal(populated(&pool, class_of(40 * KIB)), 0);
}

static void test_lean_never(void **state) {
    (void)state;
    options_parse("profile=lean");
    struct pool pool = {.slab_count = MANY};
    for (int i = 0; i < 10; i++)
        assert_int_equal(populated(&pool, CLASS), 0);
    options_parse("profile=speed");
}

/* A span given back that was hardly used: from the start again. */
static void test_learns_from_waste(void **state) {
    (void)state;
    struct pool pool = {.slab_count = FEW, .steps = 4};
    struct span span = {.capacity = 100, .touched = 50};
    populate_learn(&pool, &span);
    assert_int_equal(populated(&pool, CLASS), 64 * KIB);
    span.touched = 49;
    populate_learn(&pool, &span);
    assert_int_equal(populated(&pool, CLASS), 0);
    assert_int_equal(populated(&pool, CLASS), whole_pages(16 * KIB));
}

/* Through slab_take: a growing class pays a call a slab from some slabs on, gives
 * back what it has taken, and grows again through pages that are there, without. */
static void test_a_growing_class(void **state) {
    (void)state;
    enum { BLOCK_BYTES = 4096, BLOCKS = 4096 };
    static void *blocks[BLOCKS];
    unsigned class = class_of(BLOCK_BYTES);
    uint64_t before = os_call_count(OS_CALL_POPULATE);
    for (int i = 0; i < 16; i++)
        assert_int_equal(slab_take(0, class, &blocks[i], 1, NULL), 1);
    assert_int_equal(os_call_count(OS_CALL_POPULATE), before);
    for (int i = 16; i < BLOCKS; i++)
        assert_int_equal(slab_take(0, class, &blocks[i], 1, NULL), 1);
    uint64_t calls = os_call_count(OS_CALL_POPULATE) - before;
    size_t spans = BLOCKS / size_classes[class].capacity;
    assert_true(calls <= spans + 8); /* taken ahead */
    assert_true(calls >= spans / 2 || os_page_size() > 16 * KIB);
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(*(char *)blocks[i], 0);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    slab_give(class, blocks, BLOCKS);
    before = os_call_count(OS_CALL_POPULATE);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(slab_take(0, class, &blocks[i], 1, NULL), 1);
    assert_true(os_call_count(OS_CALL_POPULATE) - before <= 2);
    slab_give(class, blocks, BLOCKS);
}

/* Takes and frees one block as often as all blocks of the class in so many turns. */
static void turn_over(unsigned class, void **blocks, unsigned count, unsigned turns) {
    for (unsigned i = 0; i < count * turns; i++) {
        void *given = blocks[0];
        slab_give(class, &given, 1);
        assert_int_equal(slab_take(0, class, &blocks[0], 1, NULL), 1);
    }
}

/* Into the kernel, for the next fresh slab of a class. */
static uint64_t calls_of_a_slab(unsigned class, void **blocks, unsigned *taken) {
    uint64_t before = os_call_count(OS_CALL_POPULATE);
    unsigned fresh = 0;
    while (fresh == 0)
        assert_int_equal(slab_take(0, class, &blocks[(*taken)++], 1, &fresh), 1);
    return os_call_count(OS_CALL_POPULATE) - before;
}

/* A class that takes a slab now and then pays a fault for the page that it writes, no more. */
static void test_a_class_that_does_not_grow(void **state) {
    (void)state;
    enum { BLOCK_BYTES = 2048, SLABS = 16, MOST_TURNS = 12, FEW_TURNS = 2 };
    static void *blocks[2 * SLABS * SLAB_BYTES / BLOCK_BYTES];
    unsigned class = class_of(BLOCK_BYTES);
    unsigned taken = 0;
    slab_trim();
    span_purge_all();
    for (unsigned s = 0; s < SLABS; s++)
        calls_of_a_slab(class, blocks, &taken);
    unsigned usual = os_page_size() < SLAB_BYTES ? 1 : 0; /* one page is never asked for */
    assert_int_equal(calls_of_a_slab(class, blocks, &taken), usual);
    turn_over(class, blocks, taken, FEW_TURNS);
    assert_int_equal(calls_of_a_slab(class, blocks, &taken), usual);
    turn_over(class, blocks, taken, MOST_TURNS);
    assert_int_equal(calls_of_a_slab(class, blocks, &taken), 0);
    assert_int_equal(calls_of_a_slab(class, blocks, &taken), usual);
    slab_give(class, blocks, taken);
}

/* Slab_take gives the lowest blocks, and a bin hands out the lowest first: the page behind those
 * written is the next, whatever the bins hold of it and of those behind. */
static void test_the_next_page(void **state) {
    (void)state;
    enum { BLOCKS = 20, WRITTEN = 3 };
    size_t page = os_page_size();
    size_t size = align_down(page / 4, CLASS_STEP);
    unsigned class = class_of(size);
    void *blocks[BLOCKS] = {NULL};
    if (page >= SLAB_BYTES || !kernel_populates())
        skip();
    slab_trim();
    span_purge_all();
    assert_true(populate_wants_next(class));
    assert_int_equal(slab_take(0, class, &blocks[0], 1, NULL), 1);
    assert_false(slab_populate_next(0, class)); /* not in use yet */
    for (int i = 1; i < BLOCKS; i++)
        assert_int_equal(slab_take(0, class, &blocks[i], 1, NULL), 1);
    for (int i = 0; i < WRITTEN; i++)
        memset(blocks[i], 1, size);
    char *slab = blocks[0];
    size_t written = resident_bytes(slab, SLAB_BYTES);
    assert_int_equal(written, page);
    for (int times = 0; times < 2; times++) {
        assert_true(slab_populate_next(0, class));
        assert_int_equal(resident_bytes(slab, SLAB_BYTES), 2 * page);
        assert_int_equal(resident_bytes(slab + page, page), page);
    }
    for (size_t i = 0; i < BLOCKS * size; i++)
        assert_int_equal(slab[i], i < WRITTEN * size);
    slab_give(class, blocks, BLOCKS);
}

/* Small blocks seldom begin a page, long ones always. */
static void test_whose_next_page(void **state) {
    (void)state;
    size_t page = os_page_size();
    assert_false(populate_wants_next(class_of(page / 16)));
    assert_true(populate_wants_next(class_of(page / 10)));
    assert_true(populate_wants_next(class_of(page / 2)));
    assert_false(populate_wants_next(class_of(page)));
    options_parse("profile=lean");
    assert_false(populate_wants_next(class_of(page / 2)));
    options_parse("profile=speed");
}

/* The kernel may refuse: the slab serves all the same. */
static void test_refused(void **state) {
    (void)state;
    enum { BLOCKS = 2000 };
    static void *blocks[BLOCKS];
    unsigned class = class_of(2048);
    refuse_kind(OS_CALL_POPULATE);
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(slab_take(1, class, &blocks[i], 1, NULL), 1);
        memset(blocks[i], 1, class_size(class));
    }
    allow_all();
    slab_give(class, blocks, BLOCKS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_double),      cmocka_unit_test(test_share_of_the_class),
        cmocka_unit_test(test_no_long_blocks),    cmocka_unit_test(test_lean_never),
        cmocka_unit_test(test_learns_from_waste), cmocka_unit_test(test_a_growing_class),
        cmocka_unit_test(test_many_slabs),        cmocka_unit_test(test_a_class_that_does_not_grow),
        cmocka_unit_test(test_the_next_page),     cmocka_unit_test(test_whose_next_page),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
