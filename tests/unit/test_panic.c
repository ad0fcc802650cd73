/* The reports: the words that users' scripts match, one line each, SIGABRT. */
#include "support.h"

#include <errno.h>
#include <string.h>

#include "base/panic.h"

static const char *const kinds[] = {
    [HAK_DOUBLE_FREE] = "double free",
    [HAK_INVALID_POINTER] = "invalid pointer",
    [HAK_MISALIGNED_POINTER] = "misaligned pointer",
    [HAK_HEAP_OVERFLOW] = "heap overflow",
    [HAK_USE_AFTER_FREE] = "use after free",
    [HAK_SIZE_MISMATCH] = "size mismatch",
    [HAK_OUT_OF_MEMORY] = "out of memory",
    [HAK_CORRUPTED_HEAP] = "corrupted heap",
};

static void panic(void *kind) { hak_panic(*(enum hak_report_kind *)kind, "free(%d)", 42); }

static void test_every_kind(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        char report[64] = "hakmem: ";
        strcat(report, kinds[kind]);
        strcat(report, ": free(42)\n");
        enum hak_report_kind argument = kind;
        assert_dies(panic, &argument, report, NULL);
    }
}

static char endless[2000];

static void panic_at_length(void *context) {
    (void)context;
    hak_panic(HAK_INVALID_POINTER, "%s", endless);
}

static void test_long_report_is_one_line(void **state) {
    (void)state;
    memset(endless, 'x', sizeof endless - 1);
    assert_dies(panic_at_length, NULL, "hakmem: invalid pointer: xxx", "xxx\n", NULL);
}

static void fail_assertion(void *context) {
    (void)context;
    hak_assert_failed("1 == 2", "some/file.c", 7);
}

static void test_assertion(void **state) {
    (void)state;
    assert_dies(fail_assertion, NULL, "hakmem: corrupted heap: some/file.c:7: ", "1 == 2", NULL);
}

static void warn(void *context) {
    (void)context;
    errno = 77;
    hak_warn("option %s: %d", "name", 3);
}

static void test_warning_goes_on(void **state) {
    (void)state;
    char text[256];
    catch_stderr(warn, NULL, text, sizeof text);
    assert_string_equal(text, "hakmem: option name: 3\n");
    assert_int_equal(errno, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_long_report_is_one_line),
        cmocka_unit_test(test_assertion),
        cmocka_unit_test(test_warning_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
