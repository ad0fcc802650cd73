/* Clearing: all of it and nothing beside, whichever way; a glance at where pages lie reads them
 * alone and changes nothing; and the way that has been fastest is taken. */
#include "support.h"

#include <string.h>
#include <sys/mman.h>

#include "os/clear.h"
#include "os/memory.h"

enum { MOST_PAGES = 600, DIRT = 0xa5 };

/* What os_clear may do, beside its ways. */
enum { MAY_NOT_STREAM = CLEAR_WAYS, MAY_STREAM };

static size_t page;
static unsigned char *pages; /* MOST_PAGES, between two that nobody may touch */

static int start(void **state) {
    (void)state;
    start_os("");
    page = os_page_size();
    pages = mmap(NULL, (MOST_PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    pages += page;
    assert_int_equal(mprotect(pages, MOST_PAGES * page, PROT_READ | PROT_WRITE), 0);
    return 0;
}

/* Bytes [from, to) of the pages. */
static void assert_all(size_t from, size_t to, unsigned char value) {
    for (size_t i = from; i < to; i++)
        assert_int_equal(pages[i], value);
}

static void clear_any(unsigned way, void *start, size_t bytes) {
    if (way < CLEAR_WAYS)
        os_clear_by((enum clear_way)way, start, bytes);
    else
        os_clear(start, bytes, way == MAY_STREAM);
}

/* [from, to) of the pages, all of which are dirty. */
static void clear_some(unsigned way, size_t from, size_t to) {
    memset(pages, DIRT, MOST_PAGES * page);
    clear_any(way, pages + from, to - from);
    assert_all(0, from, DIRT);
    assert_all(from, to, 0);
    assert_all(to, MOST_PAGES * page, DIRT);
}

static void test_clears_these_bytes_alone(void **state) {
    (void)state;
    size_t end = MOST_PAGES * page;
    for (unsigned way = 0; way <= MAY_STREAM; way++) {
        clear_some(way, 0, end);
        clear_some(way, 0, page);
        clear_some(way, 3 * page, 515 * page);
        clear_some(way, end - 17 * page, end);
        clear_some(way, 7 * page + 16, end);
        clear_some(way, page, 400 * page + 1);
        clear_some(way, 5 * page + 48, 300 * page + 63);
        clear_some(way, end - 48, end - 1);
        clear_some(way, end, end);
    }
}

/* Of so many pages at either end: beside them nobody may read. */
static void test_a_glance_stays_inside_and_changes_nothing(void **state) {
    (void)state;
    memset(pages, DIRT, MOST_PAGES * page);
    for (size_t count = 1; count <= MOST_PAGES; count++) {
        os_is_cached(pages, count * page);
        os_is_cached(pages + (MOST_PAGES - count) * page, count * page);
    }
    assert_all(0, MOST_PAGES * page, DIRT);
}

/* How often each way is next. */
struct chosen {
    unsigned times[CLEAR_WAYS];
};

enum { ROUNDS = 480 };

/* Each use takes so many ns a MiB. */
static struct chosen choose(bool may_stream, const unsigned paces[CLEAR_WAYS]) {
    struct chosen chosen = {{0}};
    for (unsigned i = 0; i < ROUNDS; i++) {
        enum clear_way way = os_clear_next(may_stream);
        assert_in_range(way, 0, may_stream ? CLEAR_STREAM : CLEAR_STORE);
        chosen.times[way]++;
        os_clear_took(way, UINT64_C(2) * paces[way], 2 * MIB);
    }
    return chosen;
}

/* Nine in ten go the fastest way, and each other is tried again. */
static void assert_fastest(bool may_stream, enum clear_way fastest, unsigned libc, unsigned store,
                           unsigned stream) {
    unsigned paces[CLEAR_WAYS] = {libc, store, stream};
    choose(may_stream, paces); /* it takes some uses to see */
    struct chosen chosen = choose(may_stream, paces);
    assert_in_range(chosen.times[fastest], ROUNDS * 9 / 10, ROUNDS - 1);
    for (unsigned way = 0; way < (may_stream ? CLEAR_WAYS : CLEAR_STREAM); way++)
        assert_int_not_equal(chosen.times[way], 0);
}

static void test_the_fastest_way_is_next(void **state) {
    (void)state;
#if !defined(__SSE2__)
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_int_equal(os_clear_next(true), CLEAR_LIBC);
    skip();
#endif
    assert_fastest(true, CLEAR_STORE, 100000, 80000, 110000);
    assert_fastest(true, CLEAR_STREAM, 100000, 80000, 40000);
    assert_fastest(false, CLEAR_STORE, 100000, 80000, 40000);
    /* Past the caches only for a quarter of the time. */
    assert_fastest(true, CLEAR_STORE, 100000, 80000, 70000);
    /* The processor may change its speed, or be another's for a while. */
    assert_fastest(true, CLEAR_LIBC, 300000, 320000, 400000);
    assert_fastest(true, CLEAR_STREAM, 30000, 32000, 9000);
    os_clear_took(CLEAR_STREAM, 3000000000, MIB);
    assert_fastest(true, CLEAR_STREAM, 30000, 32000, 9000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clears_these_bytes_alone),
        cmocka_unit_test(test_a_glance_stays_inside_and_changes_nothing),
        cmocka_unit_test(test_the_fastest_way_is_next),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
