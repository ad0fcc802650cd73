/* How HAKMEM ends a process that broke the heap's contract: one line, one
 * write, then abort; a report that knows more adds lines of its own between. Nothing
 * here allocates or takes a lock, for the heap may be broken and its locks held.
 *
 * This is the one place outside src/os that calls into the system: write and
 * abort, because every layer must be able to give up. */
#include "base/panic.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/format.h"

enum { REPORT_CAPACITY = 512 };

static const char *const kind_names[] = {
    [HAK_DOUBLE_FREE] = "double free",
    [HAK_INVALID_POINTER] = "invalid pointer",
    [HAK_MISALIGNED_POINTER] = "misaligned pointer",
    [HAK_HEAP_OVERFLOW] = "heap overflow",
    [HAK_USE_AFTER_FREE] = "use after free",
    [HAK_SIZE_MISMATCH] = "size mismatch",
    [HAK_OUT_OF_MEMORY] = "out of memory",
    [HAK_CORRUPTED_HEAP] = "corrupted heap",
};

static int descriptor = STDERR_FILENO;
static void (*print_more)(void);

void hak_print_to(int file) { descriptor = file; }

void hak_panic_with(void (*function)(void)) { print_more = function; }

static void print_line(struct format_buffer *line) {
    format_text(line, "\n");
    int saved_errno = errno;
    const char *at = line->text;
    size_t left = line->length;
    while (left != 0) {
        ssize_t written = write(descriptor, at, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        at += written;
        left -= (size_t)written;
    }
    errno = saved_errno;
}

static void print_report(enum hak_report_kind kind, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
static void print_report(enum hak_report_kind kind, const char *format, va_list arguments) {
    char text[REPORT_CAPACITY];
    struct format_buffer line = format_begin(text, sizeof text);
    format_add(&line, "hakmem: %s: ", kind_names[kind]);
    format_add_v(&line, format, arguments);
    print_line(&line);
}

void hak_panic(enum hak_report_kind kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_report(kind, format, arguments);
    va_end(arguments);
    if (print_more != NULL)
        print_more();
    abort();
}

void hak_report(enum hak_report_kind kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_report(kind, format, arguments);
    va_end(arguments);
}

void hak_abort(void) { abort(); }

void hak_warn(const char *format, ...) {
    char text[REPORT_CAPACITY];
    struct format_buffer line = format_begin(text, sizeof text);
    format_text(&line, "hakmem: ");
    va_list arguments;
    va_start(arguments, format);
    format_add_v(&line, format, arguments);
    va_end(arguments);
    print_line(&line);
}

void hak_assert_failed(const char *condition, const char *file, int line) {
    hak_panic(HAK_CORRUPTED_HEAP, "%s:%d: assertion failed: %s", file, line, condition);
}
