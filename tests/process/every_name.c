/* Each name that takes, changes or gives a block, and each pair of them that belongs together:
 * whoever serves malloc, all of them agree on it. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

/* Names that not every C library has. */
void free_sized(void *block, size_t size) __attribute__((weak));
void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));
void sdallocx(void *block, size_t size, int flags) __attribute__((weak));
void cfree(void *block) __attribute__((weak));
#ifndef __GLIBC__
void *pvalloc(size_t size) __attribute__((weak));
#endif

enum { BYTES = 128, ALIGNMENT = 64 };

static void *written(void *block) {
    CHECK(block != NULL);
    CHECK(malloc_usable_size(block) >= BYTES);
    return memset(block, 1, BYTES);
}

static void *aligned(void) {
    void *block = NULL;
    CHECK(posix_memalign(&block, ALIGNMENT, BYTES) == 0);
    return block;
}

int main(void) {
    process_begin();
    free(written(malloc(BYTES)));
    free(written(calloc(2, BYTES / 2)));
    free(written(realloc(NULL, BYTES)));
    free(written(realloc(malloc(1), BYTES)));
    free(written(reallocarray(NULL, 2, BYTES / 2)));
    free(written(reallocarray(malloc(1), 2, BYTES / 2)));
    free(written(aligned_alloc(ALIGNMENT, BYTES)));
    free(written(memalign(ALIGNMENT, BYTES)));
    free(written(valloc(BYTES)));
    free(written(aligned()));
    CHECK(cfree != NULL);
    free(written(pvalloc(BYTES)));
    CHECK(free_sized != NULL && free_aligned_sized != NULL && sdallocx != NULL);
    cfree(written(malloc(BYTES)));
    free_sized(written(malloc(BYTES)), BYTES);
    free_aligned_sized(written(aligned_alloc(ALIGNMENT, BYTES)), ALIGNMENT, BYTES);
    sdallocx(written(malloc(BYTES)), BYTES, 0);
    return process_ok();
}
