/* HAKMEM's own names: version, options, statistics, and blocks that cross from
 * one family of names to the other. Linked with the library, header included. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_the_headers),
        cmocka_unit_test(options_can_be_read),
        cmocka_unit_test(options_are_cut_to_the_buffer),
        cmocka_unit_test(unknown_options_are_einval),
        cmocka_unit_test(statistics_can_be_written),
        cmocka_unit_test(statistics_report_their_errors),
        cmocka_unit_test(blocks_cross_between_the_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
