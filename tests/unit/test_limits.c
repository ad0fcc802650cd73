/* What counts as heap, and that nothing is counted that the hard limit does not allow. */
#include "support.h"

#include <limits.h>

#include "os/calls.h"
#include "os/cgroup.h"
#include "os/metadata.h"
#include "os/options.h"
#include "span/arena.h"
#include "span/large.h"
#include "span/limits.h"
#include "span/span.h"

#define SLAB ((size_t)SLAB_BYTES)

static int start(void **state) {
    (void)state;
    start_layers("shards=2,soft_limit=40M,hard_limit=64M,decay_ms=3600000", 1 * GIB);
    return 0;
}

/* Without descriptors, which are never given back. */
static size_t charged(void) { return limits_heap_bytes() - os_metadata_used_bytes(); }

static struct span *take(size_t slabs) {
    struct span_request request = {
        .slabs = slabs, .slabs_least = slabs, .alignment = 1, .state = SPAN_LARGE};
    bool is_zero;
    return span_take(0, &request, &is_zero);
}

static void test_what_counts(void **state) {
    (void)state;
    assert_int_equal(charged(), 0);
    refuse_kind(OS_CALL_COMMIT);
    assert_null(take(1));
    assert_null(take(100));
    allow_all();
    assert_int_equal(charged(), 0);
    struct span *span = take(3);
    assert_int_equal(charged(), 3 * SLAB);
    span_give(span);
    assert_int_equal(charged(), 3 * SLAB); /* dirty */
    span = take(2);
    assert_int_equal(charged(), 3 * SLAB); /* two of those */
    assert_int_equal(span_purge_all(), SLAB);
    assert_int_equal(charged(), 2 * SLAB);
    assert_true(span_resize(span, 5));
    assert_int_equal(charged(), 5 * SLAB);
    assert_true(span_resize(span, 1));
    assert_int_equal(charged(), 5 * SLAB);
    span_give(span);
    assert_int_equal(span_purge_all(), 5 * SLAB);
    assert_int_equal(charged(), 0);
}

static void test_long_spans(void **state) {
    (void)state;
    struct span *span = take(100);
    assert_int_equal(charged(), 100 * SLAB);
    assert_true(span_resize(span, 300));
    assert_int_equal(charged(), 300 * SLAB);
    span_give(span);
    assert_int_equal(charged(), 300 * SLAB);
    span = take(200);
    assert_true(charged() <= 332 * SLAB);
    span_give(span);
    span_purge_all();
    assert_int_equal(charged(), 0);
}

static void test_the_hard_limit_refuses_and_spoils_nothing(void **state) {
    (void)state;
    size_t hard = 64 * MIB;
    uint64_t refused = limits_refused_count();
    assert_null(take(1025));
    assert_int_equal(limits_refused_count(), refused + 1);
    assert_int_equal(charged(), 0);
    struct span *span = take(900);
    assert_non_null(span);
    assert_null(take(200));
    assert_false(span_resize(span, 1100));
    assert_int_equal(span->slabs, 900);
    assert_int_equal(charged(), 900 * SLAB);
    /* one by one, to the last slab that the limit holds */
    struct span *small[200];
    unsigned count = 0;
    while ((small[count] = take(1)) != NULL)
        count++;
    assert_true(limits_heap_bytes() <= hard && limits_heap_bytes() + SLAB > hard);
    for (unsigned i = 0; i < count; i++)
        span_give(small[i]);
    /* freed, they still count until they are purged; used again, they do not count twice */
    size_t full = charged();
    for (unsigned i = 0; i < count; i++)
        assert_non_null(small[i] = take(1));
    assert_int_equal(charged(), full);
    for (unsigned i = 0; i < count; i++)
        span_give(small[i]);
    span_give(span);
    span_purge_all();
    assert_int_equal(charged(), 0);
    /* what was refused has left everything as it was: all of it can be had */
    span = take(1000);
    assert_non_null(span);
    span_give(span);
    span_purge_all();
}

static void test_huge_blocks(void **state) {
    (void)state;
    char *block = huge_take(10 * MIB, 1);
    assert_int_equal(charged(), 10 * MIB);
    assert_null(huge_take(60 * MIB, 1));
    assert_null(huge_resize(block, 2 * GIB));
    assert_int_equal(charged(), 10 * MIB);
    assert_true(huge_give(block));
    assert_int_equal(charged(), 0);
    refuse_kind(OS_CALL_MAP);
    assert_null(huge_take(10 * MIB, 1));
    allow_all();
    assert_int_equal(charged(), 0);
}

