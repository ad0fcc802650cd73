/* Functions that are told again what was asked for: C23's free_sized and
 * free_aligned_sized, jemalloc's sdallocx and nallocx. */
#include "interface.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {0,     1,     16,    17,     100,    1024,    1025,    4096,
                               32768, 32769, 70000, 524288, 524289, 2 << 20, 40 << 20};

/* If a sized free lost its blocks, this much traffic would show it. */
static void assert_memory_comes_back(size_t before) {
    assert_true(resident_bytes() < before + 200 * MIB);
}

static void free_sized_frees(void **state) {
    (void)state;
    size_t before = resident_bytes();
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
            void *block = api.malloc(sizes[i]);
            assert_non_null(block);
            memset(block, 1, sizes[i]);
            api.free_sized(block, sizes[i]);
            block = api.calloc(1, sizes[i]);
            assert_true(is_all_zero(block, sizes[i]));
            api.free_sized(block, sizes[i]);
            block = api.realloc(api.malloc(10), sizes[i] + 1);
            api.free_sized(block, sizes[i] + 1);
        }
    }
    assert_memory_comes_back(before);
}

static void free_aligned_sized_frees(void **state) {
    (void)state;
    size_t before = resident_bytes();
    for (size_t round = 0; round < 10; round++) {
        for (size_t alignment = 16; alignment <= 4 * MIB; alignment *= 4) {
            for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
                void *block = api.aligned_alloc(alignment, sizes[i]);
                assert_non_null(block);
                memset(block, 1, sizes[i]);
                api.free_aligned_sized(block, alignment, sizes[i]);
            }
        }
    }
    assert_memory_comes_back(before);
}

static int lg(size_t alignment) { return __builtin_ctzl(alignment); }

static void sdallocx_frees(void **state) {
    (void)state;
    size_t before = resident_bytes();
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
            void *block = api.malloc(sizes[i]);
            memset(block, 1, sizes[i]);
            api.sdallocx(block, sizes[i], 0);
            block = api.aligned_alloc(256, sizes[i]);
            memset(block, 1, sizes[i]);
            api.sdallocx(block, sizes[i], lg(256));
            /* MALLOCX_ZERO and a cache's number: bits that we have no use for. */
            block = api.malloc(sizes[i]);
            memset(block, 1, sizes[i]);
            api.sdallocx(block, sizes[i], 0x40 | 0x300);
        }
    }
    assert_memory_comes_back(before);
}

static void nallocx_tells_the_usable_size(void **state) {
    (void)state;
    for (size_t size = 1; size <= 3 * MIB; size += size / 40 + 1) {
        size_t told = api.nallocx(size, 0); /* before: what is then guarded has that size, too */
        void *block = api.malloc(size);
        assert_int_equal(told, api.malloc_usable_size(block));
        api.free(block);
        for (size_t alignment = 16; alignment <= 256 * KIB; alignment *= 4) {
            told = api.nallocx(size, lg(alignment));
            block = api.aligned_alloc(alignment, size);
            assert_int_equal(told, api.malloc_usable_size(block));
            api.free(block);
        }
    }
    assert_true(api.nallocx(3 * GIB, 0) >= 3 * GIB);
}

static void nallocx_of_the_impossible_is_zero(void **state) {
    (void)state;
    errno = EDOM;
    assert_int_equal(api.nallocx(SIZE_MAX, 0), 0);
    assert_int_equal(api.nallocx((size_t)PTRDIFF_MAX + 1, 0), 0);
    assert_int_equal(api.nallocx(SIZE_MAX - 4096, 12), 0);
    assert_int_equal(api.nallocx(SIZE_MAX - 100, 20), 0);
    assert_int_equal(errno, EDOM);
}

static void all_frees_are_one_free(void **state) {
    (void)state;
    size_t before = resident_bytes();
    for (unsigned round = 0; round < 3000; round++) {
        size_t size = sizes[round % (TEST_COUNT_OF(sizes) - 1)];
        void *block = round % 2 ? api.malloc(size) : api.memalign(64, size);
        memset(block, 1, size);
        switch (round % 3) {
        case 0:
            api.cfree(block);
            break;
        case 1:
            api.free(block);
            break;
        default:
            block = api.realloc(block, 0);
            assert_null(block);
        }
    }
    assert_memory_comes_back(before);
}

#define NOT_GLIBC "glibc 2.36 has none of these"

static const struct abi_test tests[] = {
    {"free_sized frees", free_sized_frees, NOT_GLIBC},
    {"free_aligned_sized frees", free_aligned_sized_frees, NOT_GLIBC},
    {"sdallocx frees", sdallocx_frees, NOT_GLIBC},
    {"nallocx tells the usable size", nallocx_tells_the_usable_size, NOT_GLIBC},
    {"nallocx of the impossible is 0", nallocx_of_the_impossible_is_zero, NOT_GLIBC},
    {"cfree, free and realloc to 0 are one free", all_frees_are_one_free, NOT_GLIBC},
};

int main(int argc, char **argv) { return abi_main(argc, argv, tests, TEST_COUNT_OF(tests)); }
