/* Pointers that the allocator never handed out. They are seen at the call. */
#include "bugs.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Alignas(64) char static_data[256];

static void *announced(const void *pointer) {
    announce(pointer);
    return hidden(pointer);
}

static void *foreign(void) { return announced(static_data + 64); }

static void free_stack(void) {
    _Alignas(16) char local[64];
    local[0] = 1;
    free(announced(local));
}

static void free_static(void) { free(foreign()); }

static void free_mapped(void) {
    void *mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    free(announced(mapped));
}

static void free_code(void) {
    /* Functions are 16-byte aligned, but for those of some compilers. */
    free(announced((const void *)((uintptr_t)&free_mapped & ~(uintptr_t)15)));
}

static void free_near_null(void) { free(announced((const void *)(uintptr_t)16)); }

static void free_kernel_address(void) {
    free(announced((const void *)(uintptr_t)0xffff888000000000u));
}

/* A block of the system's own allocator, of a library that got it before we
 * came, or by another name. */
static void free_block_of_libc(void) {
    typedef void *malloc_function(size_t);
    malloc_function *libc_malloc = (malloc_function *)dlsym(RTLD_DEFAULT, "__libc_malloc");
    CHECK(libc_malloc != NULL);
    free(announced(libc_malloc(100)));
}

static void free_misaligned_foreign(void) { free(announced(static_data + 3)); }

static void free_sized_foreign(void) {
    typedef void free_sized_function(void *, size_t);
    free_sized_function *function = (free_sized_function *)dlsym(RTLD_DEFAULT, "free_sized");
    CHECK(function != NULL);
    function(foreign(), 100);
}

static void free_aligned_sized_foreign(void) {
    typedef void free_aligned_function(void *, size_t, size_t);
    free_aligned_function *function =
        (free_aligned_function *)dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(function != NULL);
    function(foreign(), 64, 100);
}

static void sdallocx_foreign(void) {
    typedef void sdallocx_function(void *, size_t, int);
    sdallocx_function *function = (sdallocx_function *)dlsym(RTLD_DEFAULT, "sdallocx");
    CHECK(function != NULL);
    function(foreign(), 100, 0);
}

static void delete_foreign(void) {
    typedef void delete_function(void *);
    delete_function *function = (delete_function *)dlsym(RTLD_DEFAULT, "_ZdlPv");
    CHECK(function != NULL);
    function(foreign());
}

static void realloc_foreign(void) {
    void *volatile result = realloc(foreign(), 200);
    (void)result;
}

static void realloc_foreign_to_zero(void) {
    void *volatile result = realloc(foreign(), 0);
    (void)result;
}

static void reallocarray_foreign(void) {
    void *volatile result = reallocarray(foreign(), 10, 20);
    (void)result;
}

static void usable_size_of_foreign(void) {
    volatile size_t result = malloc_usable_size(foreign());
    (void)result;
}

/* Addresses that the allocator may use one day, but has not. */
static void free_ahead(size_t distance) {
    char *block = malloc(100);
    CHECK(block != NULL);
    uintptr_t base = (uintptr_t)block & ~(uintptr_t)0xffff;
    free(announced((const void *)(base + distance)));
}

static void free_never_used_near(void) { free_ahead(64 * MIB); }
static void free_never_used_far(void) { free_ahead(20 * GIB); }
static void free_never_used_before(void) { free_ahead((size_t)0 - 64 * MIB); }

const struct bug bugs_foreign[] = {
    {"free-stack", free_stack},
    {"free-static", free_static},
    {"free-mapped", free_mapped},
    {"free-code", free_code},
    {"free-near-null", free_near_null},
    {"free-kernel-address", free_kernel_address},
    {"free-block-of-libc", free_block_of_libc},
    {"free-misaligned-foreign", free_misaligned_foreign},
    {"free_sized-foreign", free_sized_foreign},
    {"free_aligned_sized-foreign", free_aligned_sized_foreign},
    {"sdallocx-foreign", sdallocx_foreign},
    {"delete-foreign", delete_foreign},
    {"realloc-foreign", realloc_foreign},
    {"realloc-foreign-to-0", realloc_foreign_to_zero},
    {"reallocarray-foreign", reallocarray_foreign},
    {"usable-size-of-foreign", usable_size_of_foreign},
    {"free-never-used-near", free_never_used_near},
    {"free-never-used-far", free_never_used_far},
    {"free-never-used-before", free_never_used_before},
    {NULL, NULL},
};
