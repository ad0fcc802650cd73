/* When a heap that shrinks gives pages inside slabs back: as blocks go, not before, and not
 * where they are soon wanted again. The clock is the test's. */
#include "support.h"

#include <string.h>

#include "os/calls.h"
#include "os/memory.h"
#include "os/options.h"
#include "slab/slab.h"

/* About a block a slab is kept. */
enum { BLOCK_BYTES = 4096, BLOCKS = 4096, KEPT_ONE_IN = 16, STEPS = 64 };
enum { SOON_MS = 100, LATER_MS = 1000, STEP_MS = 50, LEFT_ALONE_MAX_MS = 64000 };

static void *blocks[BLOCKS]; /* NULL: given */
static unsigned class;
static uint64_t now_ms = 1000;

static int start(void **state) {
    (void)state;
    start_layers("shards=2", 256 * MIB);
    class = class_of(BLOCK_BYTES);
    return 0;
}

static void fill(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i] == NULL)
            assert_int_equal(slab_take(0, class, &blocks[i], 1, NULL), 1);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
}

/* Gives the blocks from first on, but for a few that keep all slabs. */
static void give_from(unsigned first) {
    for (unsigned i = first; i < BLOCKS; i++) {
        if (blocks[i] == NULL || i % KEPT_ONE_IN == 0)
            continue;
        slab_give(class, &blocks[i], 1);
        blocks[i] = NULL;
    }
}

/* Whether as many slow calls as a look takes, at a time, give pages back. */
static bool purges_at(uint64_t at_ms) {
    now_ms = at_ms;
    uint64_t before = os_call_count(OS_CALL_PURGE);
    for (unsigned i = 0; i < STEPS; i++)
        slab_heed_shrinking(now_ms);
    return os_call_count(OS_CALL_PURGE) != before;
}

/* A full heap, long after all that was before. */
static int begin(void **state) {
    (void)state;
    purges_at(now_ms + LEFT_ALONE_MAX_MS);
    fill();
    purges_at(now_ms + LEFT_ALONE_MAX_MS);
    return 0;
}

static int end(void **state) {
    (void)state;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            slab_give(class, &blocks[i], 1);
        blocks[i] = NULL;
    }
    slab_trim();
    span_purge_all();
    return 0;
}

static void test_each_half(void **state) {
    (void)state;
    unsigned left = BLOCKS;
    assert_false(purges_at(now_ms));
    for (unsigned looks = 0; looks < 2; looks++) {
        /* A little less than half and 1 MiB, then a little more. */
        unsigned lost = left / 2 + MIB / BLOCK_BYTES;
        give_from(left - lost + lost / 8);
        assert_false(purges_at(now_ms));
        give_from(left - lost - lost / 4);
        assert_true(purges_at(now_ms));
        assert_false(purges_at(now_ms));
        left -= lost + lost / 4;
    }
}

static void test_all_of_it_goes(void **state) {
    (void)state;
    give_from(0);
    assert_true(purges_at(now_ms));
    /* But for the slab that the next blocks come from. */
    size_t spared = (size_t)size_classes[class].slabs * SLAB_BYTES;
    assert_true(slab_purge_pages() <= spared);
}

/* How long a heap is left alone that has come back too soon and stays small then. */
static uint64_t time_left_alone(void) {
    fill();
    uint64_t back_ms = now_ms + SOON_MS;
    assert_false(purges_at(back_ms));
    give_from(0);
    while (!purges_at(now_ms + STEP_MS))
        assert_true(now_ms <= back_ms + LEFT_ALONE_MAX_MS);
    return now_ms - back_ms;
}

static void test_back_at_once_is_left_alone(void **state) {
    (void)state;
    give_from(0);
    assert_true(purges_at(now_ms));
    uint64_t alone_ms = time_left_alone();
    assert_true(alone_ms > 4 * (uint64_t)SOON_MS);
    for (unsigned time = 0; time < 10; time++) {
        uint64_t longer_ms = time_left_alone();
        assert_true(longer_ms >= hak_min(2 * alone_ms - STEP_MS, (uint64_t)LEFT_ALONE_MAX_MS));
        alone_ms = longer_ms;
    }
    assert_true(alone_ms >= LEFT_ALONE_MAX_MS);
}

static void test_back_later_was_worth_it(void **state) {
    (void)state;
    for (unsigned time = 0; time < 6; time++) {
        give_from(0);
        assert_true(purges_at(now_ms));
        fill();
        assert_false(purges_at(now_ms + LATER_MS));
    }
}

static void test_speed_never(void **state) {
    (void)state;
    options_parse("profile=speed");
    give_from(0);
    assert_false(purges_at(now_ms));
    options_parse("profile=balanced");
}

#define each(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        each(test_each_half),
        each(test_all_of_it_goes),
        each(test_back_at_once_is_left_alone),
        each(test_back_later_was_worth_it),
        each(test_speed_never),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
