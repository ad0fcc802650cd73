/* What each function does when it cannot give what was asked for, and the
 * corners of the standards: sizes that no address space holds, products that
 * overflow, alignments that are none, size 0, errno. */
#include "interface.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More than any process may have: beyond PTRDIFF_MAX, about to wrap when a
 * header, an alignment or a page is added, and beyond 47 and 48 bit addresses. */
static const size_t impossible_sizes[] = {
    SIZE_MAX,
    SIZE_MAX - 1,
    SIZE_MAX - 15,
    SIZE_MAX - 16,
    SIZE_MAX - 4095,
    SIZE_MAX - 4096,
    SIZE_MAX - 65535,
    SIZE_MAX - 65536,
    SIZE_MAX - (2u << 20) + 1,
    (size_t)PTRDIFF_MAX + 1,
    (size_t)PTRDIFF_MAX,
    (size_t)PTRDIFF_MAX - 4096,
    (size_t)1 << 62,
    (size_t)1 << 57,
    (size_t)1 << 48,
};

/* Every element on its own: an int, so that nothing is converted on the way. */
#define assert_fails_with_enomem(call)                                                             \
    do {                                                                                           \
        errno = 0;                                                                                 \
        void *result_ = (call);                                                                    \
        int errno_ = errno;                                                                        \
        assert_null(result_);                                                                      \
        assert_int_equal(errno_, ENOMEM);                                                          \
    } while (0)

static void impossible_sizes_are_enomem(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT_OF(impossible_sizes); i++) {
        size_t size = impossible_sizes[i];
        assert_fails_with_enomem(api.malloc(size));
        assert_fails_with_enomem(api.calloc(1, size));
        assert_fails_with_enomem(api.calloc(size, 1));
        assert_fails_with_enomem(api.realloc(NULL, size));
        assert_fails_with_enomem(api.reallocarray(NULL, 1, size));
        assert_fails_with_enomem(api.aligned_alloc(16, size));
        assert_fails_with_enomem(api.aligned_alloc(64 * KIB, size));
        assert_fails_with_enomem(api.aligned_alloc(4 * MIB, size));
        assert_fails_with_enomem(api.memalign(64, size));
        assert_fails_with_enomem(api.memalign(4 * MIB, size));
        assert_fails_with_enomem(api.valloc(size));
        assert_fails_with_enomem(api.pvalloc(size));
    }
}

static void products_that_overflow_are_enomem(void **state) {
    (void)state;
    static const size_t pairs[][2] = {
        {SIZE_MAX, SIZE_MAX},
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {SIZE_MAX / 2 + 1, 2},
        {SIZE_MAX / 3 + 1, 3},
        {3, SIZE_MAX / 3 + 1},
        {(size_t)1 << 32, (size_t)1 << 32},
        {((size_t)1 << 32) + 1, ((size_t)1 << 32) + 1},
        {SIZE_MAX / 16 + 1, 16},
        {SIZE_MAX / 16 + 2, 16}, /* wraps to 16 bytes */
    };
    char *block = api.malloc(100);
    pattern_fill(block, 100, 7);
    for (size_t i = 0; i < TEST_COUNT_OF(pairs); i++) {
        assert_fails_with_enomem(api.calloc(pairs[i][0], pairs[i][1]));
        assert_fails_with_enomem(api.reallocarray(NULL, pairs[i][0], pairs[i][1]));
        assert_fails_with_enomem(api.reallocarray(block, pairs[i][0], pairs[i][1]));
        assert_true(pattern_holds(block, 100, 7));
    }
    api.free(block);
}

static void failed_realloc_keeps_the_block(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 100, 4096, 40000, 1 << 20, 5 << 20};
    for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
        char *block = api.malloc(sizes[i]);
        assert_non_null(block);
        pattern_fill(block, sizes[i], (unsigned)i);
        for (size_t j = 0; j < TEST_COUNT_OF(impossible_sizes); j++) {
            assert_fails_with_enomem(api.realloc(block, impossible_sizes[j]));
            assert_fails_with_enomem(api.reallocarray(block, impossible_sizes[j], 1));
        }
        assert_true(pattern_holds(block, sizes[i], (unsigned)i));
        api.free(block);
    }
}

