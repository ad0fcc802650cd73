/* Purging pages inside slabs in use beside the program: which are left to it, for how long. */
#include "population.h"
#include "support.h"

#include <stdatomic.h>

#include "os/options.h"
#include "os/system.h"
#include "slab/slab.h"
#include "span/limits.h"

enum { STEADY_MS = 220 }; /* without growth for so long a heap does not count as growing */

/* A few live blocks at the start of each of two slabs: upkeep spares the fuller one. */
static void test_upkeep_spares_the_next(void **state) {
    (void)state;
    take_many(0, 512);
    struct span *first = span_of(held.blocks[0]), *second = NULL;
    for (unsigned i = 0; i < held.count; i++) {
        struct span *span = span_of(held.blocks[i]);
        if (span != first && second == NULL)
            second = span;
        size_t at = (uintptr_t)held.blocks[i] % SLAB_BYTES;
        bool is_fuller = span == second && at < SLAB_BYTES / 2;
        bool is_sparse = span == first && at == 0;
        if (!is_fuller && !is_sparse)
            give(i);
    }
    slab_trim();
    size_t bytes = 0;
    for (size_t steps = 0; steps < 64; steps++)
        bytes += slab_purge_pages_step(false, NULL);
    if (os_page_size() < SLAB_BYTES) {
        assert_int_equal(bytes, SLAB_BYTES - os_page_size());
        assert_int_equal(slab_purge_pages(), SLAB_BYTES / 2);
    }
    assert_int_equal(look_at_pages().dead_bytes, 0);
    give_rest();
}

static size_t turn_for_quiet(void) {
    size_t bytes = 0;
    for (bool has_ended = false; !has_ended;)
        bytes += slab_purge_pages_step(true, &has_ended);
    return bytes;
}

/* Upkeep beside the program: a slab has to be the same at two looks. */
static void test_quiet_slabs(void **state) {
    (void)state;
    take_many(0, 1024);
    give_most(6);
    slab_trim();
    size_t dead = look_at_pages().dead_bytes;
    assert_true(os_page_size() == SLAB_BYTES || dead > MIB);
    turn_for_quiet();
    assert_int_equal(look_at_pages().dead_bytes, dead);
    unsigned changed = 0;
    while (held.blocks[changed] == NULL)
        changed++;
    give(changed);
    dead = look_at_pages().dead_bytes;
    turn_for_quiet(); /* all slabs but one are as they were */
    size_t left = look_at_pages().dead_bytes;
    assert_true(left <= SLAB_BYTES && (left > 0 || dead == 0));
    turn_for_quiet();
    assert_int_equal(look_at_pages().dead_bytes, 0);
    give_rest();
}

static void set_collapsed(void) {
    for (unsigned i = 0; i < held.count; i++) {
        if (held.blocks[i] != NULL)
            atomic_store(&window_super(window_super_index(held.blocks[i]))->is_collapsed, true);
    }
}

/* Of each slab, those pages' blocks; four to a page. */
static void give_pages(unsigned from, unsigned to) {
    for (unsigned i = 0; i < held.count; i++) {
        unsigned page = (unsigned)((uintptr_t)held.blocks[i] % SLAB_BYTES / os_page_size());
        if (held.blocks[i] != NULL && page >= from && page < to)
            give(i);
    }
    slab_trim();
}

/* What is left of dead pages after as much upkeep as there may be. */
static size_t dead_after_upkeep(void) {
    for (unsigned turn = 0; turn < 3; turn++)
        turn_for_quiet();
    for (unsigned step = 0; step < 64; step++)
        slab_purge_pages_step(false, NULL);
    return look_at_pages().dead_bytes;
}

/* A huge page is split when an eighth of it can go, or when memory is short, or on request. */
static void test_huge_pages_are_not_split_for_little(void **state) {
    (void)state;
    if (os_page_size() > SLAB_BYTES / 16)
        skip();
    take_many(0, 1024);
    set_collapsed();
    give_pages(0, 1);
    size_t dead = look_at_pages().dead_bytes;
    assert_true(dead >= held.count * 1024 / 16);
    assert_int_equal(dead_after_upkeep(), dead);

    size_t soft = atomic_exchange(&limits_now.soft, limits_heap_bytes() / 2);
    assert_int_equal(dead_after_upkeep(), 0);
    atomic_store(&limits_now.soft, soft);

    set_collapsed();
    give_pages(1, 2);
    assert_true(dead_after_upkeep() > 0);
    assert_purge();

    /* All but what lies in SuperSlabs that others share. */
    set_collapsed();
    give_pages(2, 6);
    assert_true(dead_after_upkeep() <= 4 * dead / 2);
    assert_purge();
    give_rest();
}

/* Takes a slab's worth of blocks of another class, a few milliseconds apart, and keeps them. */
static void *grown[64][16];
static void grow(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++) {
        assert_int_equal(slab_take(0, class_of(4096), grown[i], 16, NULL), 16);
        os_sleep_ms(2);
    }
}

static void shrink(unsigned to) {
    for (unsigned i = 0; i < to; i++)
        slab_give(class_of(4096), grown[i], 16);
    slab_trim();
}

/* Slabs of one class that have not changed since the last look; returns what could be purged. */
static size_t leave_quiet_slabs(void) {
    take_many(0, 1024);
    give_most(6);
    slab_trim();
    span_purge_all();
    turn_for_quiet();
    return look_at_pages().dead_bytes;
}

/* A heap that grows gives pages of quiet slabs for it; one that takes a slab now and then
 * does not, and in speed none does. */
static void test_growth_trades_pages(void **state) {
    (void)state;
    size_t dead = leave_quiet_slabs();
    os_sleep_ms(STEADY_MS);
    grow(0, 2);
    assert_int_equal(look_at_pages().dead_bytes, dead);
    options_parse("profile=speed");
    grow(2, 20);
    assert_int_equal(look_at_pages().dead_bytes, dead);
    options_parse("profile=balanced");
    grow(20, 64);
    assert_int_equal(look_at_pages().dead_bytes, 0);
    shrink(64);
    give_rest();
}

/* The same, but the quiet slabs are of a class in demand: their blocks will be wanted next. */
static void test_growth_spares_a_class_in_demand(void **state) {
    (void)state;
    size_t dead = leave_quiet_slabs();
    void *taken[64];
    for (unsigned i = 0; i < 64; i++) {
        grow(i, i + 1);
        for (unsigned k = 0; k < 64; k++)
            assert_int_equal(slab_take(0, held.class, &taken[k], 1, NULL), 1);
        slab_give(held.class, taken, 64);
    }
    size_t left = look_at_pages().dead_bytes;
    assert_true(left > 0 || dead == 0);
    assert_true(left + (size_t)2 * SLAB_BYTES >=
                dead); /* but for what became of the slab at work */
    shrink(64);
    give_rest();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet_slabs),
        cmocka_unit_test(test_huge_pages_are_not_split_for_little),
        cmocka_unit_test(test_growth_trades_pages),
        cmocka_unit_test(test_growth_spares_a_class_in_demand),
        cmocka_unit_test(test_upkeep_spares_the_next),
    };
    return cmocka_run_group_tests(tests, start_population, NULL);
}
