/* In-use marks and cuts (modes/marks.c). */
#include "support.h"

#include <pthread.h>

#include "modes/marks.h"
#include "os/calls.h"

static char *at(size_t offset) { return window_super_address(0) + offset; }

static void a_mark_is_its_address_alone(void **state) {
    (void)state;
    static const size_t offsets[] = {0,           16,
                                     1008,        SLAB_BYTES - 16,
                                     SLAB_BYTES,  SUPER_BYTES - 16,
                                     SUPER_BYTES, SUPER_BYTES * 3 + 64};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        char *block = at(offsets[i]);
        assert_false(marks_has(block));
        assert_int_equal(marks_set(block), MARKS_SET);
        assert_true(marks_has(block));
        assert_false(marks_has(block + 16));
        assert_false(marks_has(block + 1));
        assert_false(marks_has(block + 8));
        assert_int_equal(marks_set(block), MARKS_WAS_SET);
        assert_false(marks_clear(block + 8));
        assert_true(marks_clear(block));
        assert_false(marks_clear(block));
        assert_false(marks_has(block));
    }
}

static void other_pointers_have_no_mark(void **state) {
    (void)state;
    int local;
    char *behind = at(window_slab_count * SLAB_BYTES);
    const void *others[] = {NULL, &local, behind, at(0) - 16, at((size_t)SUPER_BYTES * 2)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(marks_has(others[i]));
        assert_false(marks_clear(others[i]));
    }
}

enum { BLOCKS = 20000 };
static pthread_barrier_t start;

static void *clear_all(void *won) {
    pthread_barrier_wait(&start);
    for (size_t i = 0; i < BLOCKS; i++)
        *(size_t *)won += marks_clear(at(i * 16));
    return NULL;
}

/* Two threads free the same blocks at once: each block is freed by one of them. */
static void one_of_two_frees_wins(void **state) {
    (void)state;
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(marks_set(at(i * 16)), MARKS_SET);
    pthread_t threads[2];
    size_t won[2] = {0, 0};
    assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, clear_all, &won[i]), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(won[0] + won[1], BLOCKS);
}

/* Pieces come from chunks of metadata, of which some may be left. */
static void a_piece_refused_is_told(void **state) {
    (void)state;
    enum marks_result result = MARKS_SET;
    size_t super = 20;
    refuse_kind(OS_CALL_KINDS);
    while (super < 60 && (result = marks_set(at(SUPER_BYTES * super))) == MARKS_SET)
        super++;
    allow_all();
    assert_int_equal(result, MARKS_NO_MEMORY);
    assert_int_equal(marks_set(at(SUPER_BYTES * super)), MARKS_SET);
}

static void cuts_count_changes_of_use(void **state) {
    (void)state;
    unsigned small = class_of(64), other = class_of(128);
    char *slab = at(SUPER_BYTES);
    assert_int_not_equal(marks_set(slab), MARKS_NO_MEMORY);
    uint64_t before = marks_cuts(slab, 64);
    marks_note_cut(slab, 64, small);
    assert_int_equal(marks_cuts(slab, 64), before + 1);
    marks_note_cut(slab + 6400, 64, small); /* the same use */
    assert_int_equal(marks_cuts(slab + 6400, 64), before + 1);
    marks_note_cut(slab + 1280, 128, other);
    marks_note_cut(slab, 64, small); /* as before, but not as if nothing had been */
    assert_int_equal(marks_cuts(slab, 64), before + 3);
    /* A large block lies over several slabs, and each is another. */
    uint64_t neighbour = marks_cuts(slab + SLAB_BYTES, 64);
    marks_note_cut(slab, 2 * (size_t)SLAB_BYTES, BIN_LARGE);
    marks_note_cut(slab, 2 * (size_t)SLAB_BYTES, BIN_LARGE);
    assert_int_equal(marks_cuts(slab, 64), before + 5);
    assert_int_equal(marks_cuts(slab + SLAB_BYTES, 64), neighbour + 2);
    assert_int_equal(marks_cuts(slab, 2 * (size_t)SLAB_BYTES), before + 5 + neighbour + 2);
    assert_int_equal(marks_cuts(slab + 2 * (size_t)SLAB_BYTES, 64), 0);
}

static int set_up(void **state) {
    (void)state;
    start_layers("shards=1", 256 * MIB);
    return marks_start() ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_is_its_address_alone),
        cmocka_unit_test(other_pointers_have_no_mark),
        cmocka_unit_test(one_of_two_frees_wins),
        cmocka_unit_test(cuts_count_changes_of_use),
        cmocka_unit_test(a_piece_refused_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
