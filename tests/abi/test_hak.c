/* HAKMEM's own names: version, options, statistics, and blocks that cross from
 * one family of names to the other. Linked with the library, header included. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hakmem/hakmem.h"

static void version_is_the_headers(void **state) {
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", HAK_VERSION_MAJOR, HAK_VERSION_MINOR,
             HAK_VERSION_PATCH);
    assert_string_equal(hak_version(), expected);
}

static void options_can_be_read(void **state) {
    (void)state;
    char text[64];
    assert_int_equal(hak_option_get("profile", text, sizeof text), strlen("balanced"));
    assert_string_equal(text, "balanced");
    assert_int_equal(hak_option_get("stats", text, sizeof text), strlen("off"));
    assert_string_equal(text, "off");
}

static void options_are_cut_to_the_buffer(void **state) {
    (void)state;
    char text[8] = "xxxxxxx";
    assert_int_equal(hak_option_get("profile", text, 4), strlen("balanced"));
    assert_string_equal(text, "bal");
    assert_memory_equal(text + 4, "xxx", 3);
    assert_int_equal(hak_option_get("profile", text, 1), strlen("balanced"));
    assert_string_equal(text, "");
}

static void unknown_options_are_einval(void **state) {
    (void)state;
    char text[64];
    errno = 0;
    assert_int_equal(hak_option_get("frobnicate", text, sizeof text), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(hak_option_get("", text, sizeof text), -1);
    assert_int_equal(errno, EINVAL);
}

static void statistics_can_be_written(void **state) {
    (void)state;
    for (int format = HAK_STATS_TEXT; format <= HAK_STATS_JSON; format++) {
        int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
        assert_true(file >= 0);
        assert_int_equal(hak_stats_write(file, (enum hak_stats_format)format), 0);
        char text[51] = "";
        assert_int_equal(pread(file, text, 50, 0), 50);
        if (format == HAK_STATS_JSON) { /* a real parser reads it in test_reports.py */
            assert_int_equal(text[0], '{');
            assert_non_null(strstr(text, "\"schema\": 1,"));
        }
        close(file);
    }
}

static void statistics_report_their_errors(void **state) {
    (void)state;
    errno = 0;
    assert_int_equal(hak_stats_write(-1, HAK_STATS_JSON), -1);
    assert_int_equal(errno, EBADF);
    int full = open("/dev/full", O_WRONLY);
    errno = 0;
    assert_int_equal(hak_stats_write(full, HAK_STATS_TEXT), -1);
    assert_int_equal(errno, ENOSPC);
    close(full);
    errno = 0;
    assert_int_equal(hak_stats_write(STDERR_FILENO, (enum hak_stats_format)77), -1);
    assert_int_equal(errno, EINVAL);
}

/* volatile pointers, so that the compiler does not judge the pairs. */
static void (*volatile libc_free)(void *) = free;
static void *(*volatile libc_malloc)(size_t) = malloc;
static void *(*volatile libc_realloc)(void *, size_t) = realloc;

static void blocks_cross_between_the_names(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 100, 5000, 100000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *block = hak_malloc(sizes[i]);
        assert_non_null(block);
        assert_int_equal(malloc_usable_size(block), hak_malloc_usable_size(block));
        memset(block, 'a', sizes[i]);
        block = libc_realloc(block, sizes[i] * 2);
        assert_non_null(block);
        assert_int_equal(block[sizes[i] - 1], 'a');
        libc_free(block);
        hak_free(libc_malloc(sizes[i]));
        hak_free(aligned_alloc(256, 256));
        libc_free(hak_calloc(3, sizes[i]));
    }
}

/* A number near the top of the statistics. */
static unsigned long figure(const char *name) {
    int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    assert_true(file >= 0);
    assert_int_equal(hak_stats_write(file, HAK_STATS_JSON), 0);
    char text[1024] = "";
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    close(file);
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\": ", name);
    const char *at = strstr(text, pattern);
    assert_non_null(at);
    return strtoul(at + strlen(pattern), NULL, 10);
}

/* With the program, or in threads' caches. */
static size_t blocks_out(void) { return figure("blocks_taken") - figure("blocks_given"); }

enum { IDLE_BLOCKS = 1000 };
static void *kept[IDLE_BLOCKS];

/* Takes blocks of all small sizes, keeps half. */
static void fill_caches(void) {
    for (size_t i = 0; i < IDLE_BLOCKS; i++) {
        kept[i] = libc_malloc(1 + i);
        assert_non_null(kept[i]);
        memset(kept[i], (int)i, 1 + i);
    }
    for (size_t i = 0; i < IDLE_BLOCKS; i += 2)
        libc_free(kept[i]);
}

static void empty_caches(void) {
    for (size_t i = 1; i < IDLE_BLOCKS; i += 2) {
        assert_int_equal(((unsigned char *)kept[i])[i], (unsigned char)i);
        libc_free(kept[i]);
    }
}

/* In the thread itself: what it holds stays, what its cache held is home; and it goes on. */
static void idle_threads_give_up_their_cache(void **state) {
    (void)state;
    hak_thread_idle();
    size_t before = blocks_out();
    for (int round = 0; round < 3; round++) {
        fill_caches();
        assert_true(blocks_out() > before + IDLE_BLOCKS / 2);
        errno = 12345;
        hak_thread_idle();
        assert_int_equal(errno, 12345);
        assert_int_equal(blocks_out(), before + IDLE_BLOCKS / 2);
        hak_thread_idle();
        empty_caches();
        hak_thread_idle();
        assert_int_equal(blocks_out(), before);
    }
}

static void *idle_and_end(void *argument) {
    (void)argument;
    hak_thread_idle(); /* before its first call */
    void *block = libc_malloc(100);
    libc_free(block);
    hak_thread_idle();
    return NULL;
}

static void *idle_and_work(void *argument) {
    idle_and_end(argument);
    libc_free(libc_malloc(100));
    return NULL;
}

/* What ends while it is idle ended once; what went on ends as any thread. */
static void idle_threads_end_once(void **state) {
    (void)state;
    void *(*const ways[])(void *) = {idle_and_end, idle_and_work};
    hak_thread_idle();
    size_t before = blocks_out();
    for (size_t i = 0; i < 64; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, ways[i % 2], NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        hak_thread_idle();
        assert_int_equal(figure("threads"), 0);
    }
    /* But for what the C library keeps of a thread for the next; we do so, too, until then. */
    hak_purge();
    assert_in_range(blocks_out(), before, before + 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_the_headers),
        cmocka_unit_test(options_can_be_read),
        cmocka_unit_test(options_are_cut_to_the_buffer),
        cmocka_unit_test(unknown_options_are_einval),
        cmocka_unit_test(statistics_can_be_written),
        cmocka_unit_test(statistics_report_their_errors),
        cmocka_unit_test(blocks_cross_between_the_names),
        cmocka_unit_test(idle_threads_give_up_their_cache),
        cmocka_unit_test(idle_threads_end_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
