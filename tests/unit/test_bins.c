/* Bins of a thread's own row: how they grow, shrink and go home. Run once a profile:
 * unit_bins PROFILE. */
#include "support.h"

#include <string.h>

#include "cache/bins.h"
#include "os/options.h"
#include "threads.h"

enum { SHARDS = 3, BLOCKS = 3000 };

static const char *profile_name;
static uint64_t seed = 1;
static void *blocks[BLOCKS];

static int start(void **state) {
    (void)state;
    start_threads(profile_name, SHARDS);
    return 0;
}

/* Misses make a bin grow up to what the profile allows, in use from both ends. */
static void test_bins_grow(void **state) {
    (void)state;
    struct thread *thread = busy_thread();
    unsigned class = class_of(64);
    assert_int_equal(own_capacity(thread, class), 0);
    unsigned before = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = thread_malloc(thread, class);
        assert_true(own_capacity(thread, class) >= before);
        before = own_capacity(thread, class);
    }
    assert_int_equal(before, own_capacity_most(class));
    uint64_t given = slab_stats(class).given;
    for (int i = 0; i < BLOCKS; i++)
        thread_free(thread, blocks[i]);
    assert_int_equal(blocks_held(class), 0);
    assert_true(slab_stats(class).given > given);
    assert_in_range(own_count(thread, class), 1, own_capacity_most(class));
    assert_thread_is_sound(thread);
    thread_end(thread);
}

/* While a shard grows for one class, the small bins of others that lie idle go home:
 * their slabs need not be kept for them. Those in use keep what they have. */
static void test_growth_flushes_idle_bins(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned idle = class_of(144);
    for (int i = 0; i < 400; i++)
        blocks[i] = thread_malloc(thread, idle);
    for (int i = 0; i < 400; i++)
        thread_free(thread, blocks[i]);
    assert_true(own_count(thread, idle) != 0);
    unsigned grows = class_of(4000);
    void *kept[200];
    for (int i = 0; i < 200; i++)
        kept[i] = thread_malloc(thread, grows);
    assert_int_equal(own_count(thread, idle), 0);
    assert_true(own_capacity(thread, idle) != 0);
    assert_thread_is_sound(thread);
    for (int i = 0; i < 200; i++)
        thread_free(thread, kept[i]);
    thread_end(thread);
}

/* Two steps of growth empty an idle bin, which then misses. Whether it has become larger. */
static bool grows_after_growth(bool by_chance, unsigned class) {
    struct thread *thread = registry_add();
    thread_free(thread, thread_malloc(thread, class));
    unsigned before = own_capacity(thread, class);
    for (int step = 0; step < 2; step++) {
        if (by_chance)
            thread->grew_ms = 0;
        bins_note_growth(thread, class, 2);
    }
    assert_int_equal(own_count(thread, class), 0);
    thread_free(thread, thread_malloc(thread, class));
    unsigned after = own_capacity(thread, class);
    assert_thread_is_sound(thread);
    thread_end(thread);
    return after > before;
}

/* Where nothing has grown for long, a bin that growth emptied misses because of that, and stays as
 * large. In a heap that grows it becomes larger, for its runs of blocks would be short. */
static void test_bins_emptied_by_chance_stay_as_large(void **state) {
    (void)state;
    assert_true(grows_after_growth(false, class_of(160)));
    assert_false(grows_after_growth(true, class_of(144)));
}

/* One that has allocated a little keeps little, whatever the budget; use earns it more. */
static void test_use_earns_room(void **state) {
    (void)state;
    enum { A_LITTLE = 100, LITTLE_BYTES = 12 * 1024, MUCH = 400 };
    struct thread *thread = registry_add();
    thread->moved_bytes = 0;
    for (int i = 0; i < A_LITTLE; i++)
        blocks[i] = thread_malloc(thread, class_of(16 + random_below(&seed, 1001)));
    for (int i = 0; i < A_LITTLE; i++)
        thread_free(thread, blocks[i]);
    assert_in_range(thread->limit_bytes, 1, LITTLE_BYTES);
    for (int round = 0; round < MUCH; round++) {
        for (int i = 0; i < A_LITTLE; i++)
            blocks[i] = thread_malloc(thread, class_of(16 + random_below(&seed, 1001)));
        for (int i = 0; i < A_LITTLE; i++)
            thread_free(thread, blocks[i]);
    }
    assert_true(thread->limit_bytes > (size_t)2 * LITTLE_BYTES);
    assert_thread_is_sound(thread);
    thread_end(thread);
}

