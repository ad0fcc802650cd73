/* What freed memory is filled with (modes/fill.c): every change of what is filled is found,
 * and nothing is taken for a change that is none. */
#include "support.h"

#include <string.h>

#include "modes/fill.h"
#include "modes/marks.h"
#include "modes/seal.h"
#include "os/memory.h"

static char *take(size_t room) {
    bool is_zero;
    char *block = slab_take_one(0, class_of(room), &is_zero);
    assert_non_null(block);
    assert_int_not_equal(marks_set(block), MARKS_NO_MEMORY);
    marks_note_cut(block, room, class_of(room));
    return block;
}

static void a_change_is_found_where_it_is(void **state) {
    (void)state;
    static const size_t rooms[] = {16, 32, 48, 112, 1024, 4096, 20480, 32768};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        char *block = take(rooms[i]);
        assert_int_equal(fill_damage(block, rooms[i]), FILL_INTACT); /* not known to be filled */
        fill_freed(block, rooms[i], 1);
        assert_int_equal(fill_damage(block, rooms[i]), FILL_INTACT);
        size_t end = rooms[i] - SEAL_BYTES;
        for (size_t at = 0; at < end; at += at < 64 || at > end - 64 ? 1 : 61) {
            block[at] ^= 0x10;
            assert_int_equal(fill_damage(block, rooms[i]), at);
            block[at] ^= 0x10;
        }
        assert_int_equal(fill_damage(block, rooms[i]), FILL_INTACT);
    }
}

static void the_ends_of_larger_blocks_are_watched(void **state) {
    (void)state;
    enum { ROOM = 131072, END = 16 * 1024 };
    char *block = take(ROOM);
    memset(block, 1, ROOM - SEAL_BYTES);
    fill_freed(block, ROOM, 1);
    static const size_t watched[] = {0, END - 1, ROOM - END, ROOM - SEAL_BYTES - 1};
    for (size_t i = 0; i < 4; i++) {
        block[watched[i]] ^= 1;
        assert_int_equal(fill_damage(block, ROOM), watched[i]);
        block[watched[i]] ^= 1;
    }
    assert_int_equal(block[END], 1);
    assert_int_equal(block[ROOM - END - 1], 1);
    assert_int_equal(fill_damage(block, ROOM), FILL_INTACT);
}

/* Pages of free blocks may go back to the kernel, all but that of the word or that, too. */
static void pages_that_come_back_zero_are_no_change(void **state) {
    (void)state;
    size_t page = os_page_size();
    enum { ROOM = 32768 };
    char *block = take(ROOM);
    for (size_t at = 0; at < ROOM; at += page) {
        fill_freed(block, ROOM, 1);
        memset(block + at, 0, page);
        assert_int_equal(fill_damage(block, ROOM), FILL_INTACT);
        block[at + 8] = 1; /* written to after it came back */
        assert_true(at + page == ROOM || fill_damage(block, ROOM) == at);
    }
    fill_freed(block, ROOM, 1);
    memset(block, 0, page / 2); /* but half a page is no page */
    assert_int_equal(fill_damage(block, ROOM), 0);
    char *small = take(112);
    fill_freed(small, 112, 1);
    memset(small, 0, 104); /* nor is a block whose word is there */
    assert_int_equal(fill_damage(small, 112), 0);
}

/* Its memory has been part of another block: whatever is in it now was nobody's mistake. */
static void a_block_of_another_cut_is_not_looked_at(void **state) {
    (void)state;
    char *block = take(128);
    fill_freed(block, 128, 100);
    marks_note_cut(block, 64, class_of(64));
    memset(block, 7, 64);
    assert_int_equal(fill_damage(block, 128), FILL_INTACT);
    marks_note_cut(block, 128, class_of(128));
    assert_int_equal(fill_damage(block, 128), FILL_INTACT);
}

static int set_up(void **state) {
    (void)state;
    start_layers("shards=1,hardened=2", 256 * MIB);
    seal_start();
    return marks_start() ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_found_where_it_is),
        cmocka_unit_test(the_ends_of_larger_blocks_are_watched),
        cmocka_unit_test(pages_that_come_back_zero_are_no_change),
        cmocka_unit_test(a_block_of_another_cut_is_not_looked_at),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
