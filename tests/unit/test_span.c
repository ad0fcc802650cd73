/* Spans: random takes, gives, resizes and purges of several shards against a
 * model that knows who owns each slab of the window; then the policies, each by
 * the smallest scene that shows it. */
#include "support.h"

#include <string.h>
#include <sys/mman.h>

#include "os/memory.h"
#include "span/arena.h"
#include "span/span.h"

enum {
    WINDOW_SLABS = 4096, /* 256 MiB */
    SHARDS = 4,
    SPANS_MAX = 200,
    OPERATIONS = 6000,
    PAGE = 4096,
    PROBE_STEP = SLAB_BYTES / 4,
};

struct taken {
    struct span *span;
    char *start;
    size_t slabs;
    enum span_state state;
    uint64_t tag;
};

static struct taken spans[SPANS_MAX];
static size_t span_count;
static uint64_t owner[WINDOW_SLABS]; /* tag of the span that has the slab; 0: nobody */
static uint64_t seed = 1;

static int start(void **state) {
    (void)state;
    start_layers("shards=8", (size_t)WINDOW_SLABS * SLAB_BYTES);
    return 0;
}

/* --- the model ------------------------------------------------------------------- */

static uint64_t *probe(const struct taken *taken, size_t offset) {
    return (uint64_t *)(void *)(taken->start + offset);
}

/* A word at some places of each slab; nothing but its span may change them. */
static void write_tags(const struct taken *taken, size_t from_slab) {
    for (size_t at = from_slab * SLAB_BYTES; at < taken->slabs * SLAB_BYTES; at += PROBE_STEP)
        *probe(taken, at) = taken->tag ^ at;
}

static void check_tags(const struct taken *taken) {
    for (size_t at = 0; at < taken->slabs * SLAB_BYTES; at += PROBE_STEP)
        assert_int_equal(*probe(taken, at), taken->tag ^ at);
}

/* Whether a word of each page and the tags' places are zero. */
static bool reads_as_zero(const struct taken *taken) {
    for (size_t at = 0; at < taken->slabs * SLAB_BYTES; at += PAGE) {
        if (*probe(taken, at) != 0 || *probe(taken, at + PAGE - 8) != 0)
            return false;
    }
    return true;
}

static void own(const struct taken *taken, size_t from_slab) {
    size_t first = window_slab_index(taken->start);
    for (size_t i = from_slab; i < taken->slabs; i++) {
        assert_int_equal(owner[first + i], 0);
        owner[first + i] = taken->tag;
    }
}

static void disown(const struct taken *taken, size_t from_slab) {
    size_t first = window_slab_index(taken->start);
    for (size_t i = from_slab; i < taken->slabs; i++) {
        assert_int_equal(owner[first + i], taken->tag);
        owner[first + i] = 0;
    }
}

static void check_descriptor(const struct taken *taken) {
    assert_ptr_equal(taken->span->start, taken->start);
    assert_int_equal(span_bytes(taken->span), taken->slabs * SLAB_BYTES);
    size_t offset = random_below(&seed, taken->slabs * SLAB_BYTES);
    assert_ptr_equal(span_of(taken->start), taken->span);
    assert_ptr_equal(span_of(taken->start + offset), taken->span);
    assert_ptr_equal(span_of(taken->start + taken->slabs * SLAB_BYTES - 1), taken->span);
}

static bool take(unsigned shard, size_t slabs, size_t alignment, enum span_state state) {
    bool is_zero = false;
    struct span *span = span_take(shard, slabs, alignment, state, &is_zero);
    if (span == NULL)
        return false;
    struct taken *taken = &spans[span_count++];
    *taken = (struct taken){span, span->start, slabs, state, random_next(&seed) | 1};
    assert_true(window_contains(taken->start));
    assert_true(window_contains(taken->start + slabs * SLAB_BYTES - 1));
    assert_int_equal((uintptr_t)taken->start % (alignment * SLAB_BYTES), 0);
    own(taken, 0);
    check_descriptor(taken);
    if (is_zero)
        assert_true(reads_as_zero(taken));
    write_tags(taken, 0);
    return true;
}

