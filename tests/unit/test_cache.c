/* A thread's cache: law 5 (what threads hold is bounded) and law 6 (foreign blocks go home), what
 * modes rely on, and what happens without memory. Own bins: test_bins.c. Run once a profile:
 * unit_cache PROFILE. */
#include "support.h"

#include <string.h>

#include "cache/bins.h"
#include "os/options.h"
#include "refusals.h"
#include "span/arena.h"
#include "span/shard.h"
#include "threads.h"

enum { SHARDS = 3, THREADS = 5, BLOCKS = 3000, OPERATIONS = 100000, FOREIGN_MAX = 63 };

static const char *profile_name;
static uint64_t seed = 1;

static int start(void **state) {
    (void)state;
    start_threads(profile_name, SHARDS);
    return 0;
}

/* --- random use of several threads -------------------------------------------------- */

static struct thread *threads[THREADS];
static void *blocks[BLOCKS];

static unsigned random_class(void) {
    /* Small ones mostly; but all of them. */
    size_t most = random_below(&seed, 4) == 0 ? CLASS_SIZE_MAX : 4096;
    return class_of(1 + random_below(&seed, most >> random_below(&seed, 8)));
}

static void random_operation(void) {
    struct thread *thread = threads[random_below(&seed, THREADS)];
    /* Half of the slots stay with one thread: it finds its own blocks again. */
    size_t slot = random_below(&seed, BLOCKS);
    if (slot < BLOCKS / 2)
        thread = threads[slot % THREADS];
    if (blocks[slot] == NULL) {
        blocks[slot] = thread_malloc(thread, random_class());
        assert_non_null(blocks[slot]);
    } else {
        thread_free(thread, blocks[slot]);
        blocks[slot] = NULL;
    }
    if (random_below(&seed, 16) == 0)
        cache_tick(thread, false);
    assert_true(thread->limit_bytes <= options_profile()->cache_thread_max_bytes);
}

/* Law 5: all together within the total, and a little for each thread. */
static void assert_total_is_bounded(void) {
    enum { NOTED_LATER = 16 * 1024 };
    const struct hak_profile *profile = options_profile();
    size_t limits = 0;
    for (size_t t = 0; t < THREADS; t++)
        limits += threads[t]->limit_bytes;
    size_t little = profile->cache_thread_min_bytes + NOTED_LATER;
    assert_true(limits <= profile->cache_total_bytes + THREADS * little);
}

static void replace_thread(size_t i) {
    thread_end(threads[i]);
    threads[i] = registry_add();
    assert_non_null(threads[i]);
}

static void test_random_use(void **state) {
    (void)state;
    memset(blocks, 0, sizeof blocks);
    for (size_t i = 0; i < THREADS; i++)
        threads[i] = registry_add();
    for (int i = 0; i < OPERATIONS; i++) {
        random_operation();
        if (i % 1000 == 0) {
            for (size_t t = 0; t < THREADS; t++)
                assert_thread_is_sound(threads[t]);
            assert_all_accounted_for(threads, THREADS);
            assert_total_is_bounded();
        }
        if (i % 5000 == 4999)
            replace_thread(random_below(&seed, THREADS));
    }
    for (size_t slot = 0; slot < BLOCKS; slot++) {
        if (blocks[slot] != NULL)
            thread_free(threads[slot % THREADS], blocks[slot]);
        blocks[slot] = NULL;
    }
    for (size_t t = 0; t < THREADS; t++)
        thread_end(threads[t]);
    assert_all_accounted_for(NULL, 0);
}

/* --- the budget --------------------------------------------------------------------- */

static void miss_often(struct thread *thread, unsigned class, unsigned bursts) {
    for (unsigned burst = 0; burst < bursts; burst++) {
        for (int i = 0; i < 600; i++)
            blocks[i] = thread_malloc(thread, class);
        for (int i = 0; i < 600; i++)
            thread_free(thread, blocks[i]);
    }
}

/* What others may hold is not left for a thread, whether they ever call again or not; its
 * next misses keep to that. Threads without bins take nothing away. */
