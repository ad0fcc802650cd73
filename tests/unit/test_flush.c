/* Every check of a flush, by a child that must die of it: class, shard, exact
 * multiple of the size, index below the capacity, bit not set. Then what happens
 * around a fork, where some things are looked at and others left alone. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "slab/pool.h"

enum { SHARDS = 3 };

static int start(void **state) {
    (void)state;
    start_layers("shards=3", 512 * MIB);
    return 0;
}

static void *take(unsigned shard, unsigned class) {
    void *block;
    assert_int_equal(slab_take(shard, class, &block, 1, NULL), 1);
    return block;
}

static void give(unsigned class, void *block) { slab_give(class, &block, 1); }

struct giving {
    unsigned class;
    void *blocks[20];
    unsigned count;
};

static void give_it(void *context) {
    struct giving *giving = context;
    slab_give(giving->class, giving->blocks, giving->count);
}

#define ASSERT_GIVING_DIES(class_, block_, ...)                                                    \
    do {                                                                                           \
        struct giving giving = {.class = (class_), .blocks = {(block_)}, .count = 1};              \
        assert_dies(give_it, &giving, __VA_ARGS__, NULL);                                          \
    } while (0)

/* Exact multiple of the block size. */
static void test_dies_of_interior_pointer(void **state) {
    (void)state;
    unsigned class = class_of(48);
    char *block = take(0, class);
    ASSERT_GIVING_DIES(class, block + 16, "hakmem: invalid pointer: free(", "inside block",
                       "size class 48", "not its start");
    ASSERT_GIVING_DIES(class, block + 8, "hakmem: misaligned pointer: free(");
    ASSERT_GIVING_DIES(class, block + 1, "hakmem: misaligned pointer: free(");
    give(class, block);
}

/* Index below the capacity. */
static void test_dies_behind_the_last_block(void **state) {
    (void)state;
    unsigned class = class_of(48);
    char *block = take(0, class);
    struct span *span = span_of(block);
    char *tail = span->start + (size_t)span->capacity * class_size(class);
    assert_true(tail < span->start + span_bytes(span));
    ASSERT_GIVING_DIES(class, tail, "hakmem: invalid pointer: free(", "behind the last block",
                       "size class 48");
    give(class, block);
}

/* Bit not set. */
static void test_dies_of_second_free(void **state) {
    (void)state;
    unsigned class = class_of(48);
    void *other = take(0, class); /* keeps the slab alive */
    void *block = take(0, class);
    give(class, block);
    ASSERT_GIVING_DIES(class, block, "hakmem: double free: free(", "48 bytes", "is free already");
    /* Both in one batch. */
    block = take(0, class);
    struct giving twice = {.class = class, .blocks = {block, other, block}, .count = 3};
    assert_dies(give_it, &twice, "hakmem: double free: free(", "is free already", NULL);
    give(class, block);
    give(class, other);
}