static void give(size_t index) {
    struct taken taken = spans[index];
    check_descriptor(&taken);
    check_tags(&taken);
    disown(&taken, 0);
    if (taken.state == SPAN_LARGE)
        assert_true(span_give_large(taken.span, taken.start));
    else
        span_give(taken.span);
    spans[index] = spans[--span_count];
    struct span *now = span_of(taken.start);
    assert_true(now == NULL || now->start != taken.start);
}

static void give_all(void) {
    while (span_count != 0)
        give(span_count - 1);
}

static void resize(size_t index, size_t slabs) {
    struct taken *taken = &spans[index];
    size_t old = taken->slabs;
    bool done = span_resize(taken->span, slabs);
    assert_true(done || slabs > old); /* shorter always works */
    if (done && slabs < old) {
        disown(taken, slabs);
        taken->slabs = slabs;
    } else if (done) {
        taken->slabs = slabs;
        own(taken, old);
        write_tags(taken, old);
    }
    check_descriptor(taken);
    check_tags(taken);
}

/* Mostly short ones, as slabs are; some over several SuperSlabs. */
static size_t random_slabs(void) {
    switch (random_below(&seed, 8)) {
    case 0:
        return 1 + random_below(&seed, 100);
    case 1:
        return SUPER_SLABS * (1 + random_below(&seed, 3));
    case 2:
        return 1 + random_below(&seed, SUPER_SLABS);
    default:
        return 1 + random_below(&seed, 4);
    }
}

static void random_step(void) {
    size_t choice = random_below(&seed, 100);
    if (choice < 45 && span_count < SPANS_MAX) {
        size_t alignment = (size_t)1 << (random_below(&seed, 4) == 0 ? random_below(&seed, 8) : 0);
        enum span_state state = random_below(&seed, 2) == 0 ? SPAN_TAKEN : SPAN_LARGE;
        take((unsigned)random_below(&seed, SHARDS), random_slabs(), alignment, state);
    } else if (choice < 85 && span_count > 0) {
        give(random_below(&seed, span_count));
    } else if (choice < 98 && span_count > 0) {
        size_t index = random_below(&seed, span_count);
        if (spans[index].state == SPAN_LARGE)
            resize(index, random_slabs());
    } else if (choice == 98) {
        span_purge_all();
    } else {
        span_decay((unsigned)random_below(&seed, SHARDS));
    }
}

static void test_random_operations(void **state) {
    (void)state;
    for (int i = 0; i < OPERATIONS; i++)
        random_step();
    give_all();
}

/* The same while some calls into the kernel fail. */
static void test_random_operations_refused(void **state) {
    (void)state;
    for (int i = 0; i < OPERATIONS / 10; i++) {
        refuse_after((int)random_below(&seed, OS_CALL_KINDS + 1), (unsigned)random_below(&seed, 4));
        for (int j = 0; j < 5; j++)
            random_step();
        allow_all();
        random_step();
    }
    give_all();
}

/* --- policies ---------------------------------------------------------------------- */

static size_t dirty_bytes(void) { return span_stats().dirty_bytes + arena_stats().dirty_bytes; }

static struct span *take_plain(unsigned shard, size_t slabs) {
    bool is_zero;
    struct span *span = span_take(shard, slabs, 1, SPAN_TAKEN, &is_zero);
    assert_non_null(span);
    return span;
}

static size_t super_of(const struct span *span) { return window_super_index(span->start); }

/* Of the SuperSlabs that hold it, a request goes to the fullest. */
static void test_fullest_first(void **state) {
    (void)state;
    struct span *a = take_plain(5, 20);
    struct span *b = take_plain(5, 30);
    assert_int_not_equal(super_of(a), super_of(b));
    struct span *two = take_plain(5, 2);
    assert_int_equal(super_of(two), super_of(b));
    struct span *ten = take_plain(5, 10);
    assert_int_equal(super_of(ten), super_of(a));
    struct span *all[] = {a, b, two, ten};
    for (int i = 0; i < 4; i++)
        span_give(all[i]);
}

