/* Clearing pages: all of them and nothing beside, whichever way; and a glance at where they lie
 * reads them alone and changes nothing. */
#include "support.h"

#include <string.h>
#include <sys/mman.h>

#include "os/clear.h"
#include "os/memory.h"

enum { MOST_PAGES = 600, DIRT = 0xa5 };

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

static void assert_all(size_t from, size_t to, unsigned char value) {
    for (size_t i = from * page; i < to * page; i++)
        assert_int_equal(pages[i], value);
}

typedef void clear_fn(void *start, size_t bytes);

/* [from, to) of the pages, which are all dirty. */
static void clear_some(clear_fn *clear, size_t from, size_t to) {
    memset(pages, DIRT, MOST_PAGES * page);
    clear(pages + from * page, (to - from) * page);
    assert_all(0, from, DIRT);
    assert_all(from, to, 0);
    assert_all(to, MOST_PAGES, DIRT);
}

static void clear_and_look(clear_fn *clear) {
    clear_some(clear, 0, MOST_PAGES);
    clear_some(clear, 0, 1);
    clear_some(clear, 7, 8);
    clear_some(clear, 3, 515);
    clear_some(clear, MOST_PAGES - 17, MOST_PAGES);
}

static void test_clears_these_pages_alone(void **state) {
    (void)state;
    clear_and_look(os_clear_pages);
}

static void test_clears_these_pages_alone_past_the_caches(void **state) {
    (void)state;
    clear_and_look(os_clear_uncached);
}

/* Of so many pages at either end: beside them nobody may read. */
static void test_a_glance_stays_inside_and_changes_nothing(void **state) {
    (void)state;
    memset(pages, DIRT, MOST_PAGES * page);
    for (size_t count = 1; count <= MOST_PAGES; count++) {
        os_is_cached(pages, count * page);
        os_is_cached(pages + (MOST_PAGES - count) * page, count * page);
    }
    assert_all(0, MOST_PAGES, DIRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clears_these_pages_alone),
        cmocka_unit_test(test_clears_these_pages_alone_past_the_caches),
        cmocka_unit_test(test_a_glance_stays_inside_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
