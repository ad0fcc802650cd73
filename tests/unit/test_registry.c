/* The registry of threads: which shard a thread gets, what becomes of the ended,
 * and of those that a fork left behind. And the mode that counts each call, whose
 * counts stay with the registry. */
#include "support.h"

#include <limits.h>
#include <string.h>

#include "modes/exact.h"
#include "modes/watch.h"
#include "os/calls.h"
#include "os/cgroup.h"
#include "os/options.h"
#include "span/limits.h"
#include "threads.h"

enum { SHARDS = 4, BLOCKS = 200 };

static int start(void **state) {
    (void)state;
    start_layers("shards=4", GIB);
    return 0;
}

static void test_emptiest_shard(void **state) {
    (void)state;
    struct thread *threads[3 * SHARDS];
    unsigned per_shard[SHARDS] = {0};
    for (unsigned i = 0; i < 3 * SHARDS; i++) {
        threads[i] = registry_add();
        per_shard[threads[i]->shard]++;
        assert_int_equal(registry_count(), i + 1);
        for (unsigned shard = 0; shard < SHARDS; shard++)
            assert_in_range(per_shard[shard], i / SHARDS, i / SHARDS + 1);
    }
    unsigned left = threads[5]->shard;
    thread_end(threads[5]);
    threads[5] = registry_add();
    assert_int_equal(threads[5]->shard, left);
    for (unsigned i = 0; i < 3 * SHARDS; i++)
        thread_end(threads[i]);
    assert_int_equal(registry_count(), 0);
}

/* A cgroup allows the time of two processors: threads born from now on use two shards,
 * unless the user has said how many there are to be. */
static void test_processors_of_a_cgroup(void **state) {
    (void)state;
    const struct cgroup_limits cgroup = {.memory_bytes = CGROUP_UNLIMITED, .processors = 2};
    struct thread *threads[2 * SHARDS];
    cgroup_test_limits = &cgroup;
    for (unsigned option = 0; option <= SHARDS; option += SHARDS) {
        hak_options.shards = option;
        limits_init();
        limits_expect(20 * MIB);
        unsigned used = 0;
        for (unsigned i = 0; i < 2 * SHARDS; i++) {
            threads[i] = registry_add();
            used |= 1u << threads[i]->shard;
        }
        assert_int_equal(used, option == 0 ? 0x3 : 0xf);
        for (unsigned i = 0; i < 2 * SHARDS; i++)
            thread_end(threads[i]);
    }
    cgroup_test_limits = NULL;
    hak_options.shards = SHARDS;
    limits_init();
}

/* What a thread leaves that has sent its blocks home, the next one takes over, all bins empty. */
static void test_structures_are_reused(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    for (unsigned class = 1; class < CLASS_COUNT; class += 7)
        thread_free(thread, thread_malloc(thread, class));
    thread_end(thread);
    struct thread *next = registry_add();
    assert_ptr_equal(next, thread);
    assert_int_equal(next->limit_bytes, 0);
    assert_thread_is_sound(next);
    thread_end(next);
}

static void use(struct thread *thread, unsigned class) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = thread_malloc(thread, class);
    for (int i = 0; i < BLOCKS; i++)
        thread_free(thread, blocks[i]);
}

static size_t resident(void *address, size_t bytes) {
    return os_resident_pages(address, align_up(bytes, os_page_size()));
}

