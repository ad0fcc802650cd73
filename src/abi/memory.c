/* The standards' rules on errors, around the front's NULL and false.
 *
 *   C17 7.22.3, C23 7.24.3, POSIX.1-2017 posix_memalign, malloc(3), and glibc's
 *   behaviour where these leave a choice. */
#include <errno.h>

#include "abi/interface.h"
#include "os/stack.h"

static void *or_enomem(void *block) {
    if (hak_unlikely(block == NULL))
        errno = ENOMEM;
    return block;
}

void *abi_malloc_slow(size_t size) { return or_enomem(front_malloc_slow(size)); }

void *abi_calloc(size_t count, size_t size) {
    size_t bytes;
    if (hak_unlikely(__builtin_mul_overflow(count, size, &bytes)))
        return or_enomem(NULL);
    return or_enomem(front_zeroed(bytes));
}

void *abi_realloc(void *block, size_t size) {
    if (block == NULL)
        return abi_malloc(size);
    if (size == 0) {
        abi_free(block);
        return NULL;
    }
    return or_enomem(front_resize(block, size));
}

void *abi_reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (hak_unlikely(__builtin_mul_overflow(count, size, &bytes)))
        return or_enomem(NULL);
    return abi_realloc(block, bytes);
}

void *abi_aligned_alloc(size_t alignment, size_t size) {
    if (hak_unlikely(!is_power_of_two(alignment))) {
        errno = EINVAL;
        return NULL;
    }
    return or_enomem(front_aligned(alignment, size));
}

int abi_posix_memalign(void **result, size_t alignment, size_t size) {
    if (hak_unlikely(!is_power_of_two(alignment) || alignment % sizeof(void *) != 0))
        return EINVAL;
    void *block = front_aligned(alignment, size);
    if (hak_unlikely(block == NULL))
        return ENOMEM;
    *result = block;
    return 0;
}

void *abi_memalign(size_t alignment, size_t size) {
    if (hak_unlikely(alignment > SIZE_MAX / 2 + 1)) {
        errno = EINVAL;
        return NULL;
    }
    size_t rounded = CLASS_STEP;
    while (rounded < alignment)
        rounded *= 2;
    return or_enomem(front_aligned(rounded, size));
}

void *abi_valloc(size_t size) {
    if (hak_unlikely(!front_start()))
        return or_enomem(NULL);
    return or_enomem(front_aligned(os_page_size(), size));
}

size_t abi_whole_pages(size_t size) {
    if (hak_unlikely(!front_start() || size > PTRDIFF_MAX))
        return SIZE_MAX;
    return align_up(hak_max(size, (size_t)1), os_page_size());
}

void *abi_pvalloc(size_t size) { return abi_valloc(abi_whole_pages(size)); }

size_t abi_usable_size(void *block) {
    return block == NULL ? 0 : front_usable_bytes(block, "malloc_usable_size");
}

size_t abi_nallocx(size_t size, int flags) {
    return front_good_size(size, abi_flags_alignment(flags));
}

/* Started when the library is loaded, unless a call came even earlier: while the
 * process has one thread and its environment is as it was given. In this file,
 * because a static link takes it along with every use of malloc. */
__attribute__((constructor)) static void at_load(void) {
    if (front_loaded())
        abi_stats_at_load();
}

__attribute__((destructor)) static void at_exit(void) {
    abi_stats_at_exit();
    os_stack_forget();
}
