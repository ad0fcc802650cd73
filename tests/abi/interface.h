/* The allocation interface as a table of functions, so that one test runs over
 * every way a program reaches the allocator:
 *
 *   mode      names       library
 *   glibc     malloc      none: what the system's own allocator does
 *   preload   malloc      libhakmem.so through LD_PRELOAD
 *   linked    malloc      libhakmem.so as a library of the program
 *   hak       hak_malloc  libhakmem.so as a library of the program
 *
 * The glibc mode checks the tests themselves: whoever replaces malloc has to
 * behave as the malloc that programs were written against. Where glibc departs
 * from what we promise, the test says so in its `except` and is left out there.
 *
 * Calls go through pointers, so the compiler cannot know that they are malloc
 * and free and remove them in pairs. */
#ifndef TESTS_ABI_INTERFACE_H
#define TESTS_ABI_INTERFACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <malloc.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

#define TEST_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct interface {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    void (*free)(void *);
    void (*cfree)(void *);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*malloc_usable_size)(void *);
    int (*malloc_trim)(size_t);
    int (*mallopt)(int, int);
    void (*malloc_stats)(void);
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
    void (*sdallocx)(void *, size_t, int);
    size_t (*nallocx)(size_t, int);
#ifdef __GLIBC__
    struct mallinfo (*mallinfo)(void);
    struct mallinfo2 (*mallinfo2)(void);
    int (*malloc_info)(int, FILE *);
#endif
};

extern struct interface api;

struct abi_test {
    const char *name;
    void (*run)(void **);
    const char *except; /* NULL, or why the test does not hold for glibc */
};

/* main() of every test program: fills `api` for the mode named by argv[1],
 * checks that its functions come from the right library, runs the tests. */
int abi_main(int argc, char **argv, const struct abi_test *tests, size_t count);

/* Whether the program runs on glibc's allocator. */
bool abi_is_glibc(void);

/* Whether blocks have canaries behind them (HAKMEM_OPTIONS=hardened=...). */
bool abi_is_hardened(void);

/* Fills a block with bytes that depend on seed, and tells whether they are
 * still there. */
void pattern_fill(void *block, size_t size, unsigned seed);
bool pattern_holds(const void *block, size_t size, unsigned seed);

bool is_all_zero(const void *block, size_t size);

/* Anonymous resident bytes and address space of this process, from /proc. */
size_t resident_bytes(void);
size_t virtual_bytes(void);

#endif
