/* Names of the C library, C23 and jemalloc that are made of others: of realloc, valloc and free, by
 * name, whoever has taken these.
 *
 * Who steps in for malloc may not know all that goes with it: Valgrind 3.19 replaces malloc,
 * realloc and free in every library, but not reallocarray; gcc 12's and clang 14's sanitizers know
 * no free_sized. Their blocks then come here, and go on to where they belong. So these calls must
 * be calls: they stand in a file of their own, into which no compiler can pull realloc and free. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "abi/interface.h"
#include "hakmem/hakmem.h"

HAK_EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (hak_unlikely(__builtin_mul_overflow(count, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

#ifndef __GLIBC__
void *pvalloc(size_t size);
#endif
HAK_EXPORT void *pvalloc(size_t size) { return valloc(abi_whole_pages(size)); }

void cfree(void *block);
HAK_EXPORT void cfree(void *block) { free(block); }

/* Of such a block of ours what is told is looked at. */
static bool is_checked(const void *block) {
    return window_contains(block) &&
           (hardened_is_on() || entry_bin(window_entry(block)) == BIN_GUARD);
}

static void free_told(void *block, size_t size, size_t alignment) {
    if (is_checked(block))
        front_free_sized_slow(block, size, alignment);
    else
        free(block);
}

void free_sized(void *block, size_t size);
HAK_EXPORT void free_sized(void *block, size_t size) { free_told(block, size, 1); }

void free_aligned_sized(void *block, size_t alignment, size_t size);
HAK_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    free_told(block, size, alignment);
}

void sdallocx(void *block, size_t size, int flags);
HAK_EXPORT void sdallocx(void *block, size_t size, int flags) {
    free_told(block, size, abi_flags_alignment(flags));
}