/* What was freed last is handed out first. */
static void test_last_in_first_out(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned class = class_of(200);
    void *first = thread_malloc(thread, class);
    void *second = thread_malloc(thread, class);
    thread_free(thread, first);
    thread_free(thread, second);
    assert_ptr_equal(thread_malloc(thread, class), second);
    assert_ptr_equal(thread_malloc(thread, class), first);
    thread_free(thread, first);
    thread_free(thread, second);
    thread_end(thread);
}

/* A flush sends home the older half: what is hot stays. */
static void test_flush_keeps_the_newest(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned class = class_of(64);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = thread_malloc(thread, class);
    cache_flush(thread);
    for (int i = 0; i < BLOCKS; i++) {
        thread_free(thread, blocks[i]);
        void **top = bin_top(own_bin(thread, class));
        for (int kept = 0; kept <= i && kept < (int)own_count(thread, class); kept++)
            assert_ptr_equal(top[-kept], blocks[i - kept]);
    }
    thread_end(thread);
}

/* Misses move half a bin, but where one follows the other nearly all of it, until one comes of the
 * other kind. */
static void test_one_way_moves_more(void **state) {
    (void)state;
    enum { ALIKE = 8 };
    struct thread *thread = busy_thread();
    unsigned class = class_of(48);
    unsigned misses = 0, half = 0, full = 0, refills = 0;
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t taken = slab_stats(class).taken;
        blocks[i] = thread_malloc(thread, class);
        taken = slab_stats(class).taken - taken;
        unsigned capacity = own_capacity(thread, class);
        misses += taken != 0;
        unsigned most = misses <= ALIKE ? (capacity + 1) / 2 : capacity - capacity / 8;
        assert_true(taken <= most); /* a slab may have fewer left */
        refills += misses > ALIKE && taken == most;
    }
    assert_true(refills > 0);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned held = own_count(thread, class);
        uint64_t given = slab_stats(class).given;
        thread_free(thread, blocks[i]);
        given = slab_stats(class).given - given;
        if (given == 0)
            continue;
        bool is_half = half < ALIKE;
        assert_int_equal(given, is_half ? (held + 1) / 2 : held - held / 8);
        half += is_half;
        full += !is_half;
    }
    assert_true(full > 0);
    /* The next refill is one of half again. */
    cache_flush(thread);
    uint64_t taken = slab_stats(class).taken;
    blocks[0] = thread_malloc(thread, class);
    taken = slab_stats(class).taken - taken;
    assert_int_equal(taken, (own_capacity(thread, class) + 1) / 2);
    thread_free(thread, blocks[0]);
    assert_thread_is_sound(thread);
    thread_end(thread);
}

/* Bins that are not used make room for those that are. */
static void test_idle_bins_shrink(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    /* Every class in turn, each until its bin is as large as it gets. */
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        unsigned count = hak_min(4 * own_capacity_most(class), (unsigned)BLOCKS);
        for (unsigned i = 0; i < count; i++)
            blocks[i] = thread_malloc(thread, class);
        for (unsigned i = 0; i < count; i++)
            thread_free(thread, blocks[i]);
        assert_true(thread->limit_bytes <= registry_budget_bytes(thread));
    }
    assert_thread_is_sound(thread);
    unsigned shrunk = 0;
    for (unsigned class = 1; class < CLASS_COUNT; ++class)
        shrunk += own_capacity(thread, class) < own_capacity_most(class);
    assert_true(shrunk > 0);
    struct thread *const all[] = {thread};
    assert_all_accounted_for(all, 1);
    thread_end(thread);
}

/* What lies in a bin at rest goes home. One that is large enough never misses: that it is in use
 * shows in how many blocks it holds. */
