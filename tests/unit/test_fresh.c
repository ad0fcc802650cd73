/* A SuperSlab that a growing heap begins may be a huge page: only in a large heap and below its
 * limits, only now and then where that takes long; what of it nobody takes is blank, and goes. The
 * tests share one heap, in their order. */
#include "support.h"

#include <string.h>

#include "os/calls.h"
#include "os/huge_pages.h"
#include "os/memory.h"
#include "os/options.h"
#include "os/system.h"
#include "span/limits.h"
#include "span/span.h"

enum { FEW = 4, BEFORE = 31, TRIAL_EVERY = 32, REGRET_REST_MS = 1000 };

static struct super *super_of(const struct span *span) {
    return window_super(window_super_index(span->start));
}

static struct span *take(size_t slabs, bool grows, bool *is_zero) {
    struct span_request request = {
        .slabs = slabs,
        .slabs_least = slabs,
        .alignment = 1,
        .state = SPAN_TAKEN,
        .pages = SPAN_USED,
        .grows = grows,
    };
    struct span *span = span_take(0, &request, is_zero);
    assert_non_null(span);
    return span;
}

static struct span *grow(size_t slabs, bool *is_zero) { return take(slabs, true, is_zero); }

/* So many SuperSlabs; none becomes a huge page. */
static void grow_by_single_pages(int count) {
    size_t heap = limits_heap_bytes();
    for (int i = 0; i < count; i++) {
        bool is_zero;
        struct span *span = grow(SUPER_SLABS, &is_zero);
        assert_true(is_zero);
        assert_false(span_is_collapsed(span));
        assert_int_equal(super_of(span)->blank, 0);
    }
    assert_true(limits_heap_bytes() - heap >= (size_t)count * SUPER_BYTES);
}

static void assert_sound(void) {
    struct finding finding = {0};
    assert_true(span_check(&finding, true));
}

static bool reads_zero(const struct span *span) {
    size_t i = 0;
    while (i < span_bytes(span) && span->start[i] == 0)
        i++;
    return i == span_bytes(span);
}

static void test_not_wanted(void **state) {
    (void)state;
    grow_by_single_pages(BEFORE); /* a small heap */
    options_parse("profile=lean");
    grow_by_single_pages(TRIAL_EVERY);
    options_parse("profile=balanced");
    size_t soft = atomic_exchange(&limits_now.soft, limits_heap_bytes() + SUPER_BYTES - 1);
    grow_by_single_pages(TRIAL_EVERY);
    atomic_store(&limits_now.soft, soft);
}

/* Whether this kernel makes huge pages on demand; an emulator may say so and do nothing. */
static bool kernel_collapses(void) {
    char *start = os_map_aligned(SUPER_BYTES, SUPER_BYTES);
    assert_non_null(start);
    *start = 1;
    bool does = os_huge_page_bytes(SUPER_BYTES) == SUPER_BYTES && os_collapse(start, SUPER_BYTES) &&
                os_resident_pages(start, SUPER_BYTES) == SUPER_BYTES / os_page_size();
    os_unmap(start, SUPER_BYTES);
    return does;
}

static void test_blank(void **state) {
    (void)state;
    if (!kernel_collapses())
        skip();
    bool is_zero;
    size_t heap = limits_heap_bytes();
    struct span *first = grow(FEW, &is_zero); /* nobody knows yet how long it takes */
    struct super *super = super_of(first);
    assert_true(span_is_collapsed(first));
    assert_true(is_zero && reads_zero(first));
    assert_int_equal(os_resident_pages(super->start, SUPER_BYTES), SUPER_BYTES / os_page_size());
    assert_int_equal(super->blank, ALL_SLABS & ~slab_mask(0, FEW));
    assert_sound();

    /* Who has all that he will need has single pages, if there are any. */
    struct span *small = take(1, false, &is_zero);
    assert_ptr_not_equal(super_of(small), super);
    assert_false(span_is_collapsed(small));

    /* The rest is there, and reads as zero until somebody has had it. */
    size_t grown = limits_heap_bytes();
    assert_true(grown - heap >= SUPER_BYTES);
    struct span *second = grow(FEW, &is_zero);
    assert_ptr_equal(super_of(second), super);
    assert_true(is_zero && reads_zero(second));
    memset(second->start, 1, span_bytes(second));
    span_give(second);
    assert_sound();
    second = grow(FEW, &is_zero);
    assert_ptr_equal(super_of(second), super);
    assert_false(is_zero);
    assert_int_equal(limits_heap_bytes(), grown);

    /* What nobody takes goes as any other free memory. */
    uint64_t splits = span_collapse_stats().split;
    size_t rest = (SUPER_SLABS - 2 * FEW) * (size_t)SLAB_BYTES;
    assert_int_equal(span_purge_all(), rest);
    assert_int_equal(span_collapse_stats().split, splits + 1);
    assert_int_equal(super->blank, 0);
    assert_int_equal(os_resident_pages(super->start, SUPER_BYTES),
                     (SUPER_BYTES - rest) / os_page_size());
    assert_int_equal(grown - limits_heap_bytes(), rest);
    assert_sound();
    span_give(first);
    span_give(second);
    span_give(small);
    span_purge_all();
}

/* One has just been split that had just been made: for a while there is no trial, either. */
static void test_regretted(void **state) {
    (void)state;
    if (!kernel_collapses())
        skip();
    uint64_t now_ms = os_now_ms();
    for (int i = 0; i < 2 * TRIAL_EVERY && os_now_ms() - now_ms < REGRET_REST_MS / 2; i++)
        grow_by_single_pages(1);
    os_sleep_ms(REGRET_REST_MS);
}

/* Single pages have taken no time yet, so all are made of these but for a trial now and then. */
static void test_trials(void **state) {
    (void)state;
    if (!kernel_collapses())
        skip();
    unsigned collapsed = 0;
    for (int i = 0; i < 2 * TRIAL_EVERY; i++) {
        bool is_zero;
        struct span *span = grow(SUPER_SLABS, &is_zero);
        assert_true(is_zero && (i % 10 != 0 || reads_zero(span)));
        collapsed += span_is_collapsed(span);
    }
    assert_int_equal(collapsed, 2);
    assert_int_equal(span_collapse_stats().collapsed, 1 + collapsed);
    assert_sound();
}

static void test_refused(void **state) {
    (void)state;
    refuse_kind(OS_CALL_ADVISE);
    grow_by_single_pages(TRIAL_EVERY);
    allow_all();
    refuse_kind(OS_CALL_POPULATE);
    grow_by_single_pages(TRIAL_EVERY);
    allow_all();
    assert_sound();
}

static int start(void **state) {
    (void)state;
    start_layers("shards=2,profile=balanced", 1024 * MIB);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_wanted), cmocka_unit_test(test_blank),
        cmocka_unit_test(test_regretted),  cmocka_unit_test(test_trials),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