/* Released, it keeps one page, and serves the next as any other does. */
static void test_released_structures_are_reused(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    struct thread *second = registry_add();
    for (unsigned class = 1; class < CLASS_COUNT; class += 2)
        use(thread, class);
    uint64_t slow_calls = registry_slow_calls();
    void **chunk = thread->chunks[0];
    size_t rows_bytes = sizeof thread->cache.rows;
    assert_true(thread->chunks_used > 2);
    bool has_own_pages = os_page_size() <= SLOT_CHUNK_MIN_BYTES; /* the chunk */
    assert_true(resident(thread, rows_bytes) > 0);
    assert_true(!has_own_pages || resident(chunk, SLOT_CHUNK_MIN_BYTES) > 0);
    thread_end(second);
    thread_end(thread);
    registry_release(1);
    assert_int_equal(resident(thread, rows_bytes), 0);
    assert_true(!has_own_pages || resident(chunk, SLOT_CHUNK_MIN_BYTES) == 0);
    assert_true(resident(second, rows_bytes) > 0);
    assert_int_equal(registry_slow_calls(), slow_calls);
    /* Those with their pages come first: this one last of all that other tests left. */
    assert_ptr_equal(registry_add(), second);
    struct thread *others[4 * SHARDS];
    unsigned count = 0;
    while (count < 4 * SHARDS && (others[count] = registry_add()) != thread)
        count++;
    assert_true(count < 4 * SHARDS);
    assert_thread_is_sound(thread);
    for (unsigned class = 1; class < CLASS_COUNT; class += 2)
        use(thread, class);
    assert_ptr_equal(thread->chunks[0], chunk);
    assert_thread_is_sound(thread);
    thread_end(thread);
    thread_end(second);
    while (count != 0)
        thread_end(others[--count]);
    registry_release(UINT_MAX);
    assert_int_equal(resident(thread, rows_bytes) + resident(second, rows_bytes), 0);
    assert_all_accounted_for(NULL, 0);
}

static void test_no_memory_for_a_thread(void **state) {
    (void)state;
    struct thread *hoard[64];
    unsigned count = 0;
    refuse_kind(OS_CALL_KINDS);
    while (count < 64 && (hoard[count] = registry_add()) != NULL)
        count++;
    assert_true(count < 64);
    assert_int_equal(registry_count(), count);
    allow_all();
    hoard[count] = registry_add();
    assert_non_null(hoard[count++]);
    while (count != 0)
        thread_end(hoard[--count]);
}

static void count_thread(const struct thread *thread, void *context) {
    (void)thread;
    ++*(unsigned *)context;
}

/* --- caches that rest --------------------------------------------------------------------- */

static size_t lost_blocks(unsigned class) {
    struct class_stats stats = slab_stats(class);
    return stats.taken - stats.given - blocks_held(class);
}

static void assert_registry_is_whole(void) {
    struct finding finding = {0};
    assert_true(registry_check(&finding));
}

/* The next thread goes on where the last one ended, but its large blocks are at home, and its
 * foreign ones: their bins would promise memory to who does not meet those shards. */
static void test_a_cache_rests(void **state) {
    (void)state;
    unsigned small = class_of(144), large = class_of(100 * KIB);
    struct thread *thread = registry_add(), *other = registry_add();
    assert_int_not_equal(thread->shard, other->shard);
    use(thread, small);
    use(thread, large);
    thread_free(thread, thread_malloc(other, small));
    unsigned held = own_count(thread, small);
    assert_true(held > 0 && own_count(thread, large) > 0);
    assert_int_equal(blocks_cached(thread, small), held + 1);
    assert_true(registry_rest(thread));
    assert_true(registry_has_resting());
    assert_int_equal(registry_count(), 1);
    assert_registry_is_whole();
    assert_int_equal(blocks_cached(thread, small), held);
    assert_int_equal(blocks_cached(thread, large), 0);
    assert_int_equal(thread->foreign_rows, 0);
    assert_int_equal(thread->limit_bytes, own_capacity(thread, small) * class_size(small) +
                                              own_capacity(thread, large) * class_size(large));
    unsigned visited = 0, with_it = 0;
    registry_visit(count_thread, &visited);
    struct thread *next = registry_add();
    registry_visit(count_thread, &with_it);
    assert_int_equal(visited, with_it);
    assert_ptr_equal(next, thread);
    assert_int_equal(own_count(next, small), held);
    assert_thread_is_sound(next);
    assert_false(registry_has_resting());
    thread_end(next);
    thread_end(other);
    assert_int_equal(lost_blocks(small) + lost_blocks(large), 0);
}

