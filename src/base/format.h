/* Text into a fixed buffer without allocating, where stdio may not be used:
 * inside the allocator, at exit, in a panic.
 *
 * The formats are a subset of printf's: %s %c %d %u %x %p %%, with l and z as
 * length modifiers for the integers and a minimal field width for %s, %d, %u, %x. What
 * does not fit is cut; one byte is always kept so that a closing newline has
 * room. Not thread safe: each buffer has one user. */
#ifndef HAK_BASE_FORMAT_H
#define HAK_BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

struct format_buffer {
    char *text;      /* not terminated */
    size_t length;   /* bytes in use, <= capacity */
    size_t capacity; /* bytes */
    /* Called when the text is full, if set: writes it out and empties it. */
    void (*drain)(struct format_buffer *buffer);
    int drain_target; /* for drain: a file descriptor */
    int drain_error;  /* set by drain: the errno of a failed write, or 0 */
};

struct format_buffer format_begin(char *text, size_t capacity);
void format_text(struct format_buffer *buffer, const char *text);
void format_add(struct format_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void format_add_v(struct format_buffer *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
