/* The ring of freed blocks (modes/quarantine.c): its bounds, how long blocks stay, and that
 * what comes in comes out. */
#include "support.h"

#include <string.h>

#include "modes/quarantine.h"
#include "slab/slab.h"

enum { BLOCKS = 4000, SIZE = 64 };
static void *blocks[BLOCKS];
static struct quarantine quarantine;

static void take_blocks(unsigned size) {
    bool is_zero;
    for (size_t i = 0; i < BLOCKS; i++)
        assert_non_null(blocks[i] = slab_take_one(0, class_of(size), &is_zero));
}

static size_t number_of(const void *block) {
    size_t i = 0;
    while (blocks[i] != block)
        i++;
    return i;
}

static void every_block_waits_and_leaves_once(void **state) {
    (void)state;
    take_blocks(SIZE);
    memset(&quarantine, 0, sizeof quarantine);
    static size_t left_after[BLOCKS];
    uint64_t random = 1;
    size_t out_of_order = 0;
    size_t last = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(quarantine_is_full(&quarantine, SIZE), i >= QUARANTINE_BLOCKS);
        if (i >= QUARANTINE_BLOCKS) {
            size_t left = number_of(quarantine_pop(&quarantine));
            assert_int_equal(left_after[left], 0);
            left_after[left] = i - left;
            assert_true(left_after[left] >= QUARANTINE_BLOCKS / 2);
            out_of_order += left < last;
            last = left;
        }
        quarantine_push(&quarantine, blocks[i], SIZE, (uint32_t)random_next(&random));
        assert_int_equal(quarantine.bytes, quarantine.count * SIZE);
    }
    assert_true(out_of_order > BLOCKS / 4);
    for (size_t i = 0; i < QUARANTINE_BLOCKS; i++)
        left_after[number_of(quarantine_pop(&quarantine))] = 1;
    assert_null(quarantine_pop(&quarantine));
    assert_int_equal(quarantine.bytes, 0);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_not_equal(left_after[i], 0);
}

static void bytes_are_bounded(void **state) {
    (void)state;
    bool is_zero;
    memset(&quarantine, 0, sizeof quarantine);
    for (size_t i = 0; i < 100; i++) {
        while (quarantine_is_full(&quarantine, QUARANTINE_ROOM_MAX))
            assert_non_null(quarantine_pop(&quarantine));
        void *block = slab_take_one(0, class_of(QUARANTINE_ROOM_MAX), &is_zero);
        quarantine_push(&quarantine, block, QUARANTINE_ROOM_MAX, 0);
        assert_true(quarantine.bytes <= 256 * KIB);
    }
    assert_int_equal(quarantine.count, 256 * KIB / QUARANTINE_ROOM_MAX);
}

static int set_up(void **state) {
    (void)state;
    start_layers("shards=1", 256 * MIB);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_waits_and_leaves_once),
        cmocka_unit_test(bytes_are_bounded),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
