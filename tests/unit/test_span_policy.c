/* The policies of spans, each by the smallest scene that shows it: which place a
 * request gets, what runs leave and take, what is zero, what is purged. */
#include "support.h"

#include <string.h>
#include <sys/mman.h>

#include "os/calls.h"
#include "os/memory.h"
#include "os/options.h"
#include "os/system.h"
#include "span/arena.h"
#include "span/span.h"

enum { WINDOW_SLABS = 4096 /* 256 MiB */ };

/* Bytes, as a size. */
#define SUPER ((size_t)SUPER_BYTES)

static int start(void **state) {
    (void)state;
    start_layers("shards=8", (size_t)WINDOW_SLABS * SLAB_BYTES);
    return 0;
}

static size_t dirty_bytes(void) { return span_stats().dirty_bytes + arena_stats().dirty_bytes; }

static struct span *take_state(unsigned shard, size_t slabs, enum span_state state, bool *is_zero) {
    struct span_request request = {
        .slabs = slabs,
        .slabs_least = slabs,
        .alignment = 1,
        .state = state,
        .pages = SPAN_USED,
    };
    return span_take(shard, &request, is_zero);
}

static struct span *take_plain(unsigned shard, size_t slabs) {
    bool is_zero;
    struct span *span = take_state(shard, slabs, SPAN_TAKEN, &is_zero);
    assert_non_null(span);
    return span;
}

static void fill(struct span *span) { memset(span->start, 1, span_bytes(span)); }

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

/* Free slabs of one SuperSlab: the first two have been used, the third is in use, the
 * others have not been touched. */
static struct span *used_pair_then_one(unsigned shard) {
    span_purge_all();
    struct span *pair = take_plain(shard, 2);
    struct span *one = take_plain(shard, 1);
    fill(pair);
    span_give(pair);
    return one;
}

/* A request says whether it wants pages that are resident already. */
static void test_used_and_untouched(void **state) {
    (void)state;
    struct span *one = used_pair_then_one(6);
    struct span_request request = {
        .slabs = 1,
        .slabs_least = 1,
        .alignment = 1,
        .state = SPAN_TAKEN,
        .pages = SPAN_UNTOUCHED,
    };
    bool is_zero = false;
    struct span *untouched = span_take(6, &request, &is_zero);
    assert_true(is_zero);
    assert_true(untouched->start > one->start);
    request.pages = SPAN_USED;
    struct span *used = span_take(6, &request, &is_zero);
    assert_false(is_zero);
    assert_true(used->start < one->start);
    span_give(untouched);
    span_give(used);
    span_give(one);
}

/* The lowest used pages serve, so that the same ones do again and again. */
static void test_lowest_used(void **state) {
    (void)state;
    span_purge_all();
    struct span *spans[4], *kept[4];
    for (int i = 0; i < 4; i++) {
        spans[i] = take_plain(6, 5);
        kept[i] = take_plain(6, SUPER_SLABS - 5);
        assert_int_equal(super_of(spans[i]), super_of(kept[i]));
        fill(spans[i]);
    }
    static const int order[] = {2, 0, 3, 1};
    for (int i = 0; i < 4; i++)
        span_give(spans[order[i]]);
    for (int i = 0; i < 4; i++) {
        spans[i] = take_plain(6, 5);
        assert_true(i == 0 || spans[i]->start > spans[i - 1]->start);
    }
    for (int i = 0; i < 4; i++) {
        span_give(spans[i]);
        span_give(kept[i]);
    }
}

/* Used pages of the arena are better than untouched ones of the shard, for who says so. */
static void test_used_of_the_arena(void **state) {
    (void)state;
    static const enum span_pages pages[] = {SPAN_USED, SPAN_USED_ANYWHERE};
    for (int i = 0; i < 2; i++) {
        span_purge_all();
        struct span *whole = take_plain(6, SUPER_SLABS);
        struct span *one = take_plain(6, 1);
        size_t used = super_of(whole);
        fill(whole);
        span_give(whole);
        span_release_warm(6);
        struct span_request request = {
            .slabs = 3,
            .slabs_least = 3,
            .alignment = 1,
            .state = SPAN_TAKEN,
            .pages = pages[i],
        };
        bool is_zero;
        struct span *three = span_take(6, &request, &is_zero);
        assert_int_equal(is_zero, pages[i] == SPAN_USED);
        assert_int_equal(super_of(three), pages[i] == SPAN_USED ? super_of(one) : used);
        span_give(three);
        span_give(one);
    }
}

