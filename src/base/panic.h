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

/* From now on more is printed between that line and the end, by this function. Once, at the
 * start. */
void hak_panic_with(void (*print_more)(void));

/* The same in steps, for reports of several lines: the first one, then hak_warn for each more,
 * then the end. */
void hak_report(enum hak_report_kind kind, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));
_Noreturn void hak_abort(void) __attribute__((cold));

/* From now on all that is printed goes to another file descriptor than standard error's. */
void hak_print_to(int descriptor);

/* Prints "hakmem: " and the formatted text as one line on standard error. */
void hak_warn(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

_Noreturn void hak_assert_failed(const char *condition, const char *file, int line)
    __attribute__((cold));

#endif