static void test_kernel_refusals_do_not_count(void **state) {
    (void)state;
    refuse_kind(OS_CALL_PURGE);
    struct span *span = take(32);
    span_give(span);
    span_purge_all();
    assert_int_equal(charged(), 32 * SLAB); /* still there */
    allow_all();
    span = take(32);
    assert_int_equal(charged(), 32 * SLAB);
    span_give(span);
    span_purge_all();
    assert_int_equal(charged(), 0);
}

static void test_the_soft_limit(void **state) {
    (void)state;
    assert_int_equal(limits_excess(), 0);
    struct span *live = take(600);
    struct span *dirty = take(100);
    size_t over = limits_heap_bytes() - 40 * MIB;
    assert_int_equal(limits_excess(), over);
    assert_true(limits_is_first(LIMITS_TELL));
    assert_false(limits_is_first(LIMITS_TELL));
    assert_true(limits_is_first(LIMITS_TRIM));
    assert_int_equal(span_purge_excess(0), 0); /* nothing is free */
    span_give(dirty);
    /* as much as it is over, at least, and at most a SuperSlab more */
    size_t purged = span_purge_excess(1);
    assert_true(purged >= over && purged < over + SUPER_BYTES);
    assert_int_equal(limits_excess(), 0);
    assert_int_equal(span_purge_excess(0), 0);
    /* just below is not below */
    assert_false(limits_is_first(LIMITS_TELL));
    span_purge_all();
    span_give(live);
    span_purge_all();
    assert_true(limits_is_first(LIMITS_TELL));
    assert_int_equal(limits_stats().passed, 2);
}

/* Last: it changes the limits. */
static void test_limits_of_a_cgroup(void **state) {
    (void)state;
    const struct cgroup_limits cgroup = {.memory_bytes = 100 * MIB, .processors = 3};
    cgroup_test_limits = &cgroup;
    span_purge_all();
    options_parse("soft_limit=auto,hard_limit=auto");
    limits_init();
    size_t below = 16 * MIB - limits_heap_bytes();
    struct span *first = take(below / SLAB_BYTES - 4);
    assert_non_null(first);
    assert_int_equal(limits_stats().cgroup_bytes, NO_LIMIT);
    assert_int_equal(limits_processors(), UINT_MAX);
    /* Known before the first block that passes 16 MiB, however large it is. */
    assert_null(take(95 * MIB / SLAB));
    struct limits_stats stats = limits_stats();
    assert_int_equal(stats.cgroup_bytes, 100 * MIB);
    assert_int_equal(stats.soft_bytes, 100 * MIB / 10 * 8);
    assert_int_equal(stats.hard_bytes, 100 * MIB / 10 * 9);
    assert_int_equal(limits_processors(), 3);
    span_give(first);
    /* What the user says counts more. */
    options_parse("soft_limit=30M,hard_limit=0");
    limits_init();
    limits_expect(20 * MIB);
    stats = limits_stats();
    assert_int_equal(stats.soft_bytes, 30 * MIB);
    assert_int_equal(stats.hard_bytes, NO_LIMIT);
    /* Without a cgroup's limit nothing follows from it. */
    const struct cgroup_limits none = {.memory_bytes = CGROUP_UNLIMITED, .processors = UINT_MAX};
    cgroup_test_limits = &none;
    options_parse("soft_limit=auto,hard_limit=auto");
    limits_init();
    limits_expect(20 * MIB);
    stats = limits_stats();
    assert_int_equal(stats.soft_bytes, NO_LIMIT);
    assert_int_equal(stats.hard_bytes, NO_LIMIT);
    cgroup_test_limits = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_counts),
        cmocka_unit_test(test_long_spans),
        cmocka_unit_test(test_the_hard_limit_refuses_and_spoils_nothing),
        cmocka_unit_test(test_huge_blocks),
        cmocka_unit_test(test_kernel_refusals_do_not_count),
        cmocka_unit_test(test_the_soft_limit),
        cmocka_unit_test(test_limits_of_a_cgroup),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