static void assert_registry_says(const char *text) {
    struct finding finding = {0};
    assert_false(registry_check(&finding));
    assert_non_null(strstr(finding.text, text));
}

/* What rests is looked at, and its bins, which are nobody's. */
static void test_what_rests_is_checked(void **state) {
    (void)state;
    unsigned class = class_of(144);
    struct thread *thread = registry_add();
    use(thread, class);
    assert_true(registry_rest(thread));
    assert_registry_is_whole();
    registry_resting_count++;
    assert_registry_says("not as many as noted");
    registry_resting_count--;
    thread->cache.thread = NULL;
    assert_registry_says("is not its own");
    thread->cache.thread = thread;
    struct row *own = thread->own;
    unsigned shard = thread->shard;
    thread->shard = (shard + 1) % SHARDS;
    thread->own = &thread->cache.rows[thread->shard];
    assert_registry_says("rests in shard");
    thread->shard = shard;
    thread->own = own;
    void **base = thread->infos[class].base, *first = base[1];
    base[1] = base[2];
    assert_registry_says("is in a bin");
    base[1] = first;
    assert_registry_is_whole();
    assert_false(registry_settle(UINT64_MAX));
}

/* One a shard; where threads are as few, the next one goes where one rests. */
static void test_one_cache_rests_a_shard(void **state) {
    (void)state;
    struct thread *threads[2 * SHARDS];
    for (unsigned i = 0; i < 2 * SHARDS; i++)
        threads[i] = registry_add();
    for (unsigned i = 0; i < 2 * SHARDS; i++) {
        bool is_first = true;
        for (unsigned j = 0; j < i; j++)
            is_first &= threads[j]->shard != threads[i]->shard;
        assert_int_equal(registry_rest(threads[i]), is_first);
        if (!is_first)
            thread_end(threads[i]);
    }
    assert_registry_is_whole();
    assert_int_equal(registry_count(), 0);
    struct thread *next = registry_add();
    assert_false(registry_settle(UINT64_MAX));
    assert_true(registry_rest(next));
    struct thread *last = registry_add();
    assert_ptr_equal(last, next);
    thread_end(last);
}

/* Those that nobody takes over go home when free pages would. */
static void test_rest_ends(void **state) {
    (void)state;
    unsigned class = class_of(144);
    uint64_t decay_ms = options_profile()->decay_ms;
    struct thread *thread = registry_add();
    use(thread, class);
    assert_true(registry_rest(thread));
    assert_true(registry_settle(thread->rests_since_ms + decay_ms - 1));
    assert_true(lost_blocks(class) > 0);
    assert_false(registry_settle(thread->rests_since_ms + decay_ms));
    assert_int_equal(lost_blocks(class), 0);
    assert_registry_is_whole();
    /* Pages that are not kept at all: nor is this. */
    options_in_force.decay_ms = 0;
    thread = registry_add();
    assert_false(registry_rest(thread));
    options_in_force.decay_ms = decay_ms;
    thread_end(thread);
}

/* Who has been asked for his blocks does not leave them to anybody. */
static void test_no_rest_when_asked_to_flush(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    use(thread, class_of(144));
    registry_ask_flush(NULL);
    assert_false(registry_rest(thread));
    cache_tick(thread, false);
    assert_true(registry_rest(thread));
    assert_false(registry_settle(UINT64_MAX));
}

/* --- after a fork ------------------------------------------------------------------------ */

/* The bins of threads that are gone are reclaimed, one thread a call. */
static void test_orphans_are_reclaimed(void **state) {
    (void)state;
    unsigned class = class_of(144);
    struct thread *threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = registry_add();
    void *foreign = thread_malloc(threads[1], class);
    use(threads[0], class);
    use(threads[1], class);
    use(threads[2], class);
    thread_free(threads[2], foreign);
    size_t cached = blocks_cached(threads[0], class);
    assert_true(lost_blocks(class) > cached);
    registry_orphan_all_but(threads[0]);
    assert_int_equal(registry_count(), 1);
    registry_reclaim();
    registry_reclaim();
    registry_reclaim();
    assert_int_equal(lost_blocks(class), cached);
    assert_thread_is_sound(threads[0]);
    thread_end(threads[0]);
    assert_int_equal(lost_blocks(class), 0);
}

