/* HAKMEM under the C library's names: ISO C, POSIX, C23, and jemalloc's sized
 * calls. A program that preloads or links the library gets these. */
#include <malloc.h>
#include <stdlib.h>

#include "abi/interface.h"
#include "hakmem/hakmem.h"

HAK_EXPORT void *malloc(size_t size) { return abi_malloc(size); }
HAK_EXPORT void free(void *block) { abi_free(block); }
HAK_EXPORT void *calloc(size_t count, size_t size) { return abi_calloc(count, size); }
HAK_EXPORT void *realloc(void *block, size_t size) { return abi_realloc(block, size); }

HAK_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return abi_aligned_alloc(alignment, size);
}
HAK_EXPORT int posix_memalign(void **result, size_t alignment, size_t size) {
    return abi_posix_memalign(result, alignment, size);
}
HAK_EXPORT void *memalign(size_t alignment, size_t size) { return abi_memalign(alignment, size); }
HAK_EXPORT void *valloc(size_t size) { return abi_valloc(size); }

#ifndef __GLIBC__
void *pvalloc(size_t size);
#endif
HAK_EXPORT void *pvalloc(size_t size) { return abi_pvalloc(size); }

HAK_EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    return abi_reallocarray(block, count, size);
}
HAK_EXPORT size_t malloc_usable_size(void *block) { return abi_usable_size(block); }

void cfree(void *block);
HAK_EXPORT void cfree(void *block) { abi_free(block); }

void free_sized(void *block, size_t size);
HAK_EXPORT void free_sized(void *block, size_t size) {
    (void)size;
    abi_free(block);
}

void free_aligned_sized(void *block, size_t alignment, size_t size);
HAK_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    abi_free(block);
}

void sdallocx(void *block, size_t size, int flags);
HAK_EXPORT void sdallocx(void *block, size_t size, int flags) {
    (void)size;
    (void)flags;
    abi_free(block);
}

size_t nallocx(size_t size, int flags);
HAK_EXPORT size_t nallocx(size_t size, int flags) { return abi_nallocx(size, flags); }
