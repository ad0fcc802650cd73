/* What the kernel gives who asks for huge pages. See huge_pages.c. Thread safe. */
#ifndef HAK_OS_HUGE_PAGES_H
#define HAK_OS_HUGE_PAGES_H

#include "base/base.h"

/* The largest page, up to most_bytes, that memory advised with os_ask_huge_pages may be
 * given; 0: the kernel gives none. Reads /sys each time. */
size_t os_huge_page_bytes(size_t most_bytes);

/* The same of other files than those of this kernel: read puts the text of one of
 * /sys/kernel/mm/transparent_hugepage into text, or is false. */
typedef bool huge_page_reader(const char *name, char *text, size_t capacity);
size_t huge_page_bytes(huge_page_reader *read, size_t page_bytes, size_t most_bytes);

#endif