/* In it, the lowest place. */
static void test_lowest_place(void **state) {
    (void)state;
    struct span *singles[8];
    for (int i = 0; i < 8; i++)
        singles[i] = take_plain(5, 1);
    char *low = singles[2]->start;
    span_give(singles[5]);
    span_give(singles[2]);
    singles[2] = take_plain(5, 1);
    assert_ptr_equal(singles[2]->start, low);
    singles[5] = take_plain(5, 1);
    for (int i = 0; i < 8; i++)
        span_give(singles[i]);
}

/* What a run leaves of its last SuperSlab serves the shard. */
static void test_run_leaves_its_rest(void **state) {
    (void)state;
    struct span *run = take_plain(6, SUPER_SLABS + 5);
    struct span *rest = take_plain(6, SUPER_SLABS - 5);
    assert_ptr_equal(rest->start, run->start + span_bytes(run));
    span_give(run);
    span_give(rest);
}

/* A run made shorter: what it leaves behind serves the shard, in SuperSlabs that
 * had no descriptors of spans until now; and it can have it back. */
static void test_run_shrinks_and_grows(void **state) {
    (void)state;
    /* The shard has its warm SuperSlab already: others go back to the arena. */
    span_give(take_plain(7, SUPER_SLABS));
    bool is_zero;
    struct span *run = span_take(7, 4 * SUPER_SLABS, 1, SPAN_LARGE, &is_zero);
    char *begin = run->start;
    assert_true(span_resize(run, SUPER_SLABS + 8));
    struct span *behind = take_plain(7, 4);
    assert_int_equal(super_of(behind), super_of(run) + 1);
    assert_ptr_equal(behind->start, begin + span_bytes(run));
    assert_false(span_resize(run, 2 * SUPER_SLABS));
    span_give(behind);
    assert_true(span_resize(run, 3 * SUPER_SLABS + 1));
    assert_ptr_equal(span_of(begin + 3 * SUPER_BYTES), run);
    assert_true(span_resize(run, 1));
    assert_true(span_resize(run, 2 * SUPER_SLABS));
    assert_true(span_give_large(run, begin));
    assert_null(span_of(begin));
}

static void fill(struct span *span) { memset(span->start, 1, span_bytes(span)); }

static size_t resident_bytes(void *begin, size_t bytes) {
    size_t page = os_page_size();
    size_t resident = 0;
    for (size_t at = 0; at < bytes; at += page) {
        unsigned char is_resident;
        assert_int_equal(mincore((char *)begin + at, page, &is_resident), 0);
        resident += (is_resident & 1) * page;
    }
    return resident;
}

/* Purging returns what is free and dirty, all of it, and that is zero then. */
static void test_purge(void **state) {
    (void)state;
    span_purge_all();
    assert_int_equal(dirty_bytes(), 0);
    struct span *kept = take_plain(4, 3);
    struct span *large = take_plain(4, 2 * SUPER_SLABS);
    fill(kept);
    fill(large);
    char *begin = large->start;
    span_give(large);
    assert_int_equal(dirty_bytes(), 2 * SUPER_BYTES);
    assert_int_equal(span_purge_all(), 2 * SUPER_BYTES);
    assert_int_equal(dirty_bytes(), 0);
    assert_int_equal(resident_bytes(begin, 2 * SUPER_BYTES), 0);
    assert_int_equal(resident_bytes(kept->start, span_bytes(kept)), span_bytes(kept));
    span_give(kept);
    assert_true(span_purge_all() >= 3 * SLAB_BYTES);
    bool is_zero = false;
    struct span *again = span_take(4, 3, 1, SPAN_TAKEN, &is_zero);
    assert_true(is_zero);
    span_give(again);
}

/* A shard takes a dirty SuperSlab over from the arena: its free slabs are dirty
 * still, and no free in it need come first for them to be purged. */
