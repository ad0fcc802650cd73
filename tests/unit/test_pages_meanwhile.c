/* Purging pages inside slabs in use: what may happen between claim and return, made to happen
 * there by the layer below, which asks the test before each call into the kernel, and by threads.
 */
#include "population.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

#include "os/system.h"
#include "refusals.h"
#include "slab/slab.h"

static void (*meanwhile)(void);

static bool call_meanwhile(enum os_call kind) {
    if (kind == OS_CALL_PURGE && meanwhile != NULL) {
        void (*act)(void) = meanwhile;
        meanwhile = NULL;
        act();
    }
    return false;
}

/* One slab whose upper half is live: the lower one is purged while act runs. */
static size_t purge_meanwhile(void (*act)(void)) {
    if (os_page_size() == SLAB_BYTES)
        skip();
    held.class = class_of(1024);
    held.count = 0;
    while (held.count < SLAB_BYTES / 1024)
        held.count += slab_take(0, held.class, held.blocks + held.count,
                                SLAB_BYTES / 1024 - held.count, NULL);
    for (unsigned i = 0; i < held.count; i++) {
        fill_block(held.blocks[i]);
        assert_ptr_equal(span_of(held.blocks[i]), span_of(held.blocks[0]));
        if ((uintptr_t)held.blocks[i] % SLAB_BYTES < SLAB_BYTES / 2)
            give(i);
    }
    meanwhile = act;
    refuses_call = call_meanwhile;
    size_t bytes = slab_purge_pages();
    refuses_call = NULL;
    assert_null(meanwhile);
    return bytes;
}