static void test_budget_is_what_others_leave(void **state) {
    (void)state;
    enum { OTHERS = 150, CLASSES = 40 };
    static struct thread *others[OTHERS];
    const struct hak_profile *profile = options_profile();
    struct thread *thread = busy_thread();
    for (unsigned class = 1; class <= CLASSES; ++class)
        miss_often(thread, class, 2);
    size_t alone = registry_budget_bytes(thread);
    size_t used_alone = thread->limit_bytes;
    assert_int_equal(alone, profile->cache_thread_max_bytes);
    for (int i = 0; i < OTHERS; i++)
        others[i] = registry_add();
    assert_int_equal(registry_budget_bytes(thread), alone);
    for (int i = 0; i < OTHERS; i++)
        registry_promise(others[i], profile->cache_total_bytes / OTHERS);
    size_t left = registry_budget_bytes(thread);
    assert_in_range(left, profile->cache_thread_min_bytes, alone - 1);
    assert_true(left == profile->cache_thread_min_bytes ||
                left <= profile->cache_total_bytes / OTHERS);
    assert_true(left < used_alone);
    for (int turn = 0; turn < 12; turn++) {
        for (unsigned class = 1; class <= CLASSES; ++class)
            miss_often(thread, class, 1);
    }
    assert_true(thread->limit_bytes <= left);
    assert_thread_is_sound(thread);
    for (int i = 0; i < OTHERS; i++) {
        registry_promise(others[i], 0);
        thread_end(others[i]);
    }
    assert_int_equal(registry_budget_bytes(thread), alone);
    thread_end(thread);
}

/* Takes so many blocks of each class, then gives them back. */
static void use_all(struct thread *thread, unsigned first, unsigned end, int each) {
    int count = 0;
    for (unsigned class = first; class < end; ++class) {
        for (int i = 0; i < each; i++)
            blocks[count++] = thread_malloc(thread, class);
    }
    while (count != 0)
        thread_free(thread, blocks[--count]);
}

/* Classes that were there first and have used up a thread's share make room for others. The numbers
 * are for the default profile. */
static void test_each_class_has_its_part(void **state) {
    (void)state;
    enum { OTHERS = 36, FIRST = 33, LATER = 45, END = 53, TURNS = 100, EACH = 100 };
    static struct thread *others[OTHERS];
    const struct hak_profile *profile = options_profile();
    if (strcmp(profile->name, "balanced") != 0)
        skip();
    for (int i = 0; i < OTHERS; i++)
        others[i] = registry_add();
    struct thread *thread = busy_thread();
    size_t share =
        (LATER - FIRST) * profile->cache_class_bytes; /* of which it may use 3/4 itself */
    registry_promise(others[0], profile->cache_total_bytes - 2 * share);
    size_t budget = registry_budget_bytes(thread);
    assert_true(budget <= share);
    for (unsigned class = FIRST; class < LATER; ++class)
        miss_often(thread, class, 4);
    assert_true(thread->limit_bytes > budget / 2);
    for (int turn = 0; turn < TURNS; turn++)
        use_all(thread, FIRST, END, EACH);
    unsigned open = 0;
    for (unsigned class = FIRST; class < END; ++class)
        open += thread->infos[class].base != NULL;
    assert_true(open >= (END - FIRST) * 3 / 4);
    assert_true(thread->limit_bytes <= budget);
    assert_thread_is_sound(thread);
    registry_promise(others[0], 0);
    for (int i = 0; i < OTHERS; i++)
        thread_end(others[i]);
    thread_end(thread);
}

/* One after the other fills its bins and sleeps: each gets less, and never nothing. */
static void test_sleepers_stay_within_the_total(void **state) {
    (void)state;
    enum { SLEEPERS = 200 };
    static struct thread *sleepers[SLEEPERS];
    const struct hak_profile *profile = options_profile();
    size_t promised = 0, least = 0;
    for (size_t i = 0; i < SLEEPERS; i++) {
        sleepers[i] = registry_add();
        size_t budget = registry_budget_bytes(sleepers[i]);
        assert_in_range(budget, profile->cache_thread_min_bytes, profile->cache_thread_max_bytes);
        registry_promise(sleepers[i], budget);
        promised += budget;
        least += hak_max(profile->cache_thread_min_bytes, profile->cache_total_bytes / (i + 1) / 4);
    }
    assert_true(promised <= profile->cache_total_bytes + least);
    for (size_t i = 0; i < SLEEPERS; i++) {
        registry_promise(sleepers[i], 0);
        thread_end(sleepers[i]);
    }
}

