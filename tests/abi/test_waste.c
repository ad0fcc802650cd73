/* Internal waste: a block may be larger than what was asked for, but by little.
 *
 *   asked for           the block has at most
 *   1 .. 127 bytes      15 bytes more
 *   128 B .. 1 MiB      1/8 more
 *
 * malloc_usable_size shows the blocks; what it could hide (the tail of a slab
 * that holds no block, headers) shows in the memory that many blocks, written
 * full, take: at most 1/16 more for tails. */
#include "interface.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool within_rule(size_t size, size_t usable) {
    if (usable < size)
        return false;
    return size < 128 ? usable - size <= 15 : usable - size <= size / 8;
}

static void usable_size_keeps_the_rule(void **state) {
    (void)state;
    for (size_t size = 1; size <= MIB; size += size < 70000 ? 1 : 13) {
        void *block = api.malloc(size);
        assert_non_null(block);
        size_t usable = api.malloc_usable_size(block);
        if (!within_rule(size, usable))
            fail_msg("malloc(%zu) has %zu usable bytes", size, usable);
        api.free(block);
    }
}

static void nallocx_keeps_the_rule(void **state) {
    (void)state;
    for (size_t size = 1; size <= MIB; size++) {
        size_t usable = api.nallocx(size, 0);
        if (!within_rule(size, usable))
            fail_msg("nallocx(%zu) is %zu", size, usable);
    }
}

/* Bytes of resident memory per byte asked for, in thousandths, over enough
 * blocks of one size to fill many spans; -1 when memory is short. */
static long resident_per_mille(size_t size) {
    const size_t total = 96 * MIB;
    size_t count = total / size;
    /* The list of blocks is part of neither side of the quotient. */
    void **blocks = api.malloc(count * sizeof *blocks);
    memset(blocks, 1, count * sizeof *blocks);
    size_t before = resident_bytes();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = api.malloc(size);
        if (blocks[i] == NULL)
            return -1;
        memset(blocks[i], 0x42, size);
    }
    size_t grown = resident_bytes() - before;
    /* Not waste of these blocks: the bin that was filled ahead, and the step in
     * which fresh memory is faulted in. */
    const size_t ahead = 512 * KIB;
    if (grown < ahead)
        return 0;
    return (long)((grown - ahead) * 1000 / (count * size));
}

/* Each size in a child of its own: a heap that has not lived before. */
static long resident_per_mille_alone(size_t size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* pages as they are written */
        long result = resident_per_mille(size);
        _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
    }
    long result = -1;
    assert_int_equal(read(ends[0], &result, sizeof result), sizeof result);
    close(ends[0]);
    close(ends[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return result;
}

static void resident_memory_keeps_the_rule(void **state) {
    (void)state;
    /* The worst size of each class is one byte more than the class before. */
    for (size_t size = 129; size <= MIB;) {
        long per_mille = resident_per_mille_alone(size);
        if (per_mille < 990 || per_mille > 1125 + 63)
            fail_msg("blocks of %zu bytes take %ld/1000 of their size", size, per_mille);
        size = api.nallocx(size, 0) + 1;
    }
}

static void resident_memory_of_exact_fits(void **state) {
    (void)state;
    /* A whole class filled to the last byte: only tails may be left over, 1/16
     * of a span, so 1/15 of its blocks. */
    for (size_t size = 16; size <= MIB; size = api.nallocx(size * 2, 0)) {
        long per_mille = resident_per_mille_alone(api.nallocx(size, 0));
        if (per_mille < 980 || per_mille > 1067)
            fail_msg("blocks of %zu bytes take %ld/1000 of their size", size, per_mille);
    }
}

#define NOT_GLIBC "glibc has a header in front of each block and no nallocx"

static const struct abi_test tests[] = {
    {"usable size keeps the rule", usable_size_keeps_the_rule, NOT_GLIBC},
    {"nallocx keeps the rule", nallocx_keeps_the_rule, NOT_GLIBC},
    {"resident memory keeps the rule", resident_memory_keeps_the_rule, NOT_GLIBC},
    {"resident memory of exact fits", resident_memory_of_exact_fits, NOT_GLIBC},
};

int main(int argc, char **argv) { return abi_main(argc, argv, tests, TEST_COUNT_OF(tests)); }