/* Used pages in a shorter span are better than a long span of untouched ones, but not
 * shorter than the request allows. */
static void test_shorter_of_used(void **state) {
    (void)state;
    struct span *one = used_pair_then_one(6);
    struct span_request request = {
        .slabs = 8,
        .slabs_least = 2,
        .alignment = 1,
        .state = SPAN_TAKEN,
        .pages = SPAN_USED,
    };
    bool is_zero = true;
    struct span *two = span_take(6, &request, &is_zero);
    assert_int_equal(two->slabs, 2);
    assert_false(is_zero);
    span_give(two);
    request.slabs_least = 3;
    struct span *three = span_take(6, &request, &is_zero);
    assert_int_equal(three->slabs, 8);
    assert_true(is_zero);
    span_give(three);
    span_give(one);
}

/* A run made shorter: what it leaves behind serves the shard, in SuperSlabs that
 * had no descriptors of spans until now; and it can have it back. */
static void test_run_shrinks_and_grows(void **state) {
    (void)state;
    /* The shard has its warm SuperSlab already: others go back to the arena. */
    span_give(take_plain(7, SUPER_SLABS));
    span_purge_all();
    bool is_zero;
    struct span *run = take_state(7, (size_t)4 * SUPER_SLABS, SPAN_LARGE, &is_zero);
    char *begin = run->start;
    assert_true(span_resize(run, SUPER_SLABS + 8));
    struct span *behind = take_plain(7, 4);
    assert_int_equal(super_of(behind), super_of(run) + 1);
    assert_ptr_equal(behind->start, begin + span_bytes(run));
    assert_false(span_resize(run, (size_t)2 * SUPER_SLABS));
    span_give(behind);
    assert_true(span_resize(run, (size_t)3 * SUPER_SLABS + 1));
    assert_ptr_equal(span_of(begin + 3 * SUPER), run);
    assert_true(span_resize(run, 1));
    assert_true(span_resize(run, (size_t)2 * SUPER_SLABS));
    assert_true(span_give_large(run, begin));
    assert_null(span_of(begin));
}

/* What a run left behind may be what its shard keeps warm: that is no obstacle. */
static void test_run_grows_over_the_warm(void **state) {
    (void)state;
    bool is_zero;
    struct span *run = take_state(2, (size_t)2 * SUPER_SLABS, SPAN_LARGE, &is_zero);
    char *begin = run->start;
    assert_true(span_resize(run, SUPER_SLABS));
    assert_int_equal(window_super(super_of(run) + 1)->home, SUPER_IN_SHARD);
    size_t supers = span_stats().super_count;
    assert_true(span_resize(run, (size_t)2 * SUPER_SLABS));
    assert_int_equal(span_stats().super_count, supers - 1);
    assert_ptr_equal(span_of(begin + SUPER), run);
    assert_true(span_give_large(run, begin));
}

/* Nor to a run that finds no other place. */
static void test_run_takes_the_warm(void **state) {
    (void)state;
    span_give(take_plain(5, SUPER_SLABS));
    size_t supers = span_stats().super_count;
    span_release_warm(5);
    assert_int_equal(span_stats().super_count, supers - 1);
    span_release_warm(5);
    assert_int_equal(span_stats().super_count, supers - 1);
}

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
    struct span *large = take_plain(4, (size_t)2 * SUPER_SLABS);
    fill(kept);
    fill(large);
    char *begin = large->start;
    span_give(large);
    assert_int_equal(dirty_bytes(), 2 * SUPER);
    assert_int_equal(span_purge_all(), 2 * SUPER);
    assert_int_equal(dirty_bytes(), 0);
    assert_int_equal(resident_bytes(begin, 2 * SUPER), 0);
    assert_int_equal(resident_bytes(kept->start, span_bytes(kept)), span_bytes(kept));
    span_give(kept);
    assert_true(span_purge_all() >= (size_t)3 * SLAB_BYTES);
    bool is_zero = false;
    struct span *again = take_state(4, 3, SPAN_TAKEN, &is_zero);
    assert_true(is_zero);
    span_give(again);
}

