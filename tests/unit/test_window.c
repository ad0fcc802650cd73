/* The class map and the super table: where the map begins, and that what was opened can be
 * written, piece by piece up to the end of the window. */
#include "support.h"

#include "os/calls.h"
#include "os/memory.h"
#include "span/window.h"

enum {
    WINDOW_SUPERS = 4096, /* 8 GiB: more than one page of either table, whatever a page is */
    APART = WINDOW_SUPERS - 1,
    LINE = 64,
};

/* What loads and stores of many processors are told apart by. */
enum { LOW_ADDRESS = 4096 };

static int start(void **state) {
    (void)state;
    start_os("");
    return window_init((size_t)WINDOW_SUPERS * SUPER_BYTES, 1) ? 0 : -1;
}

static void write_super(size_t super) {
    for (size_t slab = super * SUPER_SLABS; slab < (super + 1) * SUPER_SLABS; slab++)
        window_entry_set(slab, entry_make(1, 2));
    window_super_set(super, NULL);
}

static uint16_t first_entry(size_t super) { return window_entry(window_super_address(super)); }

/* The first block of a slab is written to, and then its slab's entry is read. */
static void entries_of_the_first_slabs_are_not_where_blocks_begin(void **state) {
    (void)state;
    for (size_t slab = 0; slab < SUPER_SLABS; slab++)
        assert_true((uintptr_t)&window_map[slab] % LOW_ADDRESS >= LINE);
}

static void one_apart_can_be_written(void **state) {
    (void)state;
    assert_true(window_open_apart(APART, 1));
    write_super(APART);
    assert_int_equal(first_entry(APART), entry_make(1, 2));
    assert_int_equal(first_entry(APART - 1), 0);
}

static void each_can_be_written_when_opened(void **state) {
    (void)state;
    uint64_t calls = os_call_count(OS_CALL_COMMIT);
    for (size_t super = 0; super < window_super_count(); super++) {
        assert_true(window_open(super, 1));
        write_super(super);
    }
    /* A page is opened once. */
    size_t map_bytes = window_slab_count * sizeof(uint16_t);
    size_t supers_bytes = window_super_count() * sizeof(void *);
    assert_in_range(os_call_count(OS_CALL_COMMIT) - calls, 2,
                    (map_bytes + supers_bytes) / os_page_size() + 2);
    assert_int_equal(first_entry(0), entry_make(1, 2));
    assert_int_equal(first_entry(window_super_count() - 2), entry_make(1, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_of_the_first_slabs_are_not_where_blocks_begin),
        cmocka_unit_test(one_apart_can_be_written),
        cmocka_unit_test(each_can_be_written_when_opened),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