static void test_dirty_from_the_arena(void **state) {
    (void)state;
    struct span *pair[] = {take_plain(4, SUPER_SLABS), take_plain(4, SUPER_SLABS)};
    for (int i = 0; i < 2; i++) {
        fill(pair[i]);
    }
    for (int i = 0; i < 2; i++)
        span_give(pair[i]);
    struct span *single = take_plain(3, 1);
    span_purge_all();
    assert_int_equal(dirty_bytes(), 0);
    size_t first = super_of(single) * SUPER_SLABS;
    char *super_start = window_super_address(super_of(single));
    assert_int_equal(window_slab_index(super_start), first);
    assert_true(resident_bytes(super_start, SUPER_BYTES) <= SLAB_BYTES);
    span_give(single);
}

/* What the kernel does not take back stays dirty, is not zero, and does not keep
 * the rest from being purged. */
static void test_purge_refused(void **state) {
    (void)state;
    struct span *span = take_plain(4, 7);
    fill(span);
    span_give(span);
    refuse_kind(OS_CALL_PURGE);
    assert_int_equal(span_purge_all(), 0);
    allow_all();
    bool is_zero = true;
    span = span_take(4, 7, 1, SPAN_TAKEN, &is_zero);
    assert_false(is_zero);
    assert_int_equal(span->start[0], 1);
    span_give(span);
    assert_true(span_purge_all() >= 7 * SLAB_BYTES);
}

/* No memory: NULL, and as if nothing had happened. */
static void test_take_refused(void **state) {
    (void)state;
    size_t sizes[] = {1, SUPER_SLABS, 3 * SUPER_SLABS + 1, 40 * SUPER_SLABS};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct span_stats before = span_stats();
        bool is_zero;
        /* Neither free places nor new ones: the arena has none that are committed. */
        refuse_kind(OS_CALL_KINDS);
        static struct span *hoard[WINDOW_SLABS + 1];
        size_t count = 0;
        while (count <= WINDOW_SLABS &&
               (hoard[count] = span_take(2, sizes[i], 1, SPAN_TAKEN, &is_zero)) != NULL)
            count++;
        allow_all();
        assert_true(count <= WINDOW_SLABS);
        while (count != 0)
            span_give(hoard[--count]);
        struct span *span = take_plain(2, sizes[i]);
        span_give(span);
        assert_int_equal(span_stats().large_count, before.large_count);
    }
}

/* A stale pointer to a large block that is no more, whatever is there now. */
static void test_give_large_twice(void **state) {
    (void)state;
    bool is_zero;
    struct span *span = span_take(3, 5, 1, SPAN_LARGE, &is_zero);
    char *begin = span->start;
    assert_false(span_give_large(span, begin + SLAB_BYTES));
    assert_true(span_give_large(span, begin));
    assert_false(span_give_large(span, begin));
    struct span *taken = take_plain(3, 5);
    assert_ptr_equal(taken, span);
    assert_false(span_give_large(span, begin));
    span_give(taken);
}

static void test_nothing_is_left(void **state) {
    (void)state;
    span_purge_all();
    struct span_stats stats = span_stats();
    assert_int_equal(stats.large_count, 0);
    assert_int_equal(stats.large_bytes, 0);
    assert_int_equal(stats.large_taken, stats.large_given);
    assert_int_equal(stats.free_bytes, stats.super_count * SUPER_BYTES);
    assert_int_equal(stats.free_bytes + arena_stats().free_bytes, arena_stats().committed_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fullest_first),
        cmocka_unit_test(test_lowest_place),
        cmocka_unit_test(test_run_leaves_its_rest),
        cmocka_unit_test(test_run_shrinks_and_grows),
        cmocka_unit_test(test_purge),
        cmocka_unit_test(test_dirty_from_the_arena),
        cmocka_unit_test(test_purge_refused),
        cmocka_unit_test(test_give_large_twice),
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_random_operations_refused),
        cmocka_unit_test(test_take_refused),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