static void test_bins_at_rest_go_home(void **state) {
    (void)state;
    enum { LOOKS = 8, FEW = 3 };
    struct thread *thread = busy_thread();
    unsigned resting = class_of(64), moving = class_of(96);
    for (unsigned i = 0; i < 2 * FEW; i++)
        blocks[i] = thread_malloc(thread, i < FEW ? resting : moving);
    for (unsigned i = 0; i < 2 * FEW; i++)
        thread_free(thread, blocks[i]);
    unsigned capacity = own_capacity(thread, resting);
    for (unsigned look = 0; look < LOOKS; look++) {
        if (look % 2 == 0)
            blocks[0] = thread_malloc(thread, moving);
        else
            thread_free(thread, blocks[0]);
        bins_age(thread);
        assert_true(own_count(thread, moving) != 0);
    }
    assert_int_equal(own_count(thread, resting), 0);
    assert_true(own_capacity(thread, resting) < capacity);
    assert_true(own_capacity(thread, moving) >= own_capacity(thread, resting));
    thread_end(thread);
}

/* A step that leaves the bins as it found them is seen all the same: the bin's blocks count as if
 * they had left a refill, and nothing else has changed. */
static void test_parked_bins_count(void **state) {
    (void)state;
    enum { STEPS = 50, PERIOD_MS = 100 };
    struct thread *thread = busy_thread();
    unsigned class = class_of(64);
    uint64_t now_ms = 0;
    void *kept = thread_malloc(thread, class);
    unsigned capacity = own_capacity(thread, class);
    for (unsigned step = 0; step < STEPS; step++) {
        /* With a block in use and without: the next call is a free, or a malloc. */
        void *block = step % 2 == 0 ? thread_malloc(thread, class) : NULL;
        unsigned held = own_count(thread, class);
        uint64_t taken = slab_stats(class).taken;
        int64_t until_guard = thread->until_guard;
        uint64_t unparked = atomic_load(&cache_unparked[class]);
        bins_park(thread, now_ms += PERIOD_MS);
        assert_true(held != 0);
        assert_int_equal(own_count(thread, class), 0);
        assert_thread_is_sound(thread);
        if (block != NULL)
            thread_free(thread, block);
        thread_free(thread, thread_malloc(thread, class));
        assert_int_equal(until_guard - thread->until_guard, held);
        assert_int_equal(atomic_load(&cache_unparked[class]) - unparked, held);
        assert_int_equal(own_count(thread, class), held + (block != NULL));
        assert_int_equal(own_capacity(thread, class), capacity);
        assert_int_equal(slab_stats(class).taken, taken);
        assert_thread_is_sound(thread);
    }
    /* Not before there was time for it. */
    bins_park(thread, now_ms + 1);
    assert_true(own_count(thread, class) != 0);
    thread_free(thread, kept);
    thread_end(thread);
}

/* What looks through all bins finds the blocks of parked ones, too. */
static void test_parked_bins_go_home(void **state) {
    (void)state;
    struct thread *thread = busy_thread();
    unsigned class = class_of(64);
    thread_free(thread, thread_malloc(thread, class));
    uint64_t there = slab_stats(class).taken - slab_stats(class).given;
    assert_true(own_count(thread, class) != 0);
    int64_t until_guard = thread->until_guard;
    uint64_t unparked = atomic_load(&cache_unparked[class]);
    bins_park(thread, UINT64_MAX);
    cache_flush(thread);
    assert_int_equal(own_count(thread, class), 0);
    /* Nobody has called for them. */
    assert_int_equal(thread->until_guard, until_guard);
    assert_int_equal(atomic_load(&cache_unparked[class]), unparked);
    assert_true(slab_stats(class).taken - slab_stats(class).given < there);
    assert_thread_is_sound(thread);
    thread_end(thread);
}