/* Sleepers that hold what a small heap's caches may hold leave the least to the others; of a heap
 * of 64 GiB there is enough for all. lean has no such part. */
static void test_a_large_heap_has_larger_caches(void **state) {
    (void)state;
    const struct hak_profile *profile = options_profile();
    struct thread *sleeper = registry_add();
    struct thread *thread = registry_add();
    registry_promise(sleeper, profile->cache_total_bytes);
    size_t least = registry_budget_bytes(thread);
    assert_true(least <= hak_max(profile->cache_thread_min_bytes, profile->cache_total_bytes / 8));
    size_t taken = arena_taken();
    atomic_store(&arena_hints.taken, 64 * GIB / SUPER_BYTES);
    size_t budget = registry_budget_bytes(thread);
    atomic_store(&arena_hints.taken, taken);
    assert_int_equal(budget,
                     profile->cache_heap_part == 0 ? least : profile->cache_thread_max_bytes);
    registry_promise(sleeper, 0);
    thread_end(sleeper);
    thread_end(thread);
}

/* --- foreign blocks ----------------------------------------------------------------- */

/* Law 6: they are never handed out by the thread that freed them, and go home in
 * one batch when their bin is full. */
static void test_foreign_blocks_go_home(void **state) {
    (void)state;
    struct thread *giver = registry_add();
    struct thread *taker = registry_add();
    assert_int_not_equal(giver->shard, taker->shard);
    unsigned class = class_of(96);
    unsigned capacity = FOREIGN_MAX / 2;
    /* So much of a slab that the taker's shard will not adopt it. */
    unsigned most = size_classes[class].capacity * 9u / 10;
    for (unsigned i = 0; i < most; i++)
        blocks[i] = thread_malloc(giver, class);
    uint64_t given = slab_stats(class).given;
    for (unsigned i = 0; i < capacity; i++)
        thread_free(taker, blocks[i]);
    assert_int_equal(slab_stats(class).given, given);
    assert_int_equal(blocks_cached(taker, class), capacity);
    assert_int_equal(own_count(taker, class), 0);
    void *own = thread_malloc(taker, class);
    assert_int_equal(entry_row(window_entry(own)), taker->shard);
    assert_int_equal(blocks_cached(taker, class) - own_count(taker, class), capacity);
    thread_free(taker, blocks[capacity]);
    assert_int_equal(slab_stats(class).given, given + capacity);
    thread_free(taker, own);
    for (unsigned i = capacity + 1; i < most; i++)
        thread_free(giver, blocks[i]);
    assert_thread_is_sound(taker);
    thread_end(giver);
    thread_end(taker);
    assert_all_accounted_for(NULL, 0);
}

/* A foreign bin that has been full grows where its thread has ample room, and halves where not. */
static void test_foreign_bin_grows(void **state) {
    (void)state;
    struct thread *giver = registry_add();
    struct thread *taker = registry_add();
    unsigned class = class_of(96);
    unsigned first = FOREIGN_MAX / 2;
    unsigned most = size_classes[class].capacity * 9u / 10;
    for (unsigned i = 0; i < most; i++)
        blocks[i] = thread_malloc(giver, class);
    taker->moved_bytes = 64 * MIB;
    uint64_t given = slab_stats(class).given;
    unsigned done = 0;
    while (done < first + FOREIGN_MAX)
        thread_free(taker, blocks[done++]);
    assert_int_equal(slab_stats(class).given, given + first);
    assert_int_equal(blocks_cached(taker, class), FOREIGN_MAX);
    assert_thread_is_sound(taker);
    taker->moved_bytes = 0;
    for (unsigned i = 0; i < first; i++)
        thread_free(taker, blocks[done++]);
    assert_int_equal(slab_stats(class).given, given + first + FOREIGN_MAX);
    assert_thread_is_sound(taker);
    thread_free(taker, blocks[done++]);
    assert_int_equal(slab_stats(class).given, given + first + FOREIGN_MAX + first);
    while (done < most)
        thread_free(giver, blocks[done++]);
    thread_end(giver);
    thread_end(taker);
    assert_all_accounted_for(NULL, 0);
}