static void take_two(void) {
    void *taken[2];
    unsigned got = slab_take(0, held.class, taken, 1, NULL);
    got += slab_take(1, held.class, taken + 1, 1, NULL);
    assert_int_equal(got, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_ptr_not_equal(span_of(taken[i]), span_of(held.blocks[0]));
    slab_give(held.class, taken, 2);
}

static void test_claimed_blocks_are_not_taken(void **state) {
    (void)state;
    assert_int_equal(purge_meanwhile(take_two), SLAB_BYTES / 2);
    assert_int_equal(look_at_pages().dead_bytes, 0);
    give_rest();
}

static struct span *emptied;
static void give_upper_half(void) {
    emptied = span_of(held.blocks[0]);
    for (unsigned i = 0; i < held.count; i++) {
        if (held.blocks[i] != NULL)
            give(i);
    }
    assert_ptr_equal(span_of(emptied->start), emptied);
    assert_int_equal(slab_stats(held.class).slab_bytes, SLAB_BYTES);
}

static void test_slab_that_empties_waits_for_the_purge(void **state) {
    (void)state;
    assert_int_equal(purge_meanwhile(give_upper_half), SLAB_BYTES / 2);
    slab_trim();
    assert_int_equal(slab_stats(held.class).slab_bytes, 0);
    assert_null(span_of(emptied->start));
}

static void *adopted;
static void let_other_shard_adopt(void) {
    struct span *span = NULL;
    for (unsigned i = 0, given = 0; i < held.count && given < 24; i++) {
        if (held.blocks[i] == NULL)
            continue;
        span = span_of(held.blocks[i]);
        give(i);
        given++;
    }
    assert_int_equal(slab_take(1, held.class, &adopted, 1, NULL), 1);
    assert_ptr_equal(span_of(adopted), span);
    assert_int_equal(window_entry(adopted), slab_entry(1, held.class));
}

static void test_slab_that_moves_is_found(void **state) {
    (void)state;
    for (unsigned i = 0; i < POPULATION_MOST; i++)
        held.blocks[i] = NULL;
    size_t bytes = purge_meanwhile(let_other_shard_adopt);
    assert_int_equal(bytes, SLAB_BYTES / 2);
    slab_give(held.class, &adopted, 1);
    give_rest();
}

static void *twice;
static void give_twice(void) {
    void *block = twice;
    slab_give(held.class, &block, 1);
}

static void double_free_meanwhile(void *context) {
    twice = context;
    purge_meanwhile(give_twice);
}

static void test_second_free_is_seen(void **state) {
    (void)state;
    if (os_page_size() == SLAB_BYTES)
        skip();
    held.class = class_of(1024);
    void *block;
    assert_int_equal(slab_take(0, held.class, &block, 1, NULL), 1);
    void *lowest = block; /* it will be in the half that is purged */
    slab_give(held.class, &block, 1);
    assert_dies(double_free_meanwhile, lowest, "hakmem: double free: ", NULL);
    slab_trim();
}

/* All other blocks of the slab go, too, so that it becomes empty while a page is away. */
static void give_twice_and_rest(void) {
    give_twice();
    for (unsigned i = 1; i < held.count; i++)
        give(i);
}

static void double_free_empties_slab(void *context) {
    twice = context;
    meanwhile = give_twice_and_rest;
    refuses_call = call_meanwhile;
    slab_purge_pages();
}

static void take_slab_of_pages(void) {
    held.class = class_of(os_page_size());
    held.count = slab_take(0, held.class, held.blocks, SLAB_BYTES / (unsigned)os_page_size(), NULL);
    assert_int_equal(held.count, SLAB_BYTES / os_page_size());
    for (unsigned i = 0; i < held.count; i++) {
        fill_block(held.blocks[i]);
        assert_ptr_equal(span_of(held.blocks[i]), span_of(held.blocks[0]));
    }
}

/* The empty slab goes at first, and stays once its class is busy. */
static void test_second_free_is_seen_in_an_empty_slab(void **state) {
    (void)state;
    if (os_page_size() == SLAB_BYTES)
        skip();
    for (unsigned turn = 0; turn < 6; turn++) {
        take_slab_of_pages();
        void *block = held.blocks[0];
        give(0);
        assert_dies(double_free_empties_slab, block, "hakmem: double free: ", NULL);
        give_rest();
    }
}

/* --- threads -------------------------------------------------------------------------- */

enum { WORKERS = 3, WORKER_BLOCKS = 600, PURGES = 300, BATCH = 8 };
static atomic_bool is_over;

/* First and last word of a block say whose it is. */
static void sign(uint64_t *block, size_t size, uint64_t owner) {
    block[0] = owner ^ (uintptr_t)block;
    block[size / 8 - 1] = owner ^ (uintptr_t)block;
}

static bool is_signed(const uint64_t *block, size_t size, uint64_t owner) {
    uint64_t mark = owner ^ (uintptr_t)block;
    return block[0] == mark && block[size / 8 - 1] == mark;
}

/* Counts up and down, so that pages become wholly free and serve again. */
static void *take_and_give(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    uint64_t chance = number;
    unsigned own_class = class_of(number == 0 ? 6000 : 512);
    size_t size = class_size(own_class);
    void *own[WORKER_BLOCKS];
    unsigned owned = 0;
    bool is_growing = true;
    bool all_whole = true;
    while (!atomic_load(&is_over)) {
        is_growing = owned == 0 || (is_growing && owned + BATCH <= WORKER_BLOCKS);
        if (is_growing) {
            unsigned got = slab_take(number % 2, own_class, own + owned, BATCH, NULL);
            for (unsigned i = owned; i < owned + got; i++)
                sign(own[i], size, number);
            owned += got;
        } else {
            unsigned i = (unsigned)random_below(&chance, owned);
            void *block = own[i];
            own[i] = own[--owned];
            all_whole &= is_signed(block, size, number);
            slab_give(own_class, &block, 1);
        }
    }
    for (unsigned i = 0; i < owned; i++)
        all_whole &= is_signed(own[i], size, number);
    slab_give(own_class, own, owned);
    return all_whole ? argument : &is_over;
}

static void test_threads_go_on_meanwhile(void **state) {
    (void)state;
    pthread_t threads[WORKERS];
    for (uintptr_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, (void *)i), 0);
    size_t wanted_bytes = os_page_size() < SLAB_BYTES ? 4 * MIB : 0;
    size_t bytes = 0;
    for (unsigned i = 0; i < PURGES || bytes < wanted_bytes; i++)
        bytes += slab_purge_pages() + slab_purge_pages_step(false, NULL);
    atomic_store(&is_over, true);
    for (uintptr_t i = 0; i < WORKERS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, (void *)i);
    }
    slab_trim();
    static const size_t used[] = {512, 6000};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(slab_stats(class_of(used[i])).slab_bytes, 0);
        assert_int_equal(slab_stats(class_of(used[i])).taken, slab_stats(class_of(used[i])).given);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claimed_blocks_are_not_taken),
        cmocka_unit_test(test_slab_that_empties_waits_for_the_purge),
        cmocka_unit_test(test_slab_that_moves_is_found),
        cmocka_unit_test(test_second_free_is_seen),
        cmocka_unit_test(test_second_free_is_seen_in_an_empty_slab),
        cmocka_unit_test(test_threads_go_on_meanwhile),
    };
    return cmocka_run_group_tests(tests, start_population, NULL);
}
