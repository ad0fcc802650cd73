/* The interface's functions once, for the names of libc.c, by_name.c, hak.c and glibc.c.
 * Here NULL becomes errno. */
#ifndef HAK_ABI_INTERFACE_H
#define HAK_ABI_INTERFACE_H

#include "front/front.h"

/* --- memory.c --- */

void *abi_malloc_slow(size_t size); /* sets errno */
void *abi_calloc(size_t count, size_t size);
void *abi_realloc(void *block, size_t size);
void *abi_reallocarray(void *block, size_t count, size_t size);
void *abi_aligned_alloc(size_t alignment, size_t size);
int abi_posix_memalign(void **result, size_t alignment, size_t size);
void *abi_memalign(size_t alignment, size_t size);
void *abi_valloc(size_t size);
void *abi_pvalloc(size_t size);
size_t abi_whole_pages(size_t size); /* what pvalloc asks for; SIZE_MAX: more than there can be */
size_t abi_usable_size(void *block);
size_t abi_nallocx(size_t size, int flags);

hak_inline void *abi_malloc(size_t size) { return front_malloc(size, abi_malloc_slow); }
hak_inline void abi_free(void *block) { front_free(block, front_free_slow); }

/* What the caller says of the block only the slow path looks at. size: FRONT_ANY_SIZE if he
 * does not say; alignment: a power of two. */
hak_inline void abi_free_sized(void *block, size_t size, size_t alignment) {
    if (hak_unlikely(!front_push(block)))
        front_free_sized_slow(block, size, alignment);
}

/* jemalloc's flags: the low 6 bits are the logarithm of the alignment. */
hak_inline size_t abi_flags_alignment(int flags) { return (size_t)1 << ((unsigned)flags & 63); }

/* --- statistics.c --- */

int abi_stats_write(int descriptor, bool json); /* 0, or an errno */
void abi_stats_at_load(void);
void abi_stats_at_exit(void); /* as the options say */

#endif
