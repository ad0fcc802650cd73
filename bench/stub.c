/* libstub.so: the do-nothing limit. malloc only moves a pointer on through a
 * buffer and starts again at its end; free returns. What a driver costs under
 * it is what the driver itself and the two calls cost: no allocator can be
 * faster by being a better allocator.
 *
 * It is no allocator: a block is handed out again while it is in use, so
 * contents are lost and checksums differ. Drivers that depend on what they wrote
 * (realloc_grow, calloc_large), and those whose live blocks outgrow the caches
 * of the processor, where reusing a small buffer would measure a smaller
 * program, are left out of its rows by the lab.
 *
 * The buffer for blocks up to 32 KiB is small enough to stay in the first two
 * caches, as the blocks of a perfect allocator would. Larger blocks come from the
 * first 2 MiB of a second one, and from all of it when they are larger still.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    SMALL_LIMIT_BYTES = 32 << 10,
    SMALL_BUFFER_BYTES = 128 << 10,
    LARGE_BUFFER_BYTES = 64 << 20,
    LARGE_ROTATION_BYTES = 2 << 20,
    ALIGNMENT = 16,
    LARGEST_ALIGNMENT = 4096,
};

static _Alignas(LARGEST_ALIGNMENT) char small_buffer[SMALL_BUFFER_BYTES];
static _Alignas(LARGEST_ALIGNMENT) char large_buffer[LARGE_BUFFER_BYTES];

static __thread __attribute__((tls_model("initial-exec"))) size_t small_next;
static __thread __attribute__((tls_model("initial-exec"))) size_t large_next;

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size);
EXPORT void free(void *ptr);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *ptr, size_t size);
EXPORT int posix_memalign(void **result, size_t alignment, size_t size);
EXPORT void *aligned_alloc(size_t alignment, size_t size);
EXPORT void *memalign(size_t alignment, size_t size);
EXPORT size_t malloc_usable_size(void *ptr);

static __attribute__((noinline, cold)) void *take_large(size_t size, size_t alignment) {
    if (size > LARGE_BUFFER_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    size_t at = (large_next + alignment - 1) & ~(alignment - 1);
    if (at + size > LARGE_ROTATION_BYTES) {
        at = 0;
    }
    large_next = at + size;
    return large_buffer + at;
}

static inline void *take(size_t size, size_t alignment) {
    if (size > SMALL_LIMIT_BYTES) {
        return take_large(size, alignment);
    }
    size_t at = (small_next + alignment - 1) & ~(alignment - 1);
    if (at + size > SMALL_BUFFER_BYTES) {
        at = 0;
    }
    small_next = at + size;
    return small_buffer + at;
}

void *malloc(size_t size) { return take(size, ALIGNMENT); }

void free(void *ptr) { (void)ptr; }

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = malloc(bytes);
    return block == NULL ? NULL : memset(block, 0, bytes);
}

/* The old size is not known: as much is copied as surely lies in the buffer. */
void *realloc(void *ptr, size_t size) {
    char *block = malloc(size);
    if (block == NULL || ptr == NULL) {
        return block;
    }
    char *old = ptr;
    char *end = old >= small_buffer && old < small_buffer + SMALL_BUFFER_BYTES
                    ? small_buffer + SMALL_BUFFER_BYTES
                    : large_buffer + LARGE_BUFFER_BYTES;
    size_t readable = (size_t)(end - old);
    return memmove(block, old, size < readable ? size : readable);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment > LARGEST_ALIGNMENT) {
        return EINVAL;
    }
    void *block = take(size, alignment);
    if (block == NULL) {
        return ENOMEM;
    }
    *result = block;
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size) {
    void *block = NULL;
    int error = posix_memalign(&block, alignment < ALIGNMENT ? ALIGNMENT : alignment, size);
    if (error != 0) {
        errno = error;
    }
    return block;
}

void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

size_t malloc_usable_size(void *ptr) {
    (void)ptr;
    return 0;
}
