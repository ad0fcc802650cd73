/* What is in memory all over becomes huge pages, and is split before a part of it goes. */
#include "support.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/calls.h"
#include "os/huge_pages.h"
#include "os/mappings.h"
#include "os/options.h"
#include "os/system.h"
#include "span/limits.h"
#include "span/span.h"

/* --- pages of this process's own ---------------------------------------------------- */

static void test_own_pages(void **state) {
    (void)state;
    enum { PAGES = 700, TOUCHED = 600 }; /* more than one call into the kernel tells */
    size_t page = os_page_size();
    char *start = os_map_aligned(PAGES * page, page);
    assert_non_null(start);
    assert_int_equal(os_own_pages(start, PAGES * page), 0);
    memset(start, 1, TOUCHED * page);
    if (os_own_pages(start, page) == 0)
        skip(); /* an emulator, or no /proc */
    assert_int_equal(os_own_pages(start, PAGES * page), TOUCHED);
    assert_int_equal(os_own_pages(start + (TOUCHED - 1) * page, 2 * page), 1);
    refuse_kind(OS_CALL_READ);
    assert_int_equal(os_own_pages(start, PAGES * page), 0);
    allow_all();

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    start[0]++;
    assert_int_equal(os_own_pages(start, PAGES * page), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(os_own_pages(start, PAGES * page), TOUCHED);
    os_unmap(start, PAGES * page);
}

/* --- SuperSlabs ------------------------------------------------------------------------ */

enum { SPANS = 20, WHOLE = 19 }; /* the last of them is not in memory all over */

static struct span *take(void) {
    struct span_request request = {
        .slabs = SUPER_SLABS,
        .slabs_least = SUPER_SLABS,
        .alignment = 1,
        .state = SPAN_LARGE,
        .pages = SPAN_USED,
    };
    bool is_zero;
    struct span *span = span_take(0, &request, &is_zero);
    assert_non_null(span);
    return span;
}

static struct super *super_of(const struct span *span) {
    return window_super(window_super_index(span->start));
}

static bool is_collapsed(const struct span *span) {
    return atomic_load_explicit(&super_of(span)->is_collapsed, memory_order_relaxed);
}

static unsigned count_collapsed(struct span *const *spans) {
    unsigned count = 0;
    for (int i = 0; i < SPANS; i++)
        count += is_collapsed(spans[i]);
    return count;
}

static volatile unsigned work;

/* What it needs of a program: that it uses the processor. */
static void use_ms(uint64_t ms) {
    uint64_t end_us = os_process_cpu_us() + ms * 1000;
    while (os_process_cpu_us() < end_us)
        work++;
}

/* Until as many are collapsed as were expected, or for so long. */
static unsigned collapse_ms(struct span *const *spans, unsigned expected, uint64_t ms) {
    uint64_t end_us = os_process_cpu_us() + ms * 1000;
    unsigned count;
    while ((count = count_collapsed(spans)) < expected && os_process_cpu_us() < end_us) {
        span_collapse();
        use_ms(10);
    }
    return count;
}

/* Whether this kernel makes huge pages on demand, and tells which pages are whose. */
static bool kernel_collapses(void) {
    char *start = os_map_aligned(SUPER_BYTES, SUPER_BYTES);
    assert_non_null(start);
    memset(start, 1, SUPER_BYTES);
    bool does = os_huge_page_bytes(SUPER_BYTES) == SUPER_BYTES &&
                os_own_pages(start, SUPER_BYTES) != 0 && os_collapse(start, SUPER_BYTES);
    os_unmap(start, SUPER_BYTES);
    return does;
}

enum { START_MS = 2000, SHORT_MS = 200, LONG_MS = 60000 };

/* Not in a process that has just begun, nor where the profile has none, nor over the soft limit. */
static void check_not_wanted(struct span *const *spans) {
    unsigned early = collapse_ms(spans, 1, SHORT_MS);
    if (os_process_cpu_us() < START_MS * UINT64_C(1000))
        assert_int_equal(early, 0);
    use_ms(START_MS);
    options_parse("profile=lean");
    assert_false(span_may_collapse());
    assert_int_equal(collapse_ms(spans, 1, SHORT_MS), 0);
    options_parse("profile=balanced");
    size_t soft = atomic_exchange(&limits_now.soft, limits_heap_bytes() / 2);
    assert_int_equal(collapse_ms(spans, 1, SHORT_MS), 0);
    atomic_store(&limits_now.soft, soft);
}

static void test_collapsed(void **state) {
    (void)state;
    if (!kernel_collapses())
        skip();
    struct span *spans[SPANS];
    for (int i = 0; i < SPANS; i++) {
        spans[i] = take();
        memset(spans[i]->start, 1, SUPER_BYTES - (i < WHOLE ? 0 : SUPER_BYTES / 16));
    }
    assert_true(span_may_collapse());
    check_not_wanted(spans);

    /* A kernel that refuses is not asked again at once. */
    refuse_kind(OS_CALL_ADVISE);
    uint64_t advised = os_call_count(OS_CALL_ADVISE);
    assert_int_equal(collapse_ms(spans, 1, SHORT_MS), 0);
    assert_int_equal(os_call_count(OS_CALL_ADVISE), advised + 1);
    allow_all();

    assert_int_equal(collapse_ms(spans, WHOLE, LONG_MS), WHOLE);
    assert_int_equal(span_collapse_stats().collapsed, WHOLE);
    collapse_ms(spans, SPANS, SHORT_MS);
    assert_false(is_collapsed(spans[WHOLE]));

    /* A part goes: it is split, once, and stays so for a while though it is whole again. */
    struct super *super = super_of(spans[0]);
    advised = os_call_count(OS_CALL_ADVISE);
    assert_true(span_resize(spans[0], SUPER_SLABS - 2));
    assert_int_equal(span_purge_all(), 2 * (size_t)SLAB_BYTES);
    assert_int_equal(os_call_count(OS_CALL_ADVISE), advised + 1);
    assert_false(is_collapsed(spans[0]));
    assert_int_equal(span_collapse_stats().split, 1);
    span_split(spans[0]->start, span_bytes(spans[0]));
    assert_int_equal(os_call_count(OS_CALL_ADVISE), advised + 1);
    assert_true(span_resize(spans[0], SUPER_SLABS));
    memset(spans[0]->start, 1, SUPER_BYTES);
    collapse_ms(spans, SPANS, SHORT_MS);
    assert_false(is_collapsed(spans[0]));
    atomic_store(&super->split_ms, 1);
    assert_int_equal(collapse_ms(spans, WHOLE, LONG_MS), WHOLE);
    assert_true(is_collapsed(spans[0]));

    /* The whole goes: there is nothing to split. */
    for (int i = 0; i < SPANS; i++)
        span_give(spans[i]);
    advised = os_call_count(OS_CALL_ADVISE);
    span_purge_all();
    assert_int_equal(os_call_count(OS_CALL_ADVISE), advised);
    assert_int_equal(count_collapsed(spans), 0);
}

static int start(void **state) {
    (void)state;
    start_layers("shards=2,profile=balanced", 256 * MIB);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_pages),
        cmocka_unit_test(test_collapsed),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
