/* HAKMEM under the C library's names: ISO C, POSIX, and jemalloc's nallocx. A program that
 * preloads or links the library gets these, and those of by_name.c, which are made of them. */
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

HAK_EXPORT size_t malloc_usable_size(void *block) { return abi_usable_size(block); }

size_t nallocx(size_t size, int flags);
HAK_EXPORT size_t nallocx(size_t size, int flags) { return abi_nallocx(size, flags); }