/* The bitmaps of a SuperSlab go with its pages, and read as zero after. */
static void test_purge_of_bitmaps(void **state) {
    (void)state;
    span_purge_all();
    struct span *spans[SUPER_SLABS];
    spans[0] = take_plain(4, 1);
    struct super *super = window_super(super_of(spans[0]));
    for (int i = 0; i < SUPER_SLABS; i++) {
        spans[i] = i == 0 ? spans[0] : take_plain(4, 1);
        assert_int_equal(super_of(spans[i]), super_of(spans[0]));
        spans[i]->capacity = i % 2 == 0 ? 1000 : 4000;
        memset(super_bitmap(super, spans[i]), -1, spans[i]->capacity / 8);
    }
    fill(spans[0]);
    bool has_whole_pages = os_page_size() <= sizeof super->short_bitmaps;
    size_t before = has_whole_pages ? os_resident_pages(super, sizeof *super) : 0;
    for (int i = 0; i < SUPER_SLABS; i++)
        span_give(spans[i]);
    span_purge_all();
    assert_int_equal(super->has_bitmaps, !has_whole_pages);
    if (before != 0) {
        assert_int_equal(os_resident_pages(super, sizeof *super), before - 4);
        assert_int_equal(super->bitmaps[1][0], 0);
    }
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
    assert_true(resident_bytes(super_start, SUPER) <= SLAB_BYTES);
    span_give(single);
}

/* Free slabs of shard 1 that have been used, each a hole of one, and the slabs between. */
enum { HOLES = 12 };
static void make_holes(struct span *between[HOLES]) {
    struct span *holes[HOLES];
    for (int i = 0; i < HOLES; i++) {
        holes[i] = take_plain(1, 1);
        between[i] = take_plain(1, 1);
        fill(holes[i]);
    }
    for (int i = 0; i < HOLES; i++)
        span_give(holes[i]);
}

/* The first of five SuperSlabs in a row, of those that spans cover. */
enum { MANY = 16, ROW = 5 };
static int row_of_five(struct span *const spans[MANY]) {
    int first = 0;
    for (int i = 1; i - first < ROW; i++) {
        assert_true(i < MANY);
        first = super_of(spans[i]) == super_of(spans[i - 1]) + 1 ? first : i;
    }
    return first;
}

/* | taken | purged | taken | used | taken |: what is all to be written goes to the used one first.
 */
static void test_growth_by_used_supers(void **state) {
    (void)state;
    struct span *spans[MANY];
    for (int i = 0; i < MANY; i++) {
        spans[i] = take_plain(1, SUPER_SLABS);
        fill(spans[i]);
    }
    int first = row_of_five(spans);
    /* The shard keeps one to itself: the first that it gets, used as well. */
    int kept = first == 0 ? MANY - 1 : 0;
    span_give(spans[kept]);
    span_give(spans[first + 1]);
    span_purge_all();
    spans[kept] = take_plain(1, SUPER_SLABS);
    span_give(spans[kept]);
    size_t used = super_of(spans[first + 3]);
    span_give(spans[first + 3]);
    assert_int_equal(dirty_bytes(), 2 * SUPER);
    spans[kept] = take_plain(1, SUPER_SLABS);
    spans[first + 3] = take_plain(1, SUPER_SLABS);
    assert_int_equal(super_of(spans[first + 3]), used);
    assert_int_equal(dirty_bytes(), 0);
    spans[first + 1] = take_plain(1, SUPER_SLABS);
    for (int i = 0; i < MANY; i++)
        span_give(spans[i]);
}

