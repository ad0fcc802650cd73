/* Formatting without allocation: a cursor over a fixed buffer, and the few
 * conversions that reports and statistics need. */
#include "base/format.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_DIGITS = 20 };

struct format_buffer format_begin(char *text, size_t capacity) {
    return (struct format_buffer){.text = text, .capacity = capacity};
}

static void put(struct format_buffer *buffer, char c) {
    /* A newline may use the last byte, so that a cut line still ends. */
    size_t room = buffer->capacity - buffer->length;
    if (room <= 1 && buffer->drain != NULL) {
        buffer->drain(buffer);
        room = buffer->capacity - buffer->length;
    }
    if (room > 1 || (room == 1 && c == '\n'))
        buffer->text[buffer->length++] = c;
}

static void put_padded(struct format_buffer *buffer, const char *text, size_t length,
                       size_t width) {
    for (size_t i = length; i < width; i++)
        put(buffer, ' ');
    for (size_t i = 0; i < length; i++)
        put(buffer, text[i]);
}

void format_text(struct format_buffer *buffer, const char *text) {
    put_padded(buffer, text, strlen(text), 0);
}

static void put_number(struct format_buffer *buffer, uint64_t value, bool negative, unsigned base,
                       size_t width) {
    char digits[MAX_DIGITS + 1];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    if (negative)
        digits[--at] = '-';
    put_padded(buffer, digits + at, sizeof digits - at, width);
}

/* How wide an integer argument is: none, l or z before its letter. */
static uint64_t next_unsigned(va_list *arguments, char length) {
    if (length == 'l')
        return va_arg(*arguments, unsigned long);
    if (length == 'z')
        return va_arg(*arguments, size_t);
    return va_arg(*arguments, unsigned);
}

static int64_t next_signed(va_list *arguments, char length) {
    if (length == 'l')
        return va_arg(*arguments, long);
    if (length == 'z')
        return va_arg(*arguments, ptrdiff_t);
    return va_arg(*arguments, int);
}

static void convert(struct format_buffer *buffer, char letter, char length, size_t width,
                    va_list *arguments) {
    switch (letter) {
    case 's': {
        const char *text = va_arg(*arguments, const char *);
        put_padded(buffer, text, strlen(text), width);
        break;
    }
    case 'c':
        put(buffer, (char)va_arg(*arguments, int));
        break;
    case 'd': {
        int64_t value = next_signed(arguments, length);
        uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
        put_number(buffer, magnitude, value < 0, 10, width);
        break;
    }
    case 'u':
        put_number(buffer, next_unsigned(arguments, length), false, 10, width);
        break;
    case 'x':
        put_number(buffer, next_unsigned(arguments, length), false, 16, width);
        break;
    case 'p':
        format_text(buffer, "0x");
        put_number(buffer, (uintptr_t)va_arg(*arguments, void *), false, 16, width);
        break;
    default:
        put(buffer, letter);
        break;
    }
}

void format_add_v(struct format_buffer *buffer, const char *format, va_list arguments) {
    va_list rest;
    va_copy(rest, arguments);
    for (const char *at = format; *at != '\0'; at++) {
        if (*at != '%') {
            put(buffer, *at);
            continue;
        }
        size_t width = 0;
        for (at++; *at >= '0' && *at <= '9'; at++)
            width = width * 10 + (size_t)(*at - '0');
        char length = '\0';
        if (*at == 'l' || *at == 'z')
            length = *at++;
        convert(buffer, *at, length, width, &rest);
    }
    va_end(rest);
}

void format_add(struct format_buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    format_add_v(buffer, format, arguments);
    va_end(arguments);
}
