/* hak_check_heap as programs see it: what it says of a heap that is not whole, that it ends the
 * process, and that it finds what a free has left in a bin before the bin goes home. */
#include "../unit/support.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include "hakmem/hakmem.h"
#include "slab/slab.h"

enum { ODD_ERRNO = 12345 };

static void *blocks[100];

static int set_up(void **state) {
    (void)state;
    for (size_t i = 0; i < 100; i++)
        assert_non_null(blocks[i] = hak_malloc(64));
    return 0;
}

static void whole_heap_is_zero(void **state) {
    (void)state;
    errno = ODD_ERRNO;
    assert_int_equal(hak_check_heap(), 0);
    assert_int_equal(errno, ODD_ERRNO);
}

static void check(void *unused) {
    (void)unused;
    hak_check_heap();
}

static void free_twice(void *block) {
    hak_free(block);
    hak_free(block);
    hak_check_heap();
}

static void free_inside(void *block) {
    hak_free((char *)block + 32);
    hak_check_heap();
}

static void contradiction_is_named(void **state) {
    (void)state;
    struct span *span = span_of(blocks[0]);
    span->free_count++;
    assert_dies(check, NULL, "hakmem: corrupted heap: ", "size class 64", "noted, but", NULL);
    span->free_count--;
    whole_heap_is_zero(state);
}

static void mistakes_in_a_bin_are_seen(void **state) {
    (void)state;
    assert_dies(free_twice, blocks[7], "hakmem: corrupted heap: block 0x", "size class 64",
                "is in a bin twice", NULL);
    assert_dies(free_inside, blocks[7], "hakmem: corrupted heap: 0x", "size class 64",
                "is no block of that class", NULL);
}

static sigjmp_buf after_report;

static void jump_out(int signal) {
    (void)signal;
    siglongjmp(after_report, 1);
}

static void *use_heap(void *unused) {
    (void)unused;
    for (size_t size = 1; size < 4 << 20; size += size / 2 + 1) {
        void *block = hak_malloc(size);
        hak_free(block);
    }
    hak_purge();
    return NULL;
}

/* No lock is held when the signal comes: the heap can still be used, here and elsewhere. */
static void report_holds_no_lock(void *unused) {
    (void)unused;
    struct span *span = span_of(blocks[0]);
    uint16_t touched = span->touched;
    signal(SIGABRT, jump_out);
    if (sigsetjmp(after_report, 1) == 0) {
        span->touched = 0;
        hak_check_heap();
        _Exit(1);
    }
    span->touched = touched;
    use_heap(NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, use_heap, NULL) != 0 || pthread_join(thread, NULL) != 0)
        _Exit(2);
    hak_check_heap();
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void heap_can_be_used_after_a_report(void **state) {
    (void)state;
    assert_dies(report_holds_no_lock, NULL, "hakmem: corrupted heap: ", "said never to have been",
                NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_heap_is_zero),
        cmocka_unit_test(contradiction_is_named),
        cmocka_unit_test(mistakes_in_a_bin_are_seen),
        cmocka_unit_test(heap_can_be_used_after_a_report),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