/* And grows further where its thread only gives, until that takes again. */
static void test_foreign_bin_of_a_giver(void **state) {
    (void)state;
    struct thread *taker = registry_add();
    struct thread *giver = registry_add();
    unsigned class = class_of(512);
    unsigned first = 8; /* half of 8 KiB */
    unsigned all = first + FOREIGN_MAX + 2;
    for (unsigned i = 0; i < all; i++)
        blocks[i] = thread_malloc(taker, class);
    giver->moved_bytes = 64 * MIB;
    giver->surplus_bytes = 64 * MIB;
    uint64_t given = slab_stats(class).given;
    unsigned done = 0;
    while (done < first + FOREIGN_MAX)
        thread_free(giver, blocks[done++]);
    assert_int_equal(slab_stats(class).given, given + first);
    assert_int_equal(blocks_cached(giver, class), FOREIGN_MAX);
    assert_thread_is_sound(giver);
    giver->surplus_bytes = 0;
    thread_free(giver, blocks[done++]);
    assert_int_equal(slab_stats(class).given, given + first + FOREIGN_MAX);
    assert_thread_is_sound(giver);
    while (done < all)
        thread_free(taker, blocks[done++]);
    thread_end(taker);
    thread_end(giver);
    assert_all_accounted_for(NULL, 0);
}

/* Large ones go home one by one. */
static void test_large_foreign_blocks(void **state) {
    (void)state;
    struct thread *giver = registry_add();
    struct thread *taker = registry_add();
    unsigned class = class_of(8192);
    void *block = thread_malloc(giver, class);
    uint64_t given = slab_stats(class).given;
    thread_free(taker, block);
    assert_int_equal(slab_stats(class).given, given + 1);
    assert_int_equal(taker->foreign_rows, 0);
    thread_end(giver);
    thread_end(taker);
}

/* --- what modes rely on ------------------------------------------------------------- */

/* Any thread may close a bin; the owner's next free finds it so and opens it again. */
static void test_closed_bin_opens_again(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned class = class_of(32);
    void *block = thread_malloc(thread, class);
    bin_set_limit(own_bin(thread, class), NULL);
    uint64_t slow_calls = slow_calls_made();
    thread_free(thread, block);
    assert_int_equal(slow_calls_made(), slow_calls + 1);
    assert_ptr_equal(bin_limit(own_bin(thread, class)),
                     thread->infos[class].base + own_capacity(thread, class));
    assert_ptr_equal(thread_malloc(thread, class), block);
    thread_free(thread, block);
    thread_end(thread);
}

static void test_shared_row_is_closed(void **state) {
    (void)state;
    for (unsigned i = 0; i < BIN_COUNT; i++) {
        const struct bin *bin = &cache_closed_row.bins[i];
        assert_null(*bin_top(bin));
        assert_true(bin_top(bin) >= bin_limit(bin));
    }
}

static void test_zeroed(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned class = class_of(2048);
    unsigned char *kept[BLOCKS / 4];
    unsigned known = 0;
    slab_trim();
    span_purge_all();
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        bool is_zero;
        kept[i] = cache_take_zeroed(thread, class, &is_zero);
        assert_non_null(kept[i]);
        known += is_zero;
        for (size_t at = 0; is_zero && at < class_size(class); at++)
            assert_int_equal(kept[i][at], 0);
        kept[i][0] = kept[i][class_size(class) - 1] = 1;
        if (random_below(&seed, 2) == 0) {
            cache_give(thread, window_entry(kept[i]), kept[i]);
            kept[i] = NULL;
        }
    }
    assert_true(known > 0);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (kept[i] != NULL)
            cache_give(thread, window_entry(kept[i]), kept[i]);
    }
    thread_end(thread);
    assert_all_accounted_for(NULL, 0);
}

