/* The interface's functions once, for the names of libc.c, hak.c and glibc.c.
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
size_t abi_usable_size(void *block);
size_t abi_nallocx(size_t size, int flags);

hak_inline void *abi_malloc(size_t size) { return front_malloc(size, abi_malloc_slow); }
hak_inline void abi_free(void *block) { front_free(block, front_free_slow); }

/* --- statistics.c --- */

int abi_stats_write(int descriptor, bool json); /* 0, or an errno */
void abi_stats_at_load(void);
void abi_stats_at_exit(void); /* as the options say */

#endif
