/* Purging pages inside slabs in use: what goes and what stays, seen by the kernel; and what
 * may happen between claim and return, made to happen there: the layer below asks the test
 * before each call into the kernel. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "os/options.h"
#include "os/system.h"
#include "refusals.h"
#include "slab/slab.h"
#include "span/limits.h"

enum { SHARDS = 2, BLOCKS = 6000, HELD_BYTES = 8 << 20 };
enum { STEADY_MS = 220 }; /* without growth for so long a heap does not count as growing */

static uint64_t seed = 7;
static void *blocks[BLOCKS]; /* of one class; NULL: given */
static unsigned count;
static unsigned class;

static int start(void **state) {
    (void)state;
    start_layers("shards=2", 512 * MIB);
    return 0;
}

/* --- a population --------------------------------------------------------------------- */

static void fill_block(void *block) {
    memset(block, (int)((uintptr_t)block >> 4 & 0x7f) + 1, class_size(class));
}

static bool is_filled(const void *block) {
    const unsigned char *bytes = block;
    unsigned char mark = (unsigned char)(((uintptr_t)block >> 4 & 0x7f) + 1);
    for (size_t i = 0; i < class_size(class); i++) {
        if (bytes[i] != mark)
            return false;
    }
    return true;
}

static void take_many(unsigned shard, size_t size) {
    class = class_of(size);
    unsigned most = (unsigned)hak_min((size_t)BLOCKS, HELD_BYTES / class_size(class));
    for (count = 0; count < most;)
        count += slab_take(shard, class, blocks + count, most - count, NULL);
    for (unsigned i = 0; i < count; i++)
        fill_block(blocks[i]);
}

static void give(unsigned i) {
    void *block = blocks[i];
    blocks[i] = NULL;
    slab_give(class, &block, 1);
}

/* Gives all but one in kept. */
static void give_most(unsigned kept) {
    for (unsigned i = 0; i < count; i++) {
        if (random_below(&seed, kept) != 0)
            give(i);
    }
}

static void give_rest(void) {
    for (unsigned i = 0; i < count; i++) {
        if (blocks[i] != NULL)
            give(i);
    }
    slab_trim();
    assert_int_equal(slab_stats(class).slab_bytes, 0);
    assert_int_equal(slab_stats(class).taken, slab_stats(class).given);
    span_purge_all(); /* the next slabs are zero again */
}

static bool is_live(const char *page) {
    const char *end = page + os_page_size();
    for (unsigned i = 0; i < count; i++) {
        const char *block = blocks[i];
        if (block != NULL && block < end && block + class_size(class) > page)
            return true;
    }
    return false;
}

/* What there is in memory of the slabs of live blocks. */
struct pages {
    size_t dead_bytes; /* on pages without live blocks */
    size_t tail_bytes; /* most that can lie behind last blocks */
};

static struct pages look_at_pages(void) {
    struct pages pages = {0};
    const struct span *seen[HELD_BYTES / SLAB_BYTES + 1] = {NULL};
    for (unsigned i = 0; i < count; i++) {
        const struct span *span = blocks[i] != NULL ? span_of(blocks[i]) : NULL;
        if (blocks[i] != NULL)
            assert_true(is_filled(blocks[i]));
        unsigned at_seen = 0;
        while (span != NULL && seen[at_seen] != NULL && seen[at_seen] != span)
            at_seen++;
        if (span == NULL || seen[at_seen] == span)
            continue;
        seen[at_seen] = span;
        size_t used_bytes = span->capacity * class_size(class);
        pages.tail_bytes += span_bytes(span) - used_bytes;
        for (size_t at = 0; at < used_bytes; at += os_page_size()) {
            bool live = is_live(span->start + at);
            bool resident = os_resident_pages(span->start + at, os_page_size()) != 0;
            assert_true(resident || !live);
            pages.dead_bytes += resident && !live ? os_page_size() : 0;
        }
    }
    return pages;
}

/* Purges all pages that can go; returns bytes. */
static size_t assert_purge(void) {
    struct pages before = look_at_pages();
    size_t bytes = slab_purge_pages();
    assert_true(bytes >= before.dead_bytes);
    if (kernel_populates())
        assert_true(bytes <= before.dead_bytes + before.tail_bytes);
    assert_int_equal(look_at_pages().dead_bytes, 0);
    assert_int_equal(slab_purge_pages(), 0);
    return bytes;
}

/* --- what goes ------------------------------------------------------------------------ */

