/* The part of cmocka that the tests use, for C libraries and processors that Debian has no
 * cmocka for. The first test that fails ends the program. */
#ifndef HAK_TESTS_CMOCKA_H
#define HAK_TESTS_CMOCKA_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state);
    int (*teardown_func)(void **state);
    void *initial_state;
};

#define cmocka_unit_test(function)                                                                 \
    { #function, function, NULL, NULL, NULL }
#define cmocka_unit_test_setup(function, setup)                                                    \
    { #function, function, setup, NULL, NULL }
#define cmocka_unit_test_setup_teardown(function, setup, teardown)                                 \
    { #function, function, setup, teardown, NULL }

__attribute__((noreturn, format(printf, 3, 4))) static inline void
cmocka_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* Where skip() leads. Weak, so that the source files of a program share one: tests need not lie in
 * the file that runs them. */
__attribute__((weak)) jmp_buf cmocka_skipped;

static inline int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests,
                                          size_t count, int (*setup)(void **),
                                          int (*teardown)(void **)) {
    void *shared = NULL;
    printf("%s\n", group);
    if (setup != NULL && setup(&shared) != 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        void *state = tests[i].initial_state != NULL ? tests[i].initial_state : shared;
        printf("  %s\n", tests[i].name);
        fflush(stdout);
        if (tests[i].setup_func != NULL && tests[i].setup_func(&state) != 0)
            return 1;
        if (setjmp(cmocka_skipped) == 0)
            tests[i].test_func(&state);
        else
            printf("  %s: skipped\n", tests[i].name);
        if (tests[i].teardown_func != NULL && tests[i].teardown_func(&state) != 0)
            return 1;
    }
    return teardown != NULL && teardown(&shared) != 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    _cmocka_run_group_tests(#tests, tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)

#define skip() longjmp(cmocka_skipped, 1)
#define fail() cmocka_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...) cmocka_fail(__FILE__, __LINE__, __VA_ARGS__)

#define cmocka_demand(condition, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            cmocka_fail(__FILE__, __LINE__, __VA_ARGS__);                                          \
    } while (0)

/* Numbers and addresses are compared as cmocka does: as the widest unsigned integer. */
#define cmocka_number(value) ((uintmax_t)(value))
#define cmocka_compare(a, relation, b)                                                             \
    do {                                                                                           \
        uintmax_t cmocka_a = cmocka_number(a), cmocka_b = cmocka_number(b);                        \
        cmocka_demand(cmocka_a relation cmocka_b,                                                  \
                      "%s %s %s, but it is %#" PRIxMAX " and %#" PRIxMAX, #a, #relation, #b,       \
                      cmocka_a, cmocka_b);                                                         \
    } while (0)

#define assert_true(condition) cmocka_demand(condition, "%s", #condition)
#define assert_false(condition) cmocka_demand(!(condition), "not %s", #condition)
#define assert_null(pointer) cmocka_demand((pointer) == NULL, "%s is NULL", #pointer)
#define assert_non_null(pointer) cmocka_demand((pointer) != NULL, "%s is not NULL", #pointer)
#define assert_int_equal(a, b) cmocka_compare(a, ==, b)
#define assert_int_not_equal(a, b) cmocka_compare(a, !=, b)
#define assert_ptr_equal(a, b) cmocka_compare((uintptr_t)(a), ==, (uintptr_t)(b))
#define assert_ptr_not_equal(a, b) cmocka_compare((uintptr_t)(a), !=, (uintptr_t)(b))
#define assert_in_range(value, low, high)                                                          \
    do {                                                                                           \
        cmocka_compare(value, >=, low);                                                            \
        cmocka_compare(value, <=, high);                                                           \
    } while (0)
#define assert_string_equal(a, b)                                                                  \
    do {                                                                                           \
        const char *cmocka_a = a, *cmocka_b = b;                                                   \
        cmocka_demand(strcmp(cmocka_a, cmocka_b) == 0, "%s is '%s', not '%s'", #a, cmocka_a,       \
                      cmocka_b);                                                                   \
    } while (0)
#define assert_memory_equal(a, b, bytes)                                                           \
    cmocka_demand(memcmp(a, b, bytes) == 0, "%s holds the same as %s", #a, #b)

#endif
