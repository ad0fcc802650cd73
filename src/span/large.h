/* Blocks beyond the size classes: spans of their own in the window, or, from
 * 1 GiB on and where the window has no place, mappings of their own outside.
 * See large.c and huge.c. Thread safe. */
#ifndef HAK_SPAN_LARGE_H
#define HAK_SPAN_LARGE_H

#include "base/finding.h"
#include "os/lock.h"
#include "span/span.h"

/* At least bytes (1 .. PTRDIFF_MAX) at a multiple of alignment, a power of two, of which the first
 * zero_bytes shall read as zero: pages that nobody has used do, and are not touched for that.
 * *is_zero: all of it does, or as much as was asked for, if anything was. NULL: out of memory. */
void *large_take(unsigned shard, size_t bytes, size_t alignment, size_t zero_bytes, bool *is_zero);

/* Whether a block of so many bytes takes whole SuperSlabs, and the heap would grow for it. */
bool large_lacks_room(size_t bytes);

/* Frees a block of large_take; panics if pointer is none. */
void large_give(void *pointer);

/* Usable bytes; panics if pointer is no live block of large_take. operation: what the program
 * called, for people. */
size_t large_usable_bytes(const void *pointer, const char *operation);

/* Makes a block larger or smaller without copying. Returns where it is now, or
 * NULL when only a copy will do; the block is then as it was. */
void *large_resize(void *pointer, size_t bytes);

/* --- huge.c: the blocks outside the window --- */

void *huge_take(size_t bytes, size_t alignment);
bool huge_give(void *pointer); /* false: no huge block starts there */
void *huge_resize(void *pointer, size_t bytes);
size_t huge_usable_bytes(const void *pointer); /* 0: none starts there */

/* The huge block that covers pointer, for reports; NULL if none. */
void *huge_start_of(const void *pointer, size_t *bytes);

/* The first huge block that starts above an address; NULL: there is none. */
void *huge_next(const void *address, size_t *bytes);

/* Whether an address lies in the table of huge blocks. */
bool huge_table_contains(uintptr_t address);

struct huge_stats {
    size_t count, bytes, peak_bytes;
    uint64_t taken, given;
};
struct huge_stats huge_stats(void);

/* Whether the table is whole: blocks of whole pages, ascending, apart, and their sums. */
bool huge_check(struct finding *finding);

hak_global struct os_lock huge_lock;

#endif