/* Nobody worked on a cache that rests: the child's next thread takes it over. */
static void test_resting_caches_are_no_orphans(void **state) {
    (void)state;
    unsigned class = class_of(144);
    struct thread *survivor = registry_add(), *ended = registry_add();
    use(ended, class);
    unsigned held = own_count(ended, class);
    assert_true(registry_rest(ended));
    registry_orphan_all_but(survivor);
    assert_registry_is_whole();
    assert_false(registry_has_orphans);
    struct thread *next = registry_add();
    assert_ptr_equal(next, ended);
    assert_int_equal(own_count(next, class), held);
    thread_end(next);
    thread_end(survivor);
    assert_int_equal(lost_blocks(class), 0);
}

/* A bin that was copied while its owner worked on it: nothing of it is believed. */
static void test_torn_bins(void **state) {
    (void)state;
    unsigned class = class_of(176);
    struct thread *gone = registry_add();
    use(gone, class);
    use(gone, class_of(208));
    void *live = thread_malloc(gone, class);
    struct bin_info *info = &gone->infos[class];
    struct bin *bin = own_bin(gone, class);
    /* A block that the program has; one twice; a pointer to anywhere. */
    info->base[1] = live;
    info->base[2] = info->base[3];
    static int anywhere;
    info->base[4] = &anywhere;
    bin_set_top(bin, info->base + 6);
    /* A top that is not in the bin at all. */
    struct bin *other = own_bin(gone, class_of(208));
    bin_set_top(other, bin_top(other) + 1000);
    uint64_t given = slab_stats(class).given;
    registry_orphan_all_but(NULL);
    registry_reclaim();
    /* live was in use: its free cannot be told from a real one. The others: 3, 5, 6. */
    assert_int_equal(slab_stats(class).given, given + 4);
    assert_int_equal(registry_count(), 0);
}

/* --- asked to flush ------------------------------------------------------------------------ */

/* The next free of any class is a slow call, and a slow call sends all blocks home. */
static void test_asked_to_flush(void **state) {
    (void)state;
    unsigned class = class_of(144);
    struct thread *asker = registry_add(), *other = registry_add();
    use(asker, class);
    use(other, class);
    use(other, class_of(208));
    void *live = thread_malloc(other, class);
    void *foreign = thread_malloc(asker, class);
    thread_free(other, foreign);
    assert_true(blocks_cached(other, class) > 0);
    registry_ask_flush(asker);
    assert_non_null(bin_limit(own_bin(asker, class)));
    assert_null(bin_limit(own_bin(other, class)));
    assert_null(bin_limit(own_bin(other, class_of(208))));
    uint64_t slow = slow_calls_made();
    thread_free(other, live);
    assert_int_equal(slow_calls_made(), slow + 1);
    assert_int_equal(own_count(other, class), 0);
    assert_true(blocks_cached(other, class_of(208)) > 0);
    cache_tick(asker, false);
    assert_true(blocks_cached(asker, class) > 0);
    cache_tick(other, false);
    assert_int_equal(blocks_cached(other, class), 0);
    assert_int_equal(blocks_cached(other, class_of(208)), 0);
    /* Once; then its bins are as good as any. */
    use(other, class);
    cache_tick(other, false);
    assert_true(blocks_cached(other, class) > 0);
    assert_thread_is_sound(other);
    thread_end(asker);
    thread_end(other);
}

/* It is an open bin that is closed, whichever class comes first. The next free sends home what it
 * holds, so that the next malloc is a refill. */
