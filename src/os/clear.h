/* Zeroes for long blocks whose memory has been used before. See clear.c. Thread safe. */
#ifndef HAK_OS_CLEAR_H
#define HAK_OS_CLEAR_H

#include "base/base.h"

/* Ways to clear memory that lies in no cache; afterwards the caches have it, but for the last. */
enum clear_way {
    CLEAR_LIBC,   /* memset, which chooses by length and processor, but not by where memory lies */
    CLEAR_STORE,  /* line by line */
    CLEAR_STREAM, /* line by line, past the caches */
    CLEAR_WAYS,
};

/* start: a multiple of 16. Past the caches only if may_stream. */
void os_clear(void *start, size_t bytes, bool may_stream);

/* Its parts: where a page or more lies, as far as a glance tells; one way; which way is due; and
 * how long one has taken, which decides the next. */
bool os_is_cached(const void *start, size_t bytes);
void os_clear_by(enum clear_way way, void *start, size_t bytes);
enum clear_way os_clear_next(bool may_stream);
void os_clear_took(enum clear_way way, uint64_t ns, size_t bytes);

#endif
