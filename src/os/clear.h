/* Zeroes for long blocks whose memory has been used before. See clear.c. Thread safe. */
#ifndef HAK_OS_CLEAR_H
#define HAK_OS_CLEAR_H

#include "base/base.h"

/* Clears whole pages: through the processor's caches if most of these lie there, else past them. */
void os_clear_pages(void *start, size_t bytes);

/* Its parts: where the pages lie, as far as a glance tells, and the way past the caches. */
bool os_is_cached(const void *start, size_t bytes);
void os_clear_uncached(void *start, size_t bytes);

#endif