/* Growth that finds only holes goes by pages never touched; as many dirty ones go. */
static void test_growth_trades(void **state) {
    (void)state;
    span_purge_all();
    struct span *between[HOLES];
    make_holes(between);
    assert_int_equal(dirty_bytes(), (size_t)HOLES * SLAB_BYTES);
    struct span *five = take_plain(1, 5);
    assert_int_equal(dirty_bytes(), (size_t)(HOLES - 5) * SLAB_BYTES);
    struct span *hole = take_plain(1, 1);
    assert_int_equal(dirty_bytes(), (size_t)(HOLES - 6) * SLAB_BYTES);
    span_give(hole);
    span_give(five);
    for (int i = 0; i < HOLES; i++)
        span_give(between[i]);
}

/* What a guarded block of many slabs leaves in its SuperSlab, beside another, serves nobody, so
 * another shard's growth takes it first. */
static void test_growth_trades_beside_guarded_blocks(void **state) {
    (void)state;
    span_purge_all();
    struct span_request request = {
        .slabs = 1,
        .slabs_least = 1,
        .alignment = 1,
        .state = SPAN_GUARDED,
        .pages = SPAN_UNTOUCHED,
    };
    bool is_zero;
    struct span *guarded = span_take(span_guard_shard(), &request, &is_zero);
    assert_non_null(guarded);
    request.slabs = request.slabs_least = SUPER_SLABS - 1;
    struct span *gone = span_take(span_guard_shard(), &request, &is_zero);
    assert_non_null(gone);
    assert_int_equal(super_of(gone), super_of(guarded));
    fill(gone);
    span_give(gone);
    const struct super *super = window_super(super_of(guarded));
    assert_int_equal(bit_count(super->free & ~super->zero), SUPER_SLABS - 1);
    size_t dirty = dirty_bytes();
    struct span *five = take_plain(1, 5);
    assert_int_equal(bit_count(super->free & ~super->zero), SUPER_SLABS - 1 - 5);
    assert_int_equal(dirty_bytes(), dirty - (size_t)5 * SLAB_BYTES);
    span_give(five);
    span_give(guarded);
}

/* Behind the window's last SuperSlab there is nothing to grow into, nor to look at. */
static void test_no_growth_past_the_window(void **state) {
    (void)state;
    enum { LAST = WINDOW_SLABS / SUPER_SLABS - 1 };
    bool is_zero;
    struct span *whole[LAST];
    size_t count = 0;
    do
        whole[count] = take_state(span_guard_shard(), SUPER_SLABS, SPAN_GUARDED, &is_zero);
    while (super_of(whole[count++]) != LAST);
    struct span *last = whole[count - 1];
    assert_false(span_resize(last, SUPER_SLABS + 1));
    assert_false(span_resize(last, (size_t)3 * SUPER_SLABS));
    assert_int_equal(last->slabs, SUPER_SLABS);
    while (count != 0)
        span_give(whole[--count]);
}

/* What is traded is bounded by time: a burst, and then so many bytes a millisecond. */
static void test_trade_is_bounded(void **state) {
    (void)state;
    span_purge_all();
    struct span *supers[HOLES];
    for (int i = 0; i < HOLES; i++) {
        supers[i] = take_plain(1, SUPER_SLABS);
        fill(supers[i]);
    }
    for (int i = 0; i < HOLES; i += 2)
        span_give(supers[i]);
    size_t dirty = dirty_bytes();
    assert_true(dirty >= HOLES / 2 * SUPER);
    uint64_t begin_ms = os_now_ms();
    struct span *grown = take_plain(1, (size_t)HOLES * SUPER_SLABS);
    uint64_t passed_ms = os_now_ms() - begin_ms + 8; /* the clock is a coarse one */
    size_t allowed = (size_t)(passed_ms + 20) * options_profile()->trade_bytes_per_ms;
    assert_true(dirty_bytes() < dirty);
    assert_true(dirty_bytes() + allowed + SUPER >= dirty);
    span_give(grown);
    for (int i = 1; i < HOLES; i += 2)
        span_give(supers[i]);
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
    span = take_state(4, 7, SPAN_TAKEN, &is_zero);
    assert_false(is_zero);
    assert_int_equal(span->start[0], 1);
    span_give(span);
    assert_true(span_purge_all() >= (size_t)7 * SLAB_BYTES);
}

