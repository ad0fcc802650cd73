/* Address space and pages: the kernel's side of the allocator. See memory.c.
 *
 * All sizes and addresses are multiples of os_page_size() unless a line says
 * otherwise. Functions that return a pointer return NULL when the kernel
 * refuses; nothing here sets errno for the caller to see or panics. Thread
 * safe. */
#ifndef HAK_OS_MEMORY_H
#define HAK_OS_MEMORY_H

#include "base/base.h"

/* Huge pages: as the kernel is set, asked for, refused. */
enum os_thp { OS_THP_DEFAULT, OS_THP_ALWAYS, OS_THP_NEVER };

/* Before all else here; then, when options are known, whether huge pages are refused. */
void os_memory_init(void);
void os_memory_use_thp(enum os_thp thp);

/* Bytes, a power of two: 4, 16 or 64 KiB, known at run time. */
hak_global size_t os_page_bytes;
hak_inline size_t os_page_size(void) { return os_page_bytes; }

/* Whether addresses may be asked for at all: ThreadSanitizer lets a program have only some
 * ranges, and may end it for a wish outside of them. */
bool os_may_choose_addresses(void);

/* Address space without memory, left out of core files. os_reserve_at: exactly
 * there or not at all. */
enum os_reserved { OS_RESERVED, OS_OCCUPIED, OS_REFUSED };
void *os_reserve(size_t bytes);
enum os_reserved os_reserve_at(void *address, size_t bytes);

/* Memory for reserved space: readable, writable, zero. */
bool os_commit(void *address, size_t bytes);

/* Asks for huge pages in committed memory, until it is committed anew. */
void os_ask_huge_pages(void *address, size_t bytes);

/* Makes huge pages of what is in memory, and fills in the pages that are not; takes the kernel a
 * millisecond or more for each. False: refused, as by kernels before Linux 6.1. And single pages
 * again of the huge one that address lies in, so that a part of it can be purged: else the kernel
 * keeps the memory until it gets round to it. */
bool os_collapse(void *address, size_t bytes);
void os_split_huge_page(void *address);

/* A table that reads as zero everywhere and costs nothing until a part of it
 * is made writable. */
void *os_map_table(size_t bytes);
bool os_table_make_writable(void *address, size_t bytes);

/* Zero memory at a multiple of alignment (a power of two), and its return. */
void *os_map_aligned(size_t bytes, size_t alignment);
void os_unmap(void *address, size_t bytes);

/* Grows or shrinks a mapping of os_map_aligned, moving it if need be; the
 * contents move by page tables, not by bytes. The result is page-aligned. */
void *os_remap(void *address, size_t old_bytes, size_t new_bytes);

/* Moves the pages of [from, from + bytes) to the committed range at to, whose own
 * pages go; from is left committed and zero. False: nothing has changed. */
bool os_move_pages(void *from, void *to, size_t bytes);

/* Gives the pages back to the kernel; they read as zero when next touched.
 * False when they could not be (locked memory): their contents stay. */
bool os_purge(void *address, size_t bytes);

/* Faults pages in, by one call where the kernel has one (Linux 5.14), else by touching
 * each. They are zero and the caller's alone. False: refused, and they come one by one. */
bool os_populate(void *address, size_t bytes);

/* The same for pages that may be in use, and keep what is in them: false where the kernel has no
 * such call. */
bool os_populate_kept(void *address, size_t bytes);

/* Makes committed pages inaccessible, their contents lost; and accessible again, zero. Where the
 * kernel can do no better (before Linux 6.13), that splits mappings, of which a process may have
 * 65,530 (os_guard_splits). False: refused, nothing has changed. */
bool os_guard(void *address, size_t bytes);
bool os_unguard(void *address, size_t bytes);
bool os_guard_splits(void);

/* How many of the first OS_RESIDENT_MAX_PAGES pages are in memory; 0 if the kernel
 * does not tell. */
enum { OS_RESIDENT_MAX_PAGES = 1024 };
size_t os_resident_pages(void *address, size_t bytes);

#endif