static const size_t sizes[] = {16, 48, 128, 1000, 4096, 5120, 9000, 22528, 100000, 1 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void test_pages_without_blocks_go(void **state) {
    (void)state;
    size_t all = 0;
    for (unsigned s = 0; s < SIZES; s++) {
        take_many(s % SHARDS, sizes[s]);
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
        for (unsigned i = 0; i < count; i++) {
            if (blocks[i] != NULL)
                continue;
            bool is_zero = false;
            unsigned char *block = slab_take_one(0, class, &is_zero);
            assert_non_null(block);
            assert_false(is_filled(block) && is_zero);
            for (size_t b = 0; is_zero && b < class_size(class); b++)
                assert_int_equal(block[b], 0);
            zero += is_zero;
            fill_block(block);
            blocks[i] = block;
        }
        for (unsigned i = 0; i < count; i++)
            assert_true(is_filled(blocks[i]));
        /* All that was purged is in use again. */
        if (class_size(class) % os_page_size() == 0)
            assert_true(zero * class_size(class) + look_at_pages().tail_bytes >= purged);
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

/* A few live blocks at the start of each of two slabs: upkeep spares the fuller one. */
static void test_upkeep_spares_the_next(void **state) {
    (void)state;
    take_many(0, 512);
    struct span *first = span_of(blocks[0]), *second = NULL;
    for (unsigned i = 0; i < count; i++) {
        struct span *span = span_of(blocks[i]);
        if (span != first && second == NULL)
            second = span;
        size_t at = (uintptr_t)blocks[i] % SLAB_BYTES;
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
    while (blocks[changed] == NULL)
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
    for (unsigned i = 0; i < count; i++) {
        if (blocks[i] != NULL)
            atomic_store(&window_super(window_super_index(blocks[i]))->is_collapsed, true);
    }
}

/* Of each slab, those pages' blocks; four to a page. */
static void give_pages(unsigned from, unsigned to) {
    for (unsigned i = 0; i < count; i++) {
        unsigned page = (unsigned)((uintptr_t)blocks[i] % SLAB_BYTES / os_page_size());
        if (blocks[i] != NULL && page >= from && page < to)
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
    assert_true(dead >= count * 1024 / 16);
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
            assert_int_equal(slab_take(0, class, &taken[k], 1, NULL), 1);
        slab_give(class, taken, 64);
    }
    size_t left = look_at_pages().dead_bytes;
    assert_true(left > 0 || dead == 0);
    assert_true(left + (size_t)2 * SLAB_BYTES >=
                dead); /* but for what became of the slab at work */
    shrink(64);
    give_rest();
}

/* --- in the middle of a purge ---------------------------------------------------------- */

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
    class = class_of(1024);
    count = 0;
    while (count < SLAB_BYTES / 1024)
        count += slab_take(0, class, blocks + count, SLAB_BYTES / 1024 - count, NULL);
    for (unsigned i = 0; i < count; i++) {
        fill_block(blocks[i]);
        assert_ptr_equal(span_of(blocks[i]), span_of(blocks[0]));
        if ((uintptr_t)blocks[i] % SLAB_BYTES < SLAB_BYTES / 2)
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
    unsigned got = slab_take(0, class, taken, 1, NULL);
    got += slab_take(1, class, taken + 1, 1, NULL);
    assert_int_equal(got, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_ptr_not_equal(span_of(taken[i]), span_of(blocks[0]));
    slab_give(class, taken, 2);
}

static void test_claimed_blocks_are_not_taken(void **state) {
    (void)state;
    assert_int_equal(purge_meanwhile(take_two), SLAB_BYTES / 2);
    assert_int_equal(look_at_pages().dead_bytes, 0);
    give_rest();
}

static struct span *emptied;
static void give_upper_half(void) {
    emptied = span_of(blocks[0]);
    for (unsigned i = 0; i < count; i++) {
        if (blocks[i] != NULL)
            give(i);
    }
    assert_ptr_equal(span_of(emptied->start), emptied);
    assert_int_equal(slab_stats(class).slab_bytes, SLAB_BYTES);
}

static void test_slab_that_empties_waits_for_the_purge(void **state) {
    (void)state;
    assert_int_equal(purge_meanwhile(give_upper_half), SLAB_BYTES / 2);
    slab_trim();
    assert_int_equal(slab_stats(class).slab_bytes, 0);
    assert_null(span_of(emptied->start));
}

static void *adopted;
static void let_other_shard_adopt(void) {
    struct span *span = NULL;
    for (unsigned i = 0, given = 0; i < count && given < 24; i++) {
        if (blocks[i] == NULL)
            continue;
        span = span_of(blocks[i]);
        give(i);
        given++;
    }
    assert_int_equal(slab_take(1, class, &adopted, 1, NULL), 1);
    assert_ptr_equal(span_of(adopted), span);
    assert_int_equal(window_entry(adopted), slab_entry(1, class));
}

static void test_slab_that_moves_is_found(void **state) {
    (void)state;
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = NULL;
    size_t bytes = purge_meanwhile(let_other_shard_adopt);
    assert_int_equal(bytes, SLAB_BYTES / 2);
    slab_give(class, &adopted, 1);
    give_rest();
}

static void *twice;
static void give_twice(void) {
    void *block = twice;
    slab_give(class, &block, 1);
}

static void double_free_meanwhile(void *context) {
    twice = context;
    purge_meanwhile(give_twice);
}

static void test_second_free_is_seen(void **state) {
    (void)state;
    if (os_page_size() == SLAB_BYTES)
        skip();
    class = class_of(1024);
    void *block;
    assert_int_equal(slab_take(0, class, &block, 1, NULL), 1);
    void *lowest = block; /* it will be in the half that is purged */
    slab_give(class, &block, 1);
    assert_dies(double_free_meanwhile, lowest, "hakmem: double free: ", NULL);
    slab_trim();
}

/* All other blocks of the slab go, too, so that it becomes empty while a page is away. */
static void give_twice_and_rest(void) {
    give_twice();
    for (unsigned i = 1; i < count; i++)
        give(i);
}

static void double_free_empties_slab(void *context) {
    twice = context;
    meanwhile = give_twice_and_rest;
    refuses_call = call_meanwhile;
    slab_purge_pages();
}

static void take_slab_of_pages(void) {
    class = class_of(os_page_size());
    count = slab_take(0, class, blocks, SLAB_BYTES / (unsigned)os_page_size(), NULL);
    assert_int_equal(count, SLAB_BYTES / os_page_size());
    for (unsigned i = 0; i < count; i++) {
        fill_block(blocks[i]);
        assert_ptr_equal(span_of(blocks[i]), span_of(blocks[0]));
    }
}

/* The empty slab goes at first, and stays once its class is busy. */
static void test_second_free_is_seen_in_an_empty_slab(void **state) {
    (void)state;
    if (os_page_size() == SLAB_BYTES)
        skip();
    for (unsigned turn = 0; turn < 6; turn++) {
        take_slab_of_pages();
        void *block = blocks[0];
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
    unsigned held = 0;
    bool is_growing = true;
    bool all_whole = true;
    while (!atomic_load(&is_over)) {
        is_growing = held == 0 || (is_growing && held + BATCH <= WORKER_BLOCKS);
        if (is_growing) {
            unsigned got = slab_take(number % SHARDS, own_class, own + held, BATCH, NULL);
            for (unsigned i = held; i < held + got; i++)
                sign(own[i], size, number);
            held += got;
        } else {
            unsigned i = (unsigned)random_below(&chance, held);
            void *block = own[i];
            own[i] = own[--held];
            all_whole &= is_signed(block, size, number);
            slab_give(own_class, &block, 1);
        }
    }
    for (unsigned i = 0; i < held; i++)
        all_whole &= is_signed(own[i], size, number);
    slab_give(own_class, own, held);
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
        cmocka_unit_test(test_pages_without_blocks_go),
        cmocka_unit_test(test_purged_pages_serve_again),
        cmocka_unit_test(test_quiet_slabs),
        cmocka_unit_test(test_huge_pages_are_not_split_for_little),
        cmocka_unit_test(test_growth_trades_pages),
        cmocka_unit_test(test_growth_spares_a_class_in_demand),
        cmocka_unit_test(test_kernel_refuses),
        cmocka_unit_test(test_upkeep_spares_the_next),
        cmocka_unit_test(test_claimed_blocks_are_not_taken),
        cmocka_unit_test(test_slab_that_empties_waits_for_the_purge),
        cmocka_unit_test(test_slab_that_moves_is_found),
        cmocka_unit_test(test_second_free_is_seen),
        cmocka_unit_test(test_second_free_is_seen_in_an_empty_slab),
        cmocka_unit_test(test_threads_go_on_meanwhile),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