/* No memory: NULL, and as if nothing had happened. */
static void test_take_refused(void **state) {
    (void)state;
    size_t sizes[] = {1, SUPER_SLABS, (size_t)3 * SUPER_SLABS + 1, (size_t)40 * SUPER_SLABS};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct span_stats before = span_stats();
        bool is_zero;
        /* Neither free places nor new ones: the arena has none that are committed. */
        refuse_kind(OS_CALL_KINDS);
        static struct span *hoard[WINDOW_SLABS + 1];
        size_t count = 0;
        while (count <= WINDOW_SLABS &&
               (hoard[count] = take_state(2, sizes[i], SPAN_TAKEN, &is_zero)) != NULL)
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
/* Where no SuperSlab is left, a request gets what another shard has, as few slabs as will do; a
 * guarded block can be done without. */
static void test_full_window(void **state) {
    (void)state;
    enum { SUPERS = WINDOW_SLABS / SUPER_SLABS };
    static struct span *whole[SUPERS];
    span_purge_all();
    struct span *near_all = take_plain(2, SUPER_SLABS - 3);
    size_t count = 0;
    bool is_zero;
    while ((whole[count] = take_state(1, SUPER_SLABS, SPAN_TAKEN, &is_zero)) != NULL)
        assert_true(++count < SUPERS);
    assert_int_equal(count, SUPERS - 1);
    struct span_request request = {
        .slabs = 3,
        .slabs_least = 2,
        .alignment = 1,
        .state = SPAN_GUARDED,
        .pages = SPAN_USED,
    };
    assert_null(span_take(1, &request, &is_zero));
    request.state = SPAN_TAKEN;
    struct span *two = span_take(1, &request, &is_zero);
    assert_non_null(two);
    assert_int_equal(two->slabs, 2);
    assert_int_equal(super_of(two), super_of(near_all));
    assert_null(span_take(1, &request, &is_zero));
    span_give(two);
    two = take_plain(2, 2);
    span_give(near_all);
    span_give(two);
    while (count-- > 0)
        span_give(whole[count]);
    struct finding finding;
    assert_true(span_check(&finding, true));
}

static void test_give_large_twice(void **state) {
    (void)state;
    bool is_zero;
    struct span *span = take_state(3, 5, SPAN_LARGE, &is_zero);
    char *begin = span->start;
    assert_false(span_give_large(span, begin + SLAB_BYTES));
    assert_true(span_give_large(span, begin));
    assert_false(span_give_large(span, begin));
    struct span *taken = take_plain(3, 5);
    assert_ptr_equal(taken, span);
    assert_false(span_give_large(span, begin));
    span_give(taken);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fullest_first),
        cmocka_unit_test(test_lowest_place),
        cmocka_unit_test(test_used_and_untouched),
        cmocka_unit_test(test_lowest_used),
        cmocka_unit_test(test_used_of_the_arena),
        cmocka_unit_test(test_shorter_of_used),
        cmocka_unit_test(test_run_leaves_its_rest),
        cmocka_unit_test(test_run_shrinks_and_grows),
        cmocka_unit_test(test_run_grows_over_the_warm),
        cmocka_unit_test(test_run_takes_the_warm),
        cmocka_unit_test(test_purge),
        cmocka_unit_test(test_purge_of_bitmaps),
        cmocka_unit_test(test_dirty_from_the_arena),
        cmocka_unit_test(test_growth_by_used_supers),
        cmocka_unit_test(test_growth_trades),
        cmocka_unit_test(test_growth_trades_beside_guarded_blocks),
        cmocka_unit_test(test_no_growth_past_the_window),
        cmocka_unit_test(test_trade_is_bounded),
        cmocka_unit_test(test_purge_refused),
        cmocka_unit_test(test_give_large_twice),
        cmocka_unit_test(test_take_refused),
        cmocka_unit_test(test_full_window),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