static void posix_memalign_bad_alignment(void **state) {
    (void)state;
    static const size_t alignments[] = {
        0,           1, 2, 3, 4, 5, 7, 9, 12, 24, 40, 48, 100, 4095, 4097, SIZE_MAX, SIZE_MAX / 2,
        SIZE_MAX - 7};
    for (size_t i = 0; i < TEST_COUNT_OF(alignments); i++) {
        void *result = &result;
        errno = EDOM;
        assert_int_equal(api.posix_memalign(&result, alignments[i], 64), EINVAL);
        assert_int_equal(errno, EDOM);
        assert_ptr_equal(result, &result);
    }
}

static void posix_memalign_out_of_memory(void **state) {
    (void)state;
    static const size_t alignments[] = {8, 16, 64, 4096, 65536, 4 << 20, 1 << 30};
    for (size_t a = 0; a < TEST_COUNT_OF(alignments); a++) {
        for (size_t i = 0; i < TEST_COUNT_OF(impossible_sizes); i++) {
            void *result = &result;
            assert_int_equal(api.posix_memalign(&result, alignments[a], impossible_sizes[i]),
                             ENOMEM);
            assert_ptr_equal(result, &result);
        }
    }
}

static void posix_memalign_keeps_errno(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT_OF(impossible_sizes); i++) {
        void *result = NULL;
        errno = EDOM;
        assert_int_equal(api.posix_memalign(&result, 64, impossible_sizes[i]), ENOMEM);
        assert_int_equal(errno, EDOM);
    }
    void *result = NULL;
    errno = EDOM;
    assert_int_equal(api.posix_memalign(&result, 64, 10 * MIB), 0);
    assert_int_equal(errno, EDOM);
    api.free(result);
    assert_int_equal(errno, EDOM);
}

static void posix_memalign_size_zero(void **state) {
    (void)state;
    void *one = NULL, *two = NULL;
    assert_int_equal(api.posix_memalign(&one, 64, 0), 0);
    assert_int_equal(api.posix_memalign(&two, 64, 0), 0);
    assert_non_null(one);
    assert_non_null(two);
    assert_ptr_not_equal(one, two);
    api.free(one);
    api.free(two);
}

static void aligned_alloc_bad_alignment(void **state) {
    (void)state;
    static const size_t alignments[] = {0,  3,   5,    6,    12,       24,
                                        48, 100, 4095, 4097, SIZE_MAX, SIZE_MAX / 2};
    for (size_t i = 0; i < TEST_COUNT_OF(alignments); i++) {
        errno = 0;
        void *block = api.aligned_alloc(alignments[i], 128);
        assert_null(block);
        assert_int_equal(errno, EINVAL);
    }
}

static void memalign_rounds_the_alignment_up(void **state) {
    (void)state;
    static const size_t rounded[][2] = {
        {0, 16},  {1, 16},    {3, 16},      {8, 16},      {17, 32},     {24, 32},       {33, 64},
        {48, 64}, {100, 128}, {1000, 1024}, {3000, 4096}, {4097, 8192}, {65537, 131072}};
    for (size_t i = 0; i < TEST_COUNT_OF(rounded); i++) {
        void *blocks[20];
        for (size_t j = 0; j < TEST_COUNT_OF(blocks); j++) {
            blocks[j] = api.memalign(rounded[i][0], 100 + j);
            assert_non_null(blocks[j]);
            assert_int_equal((uintptr_t)blocks[j] % rounded[i][1], 0);
            memset(blocks[j], 0x5a, 100 + j);
        }
        for (size_t j = 0; j < TEST_COUNT_OF(blocks); j++)
            api.free(blocks[j]);
    }
}

static void memalign_over_half_of_the_address_space(void **state) {
    (void)state;
    static const size_t alignments[] = {SIZE_MAX / 2 + 2, SIZE_MAX - 4095, SIZE_MAX};
    for (size_t i = 0; i < TEST_COUNT_OF(alignments); i++) {
        errno = 0;
        void *block = api.memalign(alignments[i], 100);
        assert_null(block);
        assert_int_equal(errno, EINVAL);
    }
    assert_fails_with_enomem(api.memalign(SIZE_MAX / 2 + 1, 100));
}

static void malloc_zero_is_unique(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        switch (i % 4) {
        case 0:
            blocks[i] = api.malloc(0);
            break;
        case 1:
            blocks[i] = api.calloc(0, 8);
            break;
        case 2:
            blocks[i] = api.realloc(NULL, 0);
            break;
        default:
            blocks[i] = api.calloc(8, 0);
            break;
        }
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    }
    /* Unique: mark each block's first usable bytes with its own number. */
    for (size_t i = 0; i < COUNT; i++) {
        if (api.malloc_usable_size(blocks[i]) >= sizeof i)
            memcpy(blocks[i], &i, sizeof i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t mark = i;
        if (api.malloc_usable_size(blocks[i]) >= sizeof i)
            memcpy(&mark, blocks[i], sizeof mark);
        assert_int_equal(mark, i);
    }
    for (size_t i = 0; i < COUNT; i++)
        api.free(blocks[i]);
}