/* An empty one is shown full: the block of the next free counts, and stays. */
static void test_empty_parked_bins_count(void **state) {
    (void)state;
    struct thread *thread = busy_thread();
    unsigned class = class_of(64);
    void *block = thread_malloc(thread, class);
    cache_flush(thread);
    assert_int_equal(own_count(thread, class), 0);
    unsigned capacity = own_capacity(thread, class);
    for (unsigned round = 0; round < 2; round++) {
        int64_t until_guard = thread->until_guard;
        uint64_t unparked = atomic_load(&cache_unparked[class]);
        assert_true(cache_park(thread, class));
        assert_false(cache_park(thread, class));
        assert_null(bin_limit(own_bin(thread, class)));
        assert_thread_is_sound(thread);
        thread_free(thread, block);
        assert_int_equal(until_guard - thread->until_guard, 1);
        assert_int_equal(atomic_load(&cache_unparked[class]) - unparked, 1);
        assert_int_equal(own_count(thread, class), 1);
        assert_int_equal(own_capacity(thread, class), capacity);
        assert_ptr_equal(thread_malloc(thread, class), block);
    }
    /* Or a malloc comes first: its refill opens the bin. */
    assert_true(cache_park(thread, class));
    void *other = thread_malloc(thread, class);
    assert_non_null(bin_limit(own_bin(thread, class)));
    thread_free(thread, other);
    thread_free(thread, block);
    assert_thread_is_sound(thread);
    thread_end(thread);
}

/* Those of a class that is owed a guarded block have counted, and do not again. */
static void test_owed_bins_do_not_count_again(void **state) {
    (void)state;
    struct thread *thread = busy_thread();
    unsigned class = class_of(64);
    void *block = thread_malloc(thread, class);
    thread->owed_class = (uint16_t) class;
    int64_t until_guard = thread->until_guard;
    assert_true(cache_park(thread, class));
    thread_free(thread, block);
    assert_int_equal(thread->until_guard, until_guard);
    assert_true(cache_park(thread, class));
    thread_free(thread, thread_malloc(thread, class));
    assert_int_equal(thread->until_guard, until_guard);
    thread->owed_class = 0;
    thread_end(thread);
}

static unsigned count_parked(const struct thread *thread) {
    unsigned parked = 0;
    for (unsigned class = 1; class < CLASS_COUNT; ++class)
        parked += bin_parked(&thread->infos[class]) != 0;
    return parked;
}

/* No more bins at once than time has passed for; the others in their turn. */
static void test_bins_are_parked_in_turn(void **state) {
    (void)state;
    enum { CLASSES = 40, PERIOD_MS = 10, TURNS = 10 };
    struct thread *thread = busy_thread();
    for (unsigned class = 1; class <= CLASSES; ++class)
        thread_free(thread, thread_malloc(thread, class));
    unsigned filled = 0; /* now: growth for one class may have emptied another's */
    for (unsigned class = 1; class <= CLASSES; ++class)
        filled += own_count(thread, class) != 0;
    assert_true(filled > PERIOD_MS);
    unsigned before = count_parked(thread); /* by those calls themselves */
    uint64_t now_ms = thread->parked_ms;
    for (unsigned turn = 1; turn <= TURNS; turn++) {
        bins_park(thread, now_ms += PERIOD_MS);
        assert_in_range(count_parked(thread), 0, before + turn * PERIOD_MS);
    }
    assert_true(count_parked(thread) >= filled);
    for (unsigned class = 1; class <= CLASSES; ++class)
        assert_int_equal(own_count(thread, class), 0);
    assert_thread_is_sound(thread);
    thread_end(thread);
}

/* Who gives back what it took long ago has no use for it: its bins go home when the heap
 * shrinks. One that has taken as much again of late keeps them. */
static void test_who_only_gives_lets_go(void **state) {
    (void)state;
    enum { GIVEN = 1000, BLOCK_BYTES = 2048, LEFT_BYTES = 16 * 1024 };
    unsigned given_class = class_of(BLOCK_BYTES);
    struct thread *thread = busy_thread();
    for (int i = 0; i < GIVEN; i++)
        blocks[i] = thread_malloc(thread, given_class);
    for (int i = 0; i < GIVEN; i++)
        thread_free(thread, blocks[i]);
    unsigned before = own_capacity(thread, given_class);
    assert_true(own_count(thread, given_class) != 0);
    bins_note_shrinking(thread);
    assert_int_equal(own_count(thread, given_class), 0);
    bool was_large = before * class_size(given_class) > LEFT_BYTES;
    assert_int_equal(own_capacity(thread, given_class), was_large ? before / 2 : before);
    assert_thread_is_sound(thread);

    for (int i = 0; i < GIVEN; i++)
        blocks[i] = thread_malloc(thread, given_class);
    thread_free(thread, blocks[0]);
    unsigned held = own_count(thread, given_class);
    bins_note_shrinking(thread);
    assert_int_equal(own_count(thread, given_class), held);
    assert_true(held != 0);
    for (int i = 1; i < GIVEN; i++)
        thread_free(thread, blocks[i]);
    thread_end(thread);
}