static void test_close_one_bin(void **state) {
    (void)state;
    struct thread *thread = registry_add();
    unsigned classes[] = {class_of(64), class_of(208)};
    for (uint64_t random = 0; random < CLASS_COUNT; random++) {
        void *live[2];
        for (int c = 0; c < 2; c++) {
            use(thread, classes[c]);
            live[c] = thread_malloc(thread, classes[c]);
        }
        registry_close_bin(random << 32 | random);
        unsigned closed = 0;
        for (int c = 0; c < 2; c++) {
            bool is_closed = bin_limit(own_bin(thread, classes[c])) == NULL;
            thread_free(thread, live[c]);
            assert_int_equal(own_count(thread, classes[c]) == 0, is_closed);
            closed += is_closed;
        }
        assert_int_equal(closed, 1);
        assert_thread_is_sound(thread);
    }
    thread_end(thread);
}

/* --- every thread that there is or was ------------------------------------------------------ */

static void test_visit(void **state) {
    (void)state;
    unsigned before = 0, after = 0;
    registry_visit(count_thread, &before);
    struct thread *threads[100];
    for (int i = 0; i < 100; i++)
        threads[i] = registry_add();
    registry_visit(count_thread, &after);
    assert_in_range(after, hak_max(before, 100u), before + 100);
    for (int i = 0; i < 100; i++)
        thread_end(threads[i]);
    unsigned ended = 0;
    registry_visit(count_thread, &ended);
    assert_int_equal(ended, after);
}

/* --- exact statistics --------------------------------------------------------------------------
 */

static void test_exact(void **state) {
    (void)state;
    struct thread *plain = registry_add();
    watch_begin(plain);
    assert_false(watch_is_on(plain));
    assert_ptr_equal(watch_shown_row(plain), plain->own);
    assert_ptr_equal(watch_shown_cache(plain), &plain->cache);
    hak_options.stats = STATS_EXACT;
    struct thread *watched = registry_add();
    watch_begin(watched);
    assert_true(watch_is_on(watched));
    assert_ptr_equal(watch_shown_row(watched), &cache_closed_row);
    /* What it shows is full and empty, and leads to the thread. */
    const struct cache *shown = watch_shown_cache(watched);
    assert_ptr_equal(shown->thread, watched);
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        for (unsigned bin = 0; bin < BIN_COUNT; bin++)
            assert_true(bin_top(&shown->rows[row].bins[bin]) >=
                        bin_limit(&shown->rows[row].bins[bin]));
    }
    for (unsigned i = 0; i < 10; i++)
        watch_saw_take(watched, 3, 40 + i);
    watch_saw_give(watched, 3);
    watch_saw_take(watched, BIN_LARGE, 5000000);
    thread_end(watched);
    struct thread *next = registry_add();
    assert_ptr_equal(next, watched);
    watch_begin(next);
    watch_saw_take(next, 3, 1);
    static struct exact_totals totals;
    exact_sum(&totals);
    assert_int_equal(totals.takes[3], 11);
    assert_int_equal(totals.gives[3], 1);
    assert_int_equal(totals.asked_bytes[3], 445 + 1);
    assert_int_equal(totals.takes[BIN_LARGE], 1);
    assert_int_equal(totals.asked_bytes[BIN_LARGE], 5000000);
    assert_int_equal(totals.takes[4], 0);
    hak_options.stats = STATS_OFF;
    thread_end(next);
    thread_end(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emptiest_shard),
        cmocka_unit_test(test_processors_of_a_cgroup),
        cmocka_unit_test(test_structures_are_reused),
        cmocka_unit_test(test_released_structures_are_reused),
        cmocka_unit_test(test_no_memory_for_a_thread),
        cmocka_unit_test(test_asked_to_flush),
        cmocka_unit_test(test_close_one_bin),
        cmocka_unit_test(test_visit),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_a_cache_rests),
        cmocka_unit_test(test_what_rests_is_checked),
        cmocka_unit_test(test_one_cache_rests_a_shard),
        cmocka_unit_test(test_rest_ends),
        cmocka_unit_test(test_no_rest_when_asked_to_flush),
        cmocka_unit_test(test_orphans_are_reclaimed),
        cmocka_unit_test(test_resting_caches_are_no_orphans),
        cmocka_unit_test(test_torn_bins),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