static void realloc_to_zero_frees(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, 40000, 2 << 20, 40 << 20};
    size_t before = resident_bytes();
    for (size_t i = 0; i < 600; i++) {
        size_t size = sizes[i % TEST_COUNT_OF(sizes)];
        void *block = api.malloc(size);
        assert_non_null(block);
        memset(block, 1, size);
        void *result = api.realloc(block, 0);
        assert_null(result);
    }
    for (size_t i = 0; i < 600; i++) {
        void *block = api.malloc(2 * MIB);
        memset(block, 1, 2 * MIB);
        void *result = api.reallocarray(block, i % 2, (i + 1) % 2);
        assert_null(result);
    }
    /* 1,200 lost blocks would be about 5 GiB. */
    assert_true(resident_bytes() < before + 256 * MIB);
}

static void free_keeps_errno(void **state) {
    (void)state;
    static const size_t sizes[] = {0,     16,     100,    1024,    5000,
                                   32768, 100000, 600000, 3 << 20, 70 << 20};
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
            void *blocks[8];
            for (size_t j = 0; j < TEST_COUNT_OF(blocks); j++)
                blocks[j] = api.malloc(sizes[i]);
            errno = EDOM;
            for (size_t j = 0; j < TEST_COUNT_OF(blocks); j++)
                api.free(blocks[j]);
            assert_int_equal(errno, EDOM);
        }
    }
    /* Unmapping can fail inside; the caller still must not see it. */
    void *huge = api.malloc(GIB + GIB / 2);
    assert_non_null(huge);
    errno = EDOM;
    api.free(huge);
    assert_int_equal(errno, EDOM);
    api.free(NULL);
    assert_int_equal(errno, EDOM);
}

static void every_free_of_null_is_nothing(void **state) {
    (void)state;
    errno = EDOM;
    api.free(NULL);
    api.cfree(NULL);
    api.free_sized(NULL, 0);
    api.free_sized(NULL, 100);
    api.free_aligned_sized(NULL, 64, 100);
    assert_int_equal(api.malloc_usable_size(NULL), 0);
    assert_int_equal(errno, EDOM);
}

static void success_keeps_errno(void **state) {
    (void)state;
    for (size_t size = 1; size <= 64 * MIB; size = size * 2 + 1) {
        errno = EDOM;
        void *block = api.malloc(size);
        assert_non_null(block);
        block = api.realloc(block, size + size / 2);
        assert_non_null(block);
        api.free(block);
        block = api.calloc(size, 1);
        assert_non_null(block);
        api.free(block);
        assert_int_equal(errno, EDOM);
    }
}

static const struct abi_test tests[] = {
    {"impossible sizes are ENOMEM", impossible_sizes_are_enomem, NULL},
    {"products that overflow are ENOMEM", products_that_overflow_are_enomem, NULL},
    {"a failed realloc keeps the block", failed_realloc_keeps_the_block, NULL},
    {"posix_memalign: bad alignment", posix_memalign_bad_alignment, NULL},
    {"posix_memalign: out of memory", posix_memalign_out_of_memory, NULL},
    {"posix_memalign keeps errno", posix_memalign_keeps_errno,
     "glibc sets errno on failure; POSIX leaves it open, we keep it"},
    {"posix_memalign of size 0", posix_memalign_size_zero, NULL},
    {"aligned_alloc: bad alignment", aligned_alloc_bad_alignment,
     "before 2.38 glibc's aligned_alloc rounds the alignment up"},
    {"memalign rounds the alignment up", memalign_rounds_the_alignment_up, NULL},
    {"memalign over half of the address space", memalign_over_half_of_the_address_space, NULL},
    {"malloc(0) is unique", malloc_zero_is_unique, NULL},
    {"realloc to 0 frees", realloc_to_zero_frees, NULL},
    {"free keeps errno", free_keeps_errno, NULL},
    {"every free of NULL is nothing", every_free_of_null_is_nothing,
     "glibc lacks cfree, free_sized and free_aligned_sized"},
    {"success keeps errno", success_keeps_errno, NULL},
};

int main(int argc, char **argv) { return abi_main(argc, argv, tests, TEST_COUNT_OF(tests)); }