/* Bins of large blocks do not push out those of small ones, however little these miss. */
static void test_small_bins_stay(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned small = class_of(64);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = thread_malloc(thread, small);
    for (int i = 0; i < BLOCKS; i++)
        thread_free(thread, blocks[i]);
    unsigned before = own_capacity(thread, small);
    for (unsigned class = class_of(16384); class < CLASS_COUNT; ++class) {
        for (int i = 0; i < 32; i++)
            thread_free(thread, thread_malloc(thread, class));
    }
    assert_int_equal(own_capacity(thread, small), before);
    assert_true(thread->limit_bytes <= registry_budget_bytes(thread));
    assert_thread_is_sound(thread);
    thread_end(thread);
}

static void replace_blocks(struct thread *thread, int steps) {
    enum { SLOTS = 256 };
    for (int i = 0; i < steps; i++) {
        uint64_t slot = random_below(&seed, SLOTS);
        if (blocks[slot] != NULL)
            thread_free(thread, blocks[slot]);
        blocks[slot] = thread_malloc(thread, class_of(16 + random_below(&seed, 1025)));
    }
}

/* Each profile lets a thread that is alone have bins for a mix of all small sizes. */
static void test_all_small_sizes_have_room(void **state) {
    (void)state;
    enum { STEPS = 100 * 1000 };
    memset(blocks, 0, sizeof blocks);
    struct thread *thread = busy_thread();
    replace_blocks(thread, STEPS);
    uint64_t slow_calls = slow_calls_made();
    replace_blocks(thread, STEPS);
    assert_true(slow_calls_made() - slow_calls < STEPS / 100);
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            thread_free(thread, blocks[i]);
    }
    assert_thread_is_sound(thread);
    thread_end(thread);
}

/* Large classes that take turns have no bins; one that comes again and again gets one. */
static void test_large_blocks_in_turn(void **state) {
    (void)state;
    enum { ROUNDS = 20 };
    struct thread *thread = busy_thread();
    unsigned last = class_of(CLASS_SIZE_MAX), first = last - 7;
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned class = first; class <= last; class ++)
            thread_free(thread, thread_malloc(thread, class));
    }
    for (unsigned class = first; class <= last; class ++) {
        assert_int_equal(own_capacity(thread, class), 0);
        assert_int_equal(slab_stats(class).slab_bytes, 0);
    }
    unsigned class = class_of(70000);
    for (int round = 0; round < ROUNDS; round++)
        thread_free(thread, thread_malloc(thread, class));
    assert_int_equal(own_count(thread, class), 1);
    assert_thread_is_sound(thread);
    thread_end(thread);
}

int main(int count, char **arguments) {
    profile_name = count > 1 ? arguments[1] : "balanced";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bins_grow),
        cmocka_unit_test(test_growth_flushes_idle_bins),
        cmocka_unit_test(test_bins_emptied_by_chance_stay_as_large),
        cmocka_unit_test(test_use_earns_room),
        cmocka_unit_test(test_last_in_first_out),
        cmocka_unit_test(test_flush_keeps_the_newest),
        cmocka_unit_test(test_one_way_moves_more),
        cmocka_unit_test(test_idle_bins_shrink),
        cmocka_unit_test(test_bins_at_rest_go_home),
        cmocka_unit_test(test_parked_bins_count),
        cmocka_unit_test(test_parked_bins_go_home),
        cmocka_unit_test(test_empty_parked_bins_count),
        cmocka_unit_test(test_owed_bins_do_not_count_again),
        cmocka_unit_test(test_bins_are_parked_in_turn),
        cmocka_unit_test(test_who_only_gives_lets_go),
        cmocka_unit_test(test_small_bins_stay),
        cmocka_unit_test(test_all_small_sizes_have_room),
        cmocka_unit_test(test_large_blocks_in_turn),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
