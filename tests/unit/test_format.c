/* format.c against printf, and what happens when the text does not fit. */
#include "support.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"

#define ASSERT_AS_PRINTF(...)                                                                      \
    do {                                                                                           \
        char expected[256], text[256];                                                             \
        int length = snprintf(expected, sizeof expected, __VA_ARGS__);                             \
        struct format_buffer buffer = format_begin(text, sizeof text);                             \
        format_add(&buffer, __VA_ARGS__);                                                          \
        assert_int_equal(buffer.length, length);                                                   \
        assert_memory_equal(text, expected, (size_t)length);                                       \
    } while (0)

static void test_conversions(void **state) {
    (void)state;
    ASSERT_AS_PRINTF("plain, %% and %c", 'x');
    ASSERT_AS_PRINTF("%s|%s|", "", "some text");
    ASSERT_AS_PRINTF("%8s|%2s|", "abc", "longer");
    ASSERT_AS_PRINTF("%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
    ASSERT_AS_PRINTF("%5d|%2d|%6d", 42, 12345, -77);
    ASSERT_AS_PRINTF("%ld %ld %ld", 0L, LONG_MAX, LONG_MIN);
    ASSERT_AS_PRINTF("%zd %zu", (ptrdiff_t)PTRDIFF_MIN, (size_t)SIZE_MAX);
    ASSERT_AS_PRINTF("%u %u %lu", 0u, UINT_MAX, ULONG_MAX);
    ASSERT_AS_PRINTF("%x %x %lx %zx", 0u, 0xbeefu, ULONG_MAX, (size_t)0x123456789abcdefULL);
    ASSERT_AS_PRINTF("%12zu|%3lu|%10x", (size_t)7, 1234567UL, 0xffu);
    ASSERT_AS_PRINTF("%p", (void *)0x7fff12345678);
}

static void test_random_numbers(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 10000; i++) {
        /* Every length in digits as likely as every other. */
        unsigned long number = random_next(&seed) >> random_below(&seed, 64);
        ASSERT_AS_PRINTF("%lu %ld %lx %u %d", number, (long)number, number, (unsigned)number,
                         (int)number);
    }
}

/* What is cut is a prefix, and one byte stays for a closing newline. */
static void test_cut(void **state) {
    (void)state;
    static const char whole[] = "0123456789 12345";
    for (size_t capacity = 1; capacity < sizeof whole + 3; capacity++) {
        char text[32];
        memset(text, '#', sizeof text);
        struct format_buffer buffer = format_begin(text, capacity);
        format_add(&buffer, "%s %d", "0123456789", 12345);
        size_t fits = capacity - 1 < sizeof whole - 1 ? capacity - 1 : sizeof whole - 1;
        assert_int_equal(buffer.length, fits);
        assert_memory_equal(text, whole, fits);
        format_text(&buffer, "\n");
        assert_int_equal(buffer.length, fits + 1);
        assert_int_equal(text[fits], '\n');
        assert_int_equal(text[capacity], '#');
    }
}

static char drained[4096];
static size_t drained_length;

static void drain(struct format_buffer *buffer) {
    memcpy(drained + drained_length, buffer->text, buffer->length);
    drained_length += buffer->length;
    buffer->length = 0;
}

static void test_drain(void **state) {
    (void)state;
    char small[8];
    struct format_buffer buffer = format_begin(small, sizeof small);
    buffer.drain = drain;
    char expected[4096] = "";
    size_t length = 0;
    for (int i = 0; i < 300; i++) {
        format_add(&buffer, "%d,", i * 37);
        length += (size_t)snprintf(expected + length, sizeof expected - length, "%d,", i * 37);
    }
    drain(&buffer);
    assert_int_equal(drained_length, length);
    assert_memory_equal(drained, expected, length);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
