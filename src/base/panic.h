/* Reports that end the process, and those that do not. See panic.c. */
#ifndef HAK_BASE_PANIC_H
#define HAK_BASE_PANIC_H

#include <stddef.h>

/* The kinds that reports begin with; users' scripts match these words. */
enum hak_report_kind {
    HAK_DOUBLE_FREE,
    HAK_INVALID_POINTER,
    HAK_MISALIGNED_POINTER,
    HAK_HEAP_OVERFLOW,
    HAK_USE_AFTER_FREE,
    HAK_SIZE_MISMATCH,
    HAK_OUT_OF_MEMORY,
    HAK_CORRUPTED_HEAP,
};

/* Prints "hakmem: KIND: " and the formatted text (base/format.h) as one line on
 * standard error, then raises SIGABRT. Does not allocate. */
_Noreturn void hak_panic(enum hak_report_kind kind, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/* Prints "hakmem: " and the formatted text as one line on standard error. */
void hak_warn(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

_Noreturn void hak_assert_failed(const char *condition, const char *file, int line)
    __attribute__((cold));

#endif