/* Neighbours of one slab go home together: the one among them that is free is named. */
static void test_dies_of_one_among_neighbours(void **state) {
    (void)state;
    unsigned class = class_of(48);
    enum { COUNT = 20, FREE = 7 };
    void *down[COUNT];
    void *up[COUNT];
    assert_int_equal(slab_take(0, class, down, COUNT, NULL), COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        up[i] = down[COUNT - 1 - i];
    give(class, down[FREE]);
    char name[32];
    snprintf(name, sizeof name, "free(%p)", down[FREE]);
    struct giving upwards = {.class = class, .count = COUNT};
    struct giving downwards = {.class = class, .count = COUNT};
    memcpy(upwards.blocks, up, sizeof up);
    memcpy(downwards.blocks, down, sizeof down);
    assert_dies(give_it, &upwards, "hakmem: double free: ", name, "is free already", NULL);
    assert_dies(give_it, &downwards, "hakmem: double free: ", name, "is free already", NULL);
    uint64_t given = slab_stats(class).given;
    slab_reclaim(class, down, COUNT); /* steps over it */
    assert_int_equal(slab_stats(class).given, given + COUNT - 1);
}

/* What lies behind the last block is no neighbour of it. */
static void test_dies_behind_a_neighbour(void **state) {
    (void)state;
    static void *blocks[SLAB_BYTES / 48];
    unsigned class = class_of(48);
    unsigned capacity = size_classes[class].capacity;
    assert_int_equal(slab_take(0, class, blocks, capacity, NULL), capacity);
    char *tail = span_of(blocks[0])->start + capacity * class_size(class);
    assert_ptr_equal(blocks[0], tail - class_size(class));
    struct giving ends = {.class = class, .blocks = {blocks[0], tail}, .count = 2};
    assert_dies(give_it, &ends, "hakmem: invalid pointer: free(", "behind the last block", NULL);
    slab_give(class, blocks, capacity);
}

/* A block of which the slab never had any in use is no different. */
static void test_dies_of_block_never_taken(void **state) {
    (void)state;
    unsigned class = class_of(48);
    char *block = take(0, class);
    struct span *span = span_of(block);
    size_t last = (size_t)span->capacity - 1;
    ASSERT_GIVING_DIES(class, span->start + last * class_size(class), "hakmem: double free: free(",
                       "is free already");
    give(class, block);
}

/* Class: the slab serves another by now, and its live block is not touched. */
static void test_dies_of_wrong_class(void **state) {
    (void)state;
    unsigned old_class = class_of(60000);
    void *stale = take(0, old_class);
    give(old_class, stale);
    slab_trim();
    ASSERT_GIVING_DIES(old_class, stale, "hakmem: double free: free(", "its slab given back since");
    unsigned new_class = class_of(57344);
    assert_int_not_equal(new_class, old_class);
    void *live[8];
    unsigned got = slab_take(0, new_class, live, 8, NULL);
    ASSERT_GIVING_DIES(old_class, live[got - 1], "hakmem: double free: free(",
                       "its slab given back since");
    slab_give(new_class, live, got);
}

/* Shard: not a reason to die, but to look elsewhere. */
static void test_wrong_shard_goes_home(void **state) {
    (void)state;
    unsigned class = class_of(896);
    void *mine = take(0, class);
    struct span *span = span_of(mine);
    void *theirs = take(1, class); /* adopts the slab */
    assert_ptr_equal(span_of(theirs), span);
    assert_int_equal(home_shard(span_home(span)), 1);
    void *both[] = {mine, theirs};
    slab_give(class, both, 2);
    assert_int_equal(slab_stats(class).taken, slab_stats(class).given);
}

static void test_dies_of_foreign_pointer(void **state) {
    (void)state;
    unsigned class = class_of(64);
    static uint64_t foreign_word;
    ASSERT_GIVING_DIES(class, (char *)&foreign_word + 1, "hakmem: misaligned pointer: free(");
    static _Alignas(16) char foreign[64];
    ASSERT_GIVING_DIES(class, foreign, "hakmem: ");
}

/* --- fork ------------------------------------------------------------------------------- */

/* Between its handlers a forking thread passes all locks because it holds them. A
 * pool that it opens then is no exception: nobody else may enter until the fork's
 * last handler has released it. */
static void test_pool_opened_while_forking(void **state) {
    (void)state;
    unsigned class = class_of(5000);
    struct pool *pool = &pools[1][class];
    assert_false(atomic_load(&pool->is_open));
    os_lock_acquire(&pools_opening_lock);
    os_lock_pass_begin();
    void *block = take(1, class);
    assert_true(atomic_load(&pool->is_open));
    os_lock_pass_end();
    assert_false(os_lock_try(&pool->lock));
    os_lock_release(&pool->lock);
    os_lock_release(&pools_opening_lock);
    give(class, block);
    assert_true(os_lock_try(&pool->lock));
    os_lock_release(&pool->lock);
}

/* A pool that is not open has no lock that fork would reset: asking for figures
 * must not open it, nor take its lock. */
static void test_figures_open_nothing(void **state) {
    (void)state;
    unsigned class = class_of(7000);
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        assert_false(atomic_load(&pools[shard][class].is_open));
        assert_true(os_lock_try(&pools[shard][class].lock));
    }
    assert_int_equal(slab_stats(class).taken, 0);
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        assert_false(atomic_load(&pools[shard][class].is_open));
        os_lock_release(&pools[shard][class].lock);
    }
}

/* --- reclaiming: what nobody vouches for ------------------------------------------------------ */

static void test_reclaim_steps_over_bad_ones(void **state) {
    (void)state;
    unsigned class = class_of(320);
    void *keeper = take(0, class);
    char *good = take(0, class);
    void *freed = take(0, class);
    give(class, freed);
    static _Alignas(16) char foreign[64];
    uint64_t given = slab_stats(class).given;
    void *blocks[] = {foreign, freed, good + 16, NULL, good, foreign, good};
    slab_reclaim(class, blocks, sizeof blocks / sizeof blocks[0]);
    assert_int_equal(slab_stats(class).given, given + 1);
    give(class, keeper);
    assert_int_equal(slab_stats(class).taken, slab_stats(class).given);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dies_of_interior_pointer),
        cmocka_unit_test(test_dies_behind_the_last_block),
        cmocka_unit_test(test_dies_of_second_free),
        cmocka_unit_test(test_dies_of_one_among_neighbours),
        cmocka_unit_test(test_dies_behind_a_neighbour),
        cmocka_unit_test(test_dies_of_block_never_taken),
        cmocka_unit_test(test_dies_of_wrong_class),
        cmocka_unit_test(test_wrong_shard_goes_home),
        cmocka_unit_test(test_dies_of_foreign_pointer),
        cmocka_unit_test(test_reclaim_steps_over_bad_ones),
        cmocka_unit_test(test_pool_opened_while_forking),
        cmocka_unit_test(test_figures_open_nothing),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
