/* The process's own memory as the kernel sees it. See mappings.c. */
#ifndef HAK_OS_MAPPINGS_H
#define HAK_OS_MAPPINGS_H

#include "base/base.h"

/* Calls visit for each mapping that may be read and written to, in ascending order. False: the
 * kernel does not tell (no /proc). */
bool os_visit_mappings(void (*visit)(uintptr_t start, uintptr_t end, void *context), void *context);

/* Copies memory that may be gone by now, or be inaccessible. False: none, or not all of it. */
bool os_read_memory(uintptr_t from, void *to, size_t bytes);

/* How many of the pages in [start, start + bytes) are in memory and of this process alone: none
 * that a fork has left with a parent or child, too. 0: none, or the kernel does not tell. */
size_t os_own_pages(const void *start, size_t bytes);

#endif
