/* Purging pages inside slabs in use: what goes and what stays, seen by the kernel. */
#include "population.h"
#include "support.h"

#include "os/system.h"
#include "refusals.h"
#include "slab/slab.h"

static const size_t sizes[] = {16, 48, 128, 1000, 4096, 5120, 9000, 22528, 100000, 1 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void test_pages_without_blocks_go(void **state) {
    (void)state;
    size_t all = 0;
    for (unsigned s = 0; s < SIZES; s++) {
        take_many(s % 2, sizes[s]);
        give_most(sizes[s] < 1000 ? 200 : 4);
        slab_trim();
        all += assert_purge();
        give_rest();
    }
    assert_true(os_page_size() > 4096 || all > 20 * MIB);
}

/* Blocks of purged pages serve again; those that are said to be zero are. */
static void test_purged_pages_serve_again(void **state) {
    (void)state;
    for (unsigned s = 0; s < SIZES; s++) {
        take_many(0, sizes[s]);
        give_most(3);
        slab_trim();
        unsigned zero = 0;
        size_t purged = slab_purge_pages();
        for (unsigned i = 0; i < held.count; i++) {
            if (held.blocks[i] != NULL)
                continue;
            bool is_zero = false;
            unsigned char *block = slab_take_one(0, held.class, &is_zero);
            assert_non_null(block);
            assert_false(is_filled(block) && is_zero);
            for (size_t b = 0; is_zero && b < class_size(held.class); b++)
                assert_int_equal(block[b], 0);
            zero += is_zero;
            fill_block(block);
            held.blocks[i] = block;
        }
        for (unsigned i = 0; i < held.count; i++)
            assert_true(is_filled(held.blocks[i]));
        /* All that was purged is in use again. */
        if (class_size(held.class) % os_page_size() == 0)
            assert_true(zero * class_size(held.class) + look_at_pages().tail_bytes >= purged);
        /* Written again: they must go again. */
        give_most(3);
        slab_trim();
        slab_purge_pages();
        assert_int_equal(look_at_pages().dead_bytes, 0);
        give_rest();
    }
}

/* Locked memory: nothing has changed, and later it goes. */
static void test_kernel_refuses(void **state) {
    (void)state;
    take_many(0, 4096);
    give_most(4);
    slab_trim();
    refuse_kind(OS_CALL_PURGE);
    assert_int_equal(slab_purge_pages(), 0);
    allow_all();
    assert_true(os_page_size() == SLAB_BYTES || look_at_pages().dead_bytes != 0);
    assert_purge();
    give_rest();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_without_blocks_go),
        cmocka_unit_test(test_purged_pages_serve_again),
        cmocka_unit_test(test_kernel_refuses),
    };
    return cmocka_run_group_tests(tests, start_population, NULL);
}
