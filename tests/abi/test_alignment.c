/* Where blocks lie: 16 bytes for all, the size itself for powers of two up to
 * 4 KiB, and whatever alignment was asked for up to 1 GiB, without taking much
 * more address space or memory than that alignment costs anyway. */
#include "interface.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_aligned_to(const void *block, size_t alignment) {
    return ((uintptr_t)block & (alignment - 1)) == 0;
}

static void every_size_is_aligned_to_16(void **state) {
    (void)state;
    static void *blocks[70 * 1024];
    size_t count = 0;
    for (size_t size = 0; size <= 9000; size++)
        blocks[count++] = api.malloc(size);
    for (size_t size = 9001; size <= 2 * MIB; size += size / 64 + 1)
        blocks[count++] = api.calloc(1, size);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(blocks[i]);
        assert_true(is_aligned_to(blocks[i], 16));
        blocks[i] = api.realloc(blocks[i], (i * 37) % 3000 + 1);
        assert_non_null(blocks[i]);
        assert_true(is_aligned_to(blocks[i], 16));
    }
    for (size_t i = 0; i < count; i++)
        api.free(blocks[i]);
}

static void powers_of_two_are_aligned_naturally(void **state) {
    (void)state;
    if (abi_is_hardened())
        skip(); /* with a canary behind it, no size is a power of two */
    for (size_t size = 16; size <= 4096; size *= 2) {
        void *blocks[1000];
        for (size_t i = 0; i < TEST_COUNT_OF(blocks); i++) {
            blocks[i] = i % 2 ? api.malloc(size) : api.calloc(size, 1);
            assert_non_null(blocks[i]);
            assert_true(is_aligned_to(blocks[i], size));
        }
        for (size_t i = 0; i < TEST_COUNT_OF(blocks); i++)
            api.free(blocks[i]);
    }
}

static void every_alignment_with_every_size(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 16, 24, 100, 1000, 4096, 5000, 40000, 70000, 1 << 20};
    for (size_t alignment = 1; alignment <= GIB; alignment *= 2) {
        for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
            char *blocks[5];
            size_t least = alignment < 16 ? 16 : alignment;
            size_t size = sizes[i];
            void *posix = NULL;
            blocks[0] = api.aligned_alloc(alignment, size);
            blocks[1] = api.memalign(alignment, size);
            if (alignment >= sizeof(void *))
                assert_int_equal(api.posix_memalign(&posix, alignment, size), 0);
            blocks[2] = posix;
            blocks[3] = api.aligned_alloc(alignment, size * 3 + 1);
            blocks[4] = api.malloc(size);
            for (size_t j = 0; j < 4; j++) {
                if (j == 2 && posix == NULL)
                    continue;
                assert_non_null(blocks[j]);
                assert_true(is_aligned_to(blocks[j], least));
                assert_true(api.malloc_usable_size(blocks[j]) >= size);
                memset(blocks[j], 0x3c, size);
            }
            for (size_t j = 0; j < 5; j++)
                api.free(blocks[j]);
        }
    }
}

/* Small aligned blocks in numbers: cut from slabs, they must neither overlap
 * nor leave their alignment when slabs fill up. */
static void many_aligned_blocks_hold_together(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    static char *blocks[COUNT];
    for (size_t alignment = 32; alignment <= 64 * KIB; alignment *= 2) {
        size_t count = alignment <= 4096 ? COUNT : 200;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = api.aligned_alloc(alignment, i % 700 + 1);
            assert_non_null(blocks[i]);
            assert_true(is_aligned_to(blocks[i], alignment));
            pattern_fill(blocks[i], i % 700 + 1, (unsigned)i);
        }
        for (size_t i = 0; i < count; i++) {
            assert_true(pattern_holds(blocks[i], i % 700 + 1, (unsigned)i));
            api.free(blocks[i]);
        }
    }
}

static void valloc_and_pvalloc_are_page_aligned(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 0; size < 3 * MIB; size = size * 3 + 1) {
        void *block = api.valloc(size);
        assert_non_null(block);
        assert_true(is_aligned_to(block, page));
        memset(block, 1, size);
        api.free(block);
        block = api.pvalloc(size);
        assert_non_null(block);
        assert_true(is_aligned_to(block, page));
        size_t rounded = (size + page - 1) / page * page;
        assert_true(api.malloc_usable_size(block) >= rounded);
        memset(block, 1, rounded);
        api.free(block);
    }
}

/* Alignment costs at most alignment + size of addresses (found by taking both
 * and cutting off the ends), and no memory until it is written. 64 MiB is for
 * the ranges that an allocator reserves in one piece. */
static void large_alignment_does_not_waste(void **state) {
    (void)state;
    const size_t slack = 64 * MIB;
    for (size_t alignment = 4 * MIB; alignment <= GIB; alignment *= 4) {
        for (size_t size = 4096; size <= GIB; size *= 64) {
            size_t addresses = virtual_bytes(), resident = resident_bytes();
            char *block = api.aligned_alloc(alignment, size);
            assert_non_null(block);
            assert_true(is_aligned_to(block, alignment));
            assert_true(virtual_bytes() <= addresses + alignment + size + slack);
            block[0] = block[size - 1] = 1;
            assert_true(resident_bytes() <= resident + 4 * MIB);
            assert_true(api.malloc_usable_size(block) <= size + size / 8 + 64 * KIB);
            api.free(block);
        }
    }
}

/* Many live blocks of one large alignment: resident memory follows their
 * sizes, not their alignment. */
static void aligned_blocks_cost_their_size(void **state) {
    (void)state;
    enum { COUNT = 64 };
    const size_t written = COUNT * (64 * KIB);
    char *blocks[COUNT];
    size_t before = resident_bytes();
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = api.aligned_alloc(2 * MIB, 64 * KIB);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, 64 * KIB);
    }
    assert_true(resident_bytes() <= before + written * 9 / 8 + 2 * MIB);
    for (size_t i = 0; i < COUNT; i++)
        api.free(blocks[i]);
}

static const struct abi_test tests[] = {
    {"every size is aligned to 16", every_size_is_aligned_to_16, NULL},
    {"powers of two are aligned naturally", powers_of_two_are_aligned_naturally,
     "glibc aligns to 16 only"},
    {"every alignment with every size", every_alignment_with_every_size, NULL},
    {"many aligned blocks hold together", many_aligned_blocks_hold_together, NULL},
    {"valloc and pvalloc are page-aligned", valloc_and_pvalloc_are_page_aligned, NULL},
    {"a large alignment does not waste", large_alignment_does_not_waste,
     "glibc counts the bytes it aligned away to the block"},
    {"aligned blocks cost their size", aligned_blocks_cost_their_size, NULL},
};

int main(int argc, char **argv) { return abi_main(argc, argv, tests, TEST_COUNT_OF(tests)); }