/* --- calls into the kernel ---------------------------------------------------------- */

static unsigned calls_made, calls_under_lock;

static bool is_held(const struct os_lock *lock) { return atomic_load(&lock->state) != LOCK_FREE; }

/* Asked before each call. Nobody else is here, so what is held is held by the caller. */
static bool note_locks(enum os_call kind) {
    bool held = false;
    for (unsigned shard = 0; shard < slab_shard_count(); shard++) {
        for (unsigned class = 1; class < CLASS_COUNT; ++class)
            held |= is_held(&pools[shard][class].lock);
        held |= is_held(&span_shards[shard].lock);
    }
    /* arena.c:grow, and metadata for descriptors. */
    bool is_known = kind == OS_CALL_RESERVE || kind == OS_CALL_COMMIT || kind == OS_CALL_ADVISE;
    held |= !is_known && is_held(&arena_lock);
    calls_made++;
    calls_under_lock += held;
    return false;
}

/* No thread waits for a slab or a span while another is in the kernel. */
static void test_no_call_under_a_lock(void **state) {
    (void)state;
    refuses_call = note_locks;
    struct thread *thread = busy_thread();
    /* Some blocks of one page and a half: the next page is asked for, unless it is there already,
     * as it may be in a slab that has served before: which one serves here would be chance. */
    slab_trim();
    span_purge_all();
    unsigned few = (unsigned)(os_page_size() * 3 / 2 / 1024);
    unsigned class = class_of(1024);
    for (unsigned i = 0; i < few; i++)
        memset(blocks[i] = thread_malloc(thread, class), 1, 1024);
    uint64_t populated = os_call_count(OS_CALL_POPULATE);
    bins_look_ahead(thread);
    bool looks_ahead = populate_wants_next(class) && kernel_populates();
    assert_true(!looks_ahead || os_call_count(OS_CALL_POPULATE) > populated);
    for (unsigned i = 0; i < few; i++)
        thread_free(thread, blocks[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = thread_malloc(thread, random_class());
        for (int i = 0; i < BLOCKS; i++)
            thread_free(thread, blocks[i]);
        cache_flush(thread);
        slab_trim();
        span_purge_all();
    }
    thread_end(thread);
    registry_release(1);
    refuses_call = NULL;
    assert_true(calls_made > 10);
    assert_int_equal(calls_under_lock, 0);
}

/* --- out of memory ------------------------------------------------------------------ */

static void test_out_of_memory(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned class = class_of(100000);
    size_t count = 0;
    refuse_kind(OS_CALL_KINDS);
    while (count < BLOCKS && (blocks[count] = thread_malloc(thread, class)) != NULL)
        count++;
    assert_true(count < BLOCKS);
    assert_thread_is_sound(thread);
    for (size_t i = 0; i < count; i++)
        thread_free(thread, blocks[i]);
    assert_thread_is_sound(thread);
    allow_all();
    void *block = thread_malloc(thread, class);
    assert_non_null(block);
    thread_free(thread, block);
    thread_end(thread);
    assert_all_accounted_for(NULL, 0);
}

int main(int count, char **arguments) {
    profile_name = count > 1 ? arguments[1] : "balanced";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_is_what_others_leave),
        cmocka_unit_test(test_each_class_has_its_part),
        cmocka_unit_test(test_sleepers_stay_within_the_total),
        cmocka_unit_test(test_a_large_heap_has_larger_caches),
        cmocka_unit_test(test_foreign_blocks_go_home),
        cmocka_unit_test(test_foreign_bin_grows),
        cmocka_unit_test(test_foreign_bin_of_a_giver),
        cmocka_unit_test(test_large_foreign_blocks),
        cmocka_unit_test(test_closed_bin_opens_again),
        cmocka_unit_test(test_shared_row_is_closed),
        cmocka_unit_test(test_zeroed),
        cmocka_unit_test(test_random_use),
        cmocka_unit_test(test_no_call_under_a_lock),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
