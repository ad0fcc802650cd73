/* What lies in blocks: calloc is zero also where memory was used before,
 * realloc keeps what was there over every change of size, and no two live
 * blocks share a byte. */
#include "interface.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Sizes on both sides of every border inside an allocator: class steps, the
 * small limit, slabs of 64 KiB, SuperSlabs of 2 MiB. */
static const size_t border_sizes[] = {
    1,     15,     16,     17,     100,    127,     128,           129,     1000,          1024,
    1025,  4095,   4096,   4097,   32767,  32768,   32769,         65535,   65536,         65537,
    98304, 262144, 262145, 524288, 524289, 1 << 20, (1 << 20) + 1, 2 << 20, (2 << 20) + 1, 9 << 20,
};

static void calloc_is_zero_after_dirty_reuse(void **state) {
    (void)state;
    enum { BLOCKS = 24 };
    for (size_t i = 0; i < TEST_COUNT_OF(border_sizes); i++) {
        size_t size = border_sizes[i];
        size_t count = size > MIB ? 3 : BLOCKS;
        for (unsigned round = 0; round < 4; round++) {
            char *blocks[BLOCKS];
            for (size_t j = 0; j < count; j++) {
                blocks[j] = round % 2 ? api.calloc(size, 1) : api.calloc(1, size);
                assert_non_null(blocks[j]);
                assert_true(is_all_zero(blocks[j], size));
                /* Dirty all that may be used, so that a later block of another
                 * size in the same place is dirty too. */
                memset(blocks[j], 0xa5, api.malloc_usable_size(blocks[j]));
            }
            for (size_t j = 0; j < count; j++)
                api.free(blocks[j]);
            if (round == 2)
                api.malloc_trim(0);
        }
    }
}

/* Large blocks come back from caches, from the kernel, in part: a span that is
 * "known zero" only in its first half must not pass for zero. */
static void calloc_is_zero_in_recombined_spans(void **state) {
    (void)state;
    uint64_t random = 88172645463325252u;
    char *blocks[16] = {NULL};
    size_t sizes[16] = {0};
    for (unsigned step = 0; step < 600; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t slot = random % 16;
        if (blocks[slot] != NULL) {
            memset(blocks[slot], 0xff, sizes[slot]);
            api.free(blocks[slot]);
        }
        sizes[slot] = 40 * KIB + (random >> 8) % (4 * MIB);
        blocks[slot] = api.calloc(1, sizes[slot]);
        assert_non_null(blocks[slot]);
        assert_true(is_all_zero(blocks[slot], sizes[slot]));
        if (step % 100 == 99)
            api.malloc_trim(0);
    }
    for (size_t i = 0; i < TEST_COUNT_OF(blocks); i++)
        api.free(blocks[i]);
}

static void calloc_of_huge_is_zero(void **state) {
    (void)state;
    const size_t size = GIB + 12345;
    for (unsigned round = 0; round < 3; round++) {
        char *block = api.calloc(size / 5, 5);
        assert_non_null(block);
        for (size_t at = 0; at < size / 5 * 5; at += 4 * MIB) {
            assert_int_equal(block[at], 0);
            block[at] = 1;
        }
        api.free(block);
    }
}

/* A grown block's new part is not promised to be zero, but the old part is. */
static void realloc_keeps_contents_over_all_transitions(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT_OF(border_sizes); i++) {
        for (size_t j = 0; j < TEST_COUNT_OF(border_sizes); j++) {
            size_t from = border_sizes[i], to = border_sizes[j];
            size_t kept = from < to ? from : to;
            char *block = api.malloc(from);
            assert_non_null(block);
            pattern_fill(block, from, (unsigned)(i * 31 + j));
            block = api.realloc(block, to);
            assert_non_null(block);
            assert_true(pattern_holds(block, kept, (unsigned)(i * 31 + j)));
            memset(block, 0x77, to);
            api.free(block);
        }
    }
}

static void realloc_grows_and_shrinks_step_by_step(void **state) {
    (void)state;
    char *block = NULL;
    char *neighbour = NULL;
    size_t size = 0;
    for (size_t next = 1; next < 48 * MIB; next += next / 3 + 1) {
        block = api.realloc(block, next);
        assert_non_null(block);
        assert_true(pattern_holds(block, size, 3));
        pattern_fill(block, next, 3);
        size = next;
        /* Something in the way of growing in place. */
        api.free(neighbour);
        neighbour = api.malloc(next);
        memset(neighbour, 0x11, next);
    }
    while (size > 1) {
        size = size * 3 / 5;
        block = api.realloc(block, size);
        assert_non_null(block);
        assert_true(pattern_holds(block, size, 3));
    }
    api.free(neighbour);
    api.free(block);
}

/* Contents of huge blocks move too: every MiB is checked at its border. */
static void realloc_of_huge(void **state) {
    (void)state;
    static const size_t sizes[] = {600, 1100, 1500, 1023, 2100, 1024, 1025, 3, 1200};
    unsigned char *block = api.malloc(100);
    size_t size = 100;
    for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
        size_t next = sizes[i] * MIB + i;
        block = api.realloc(block, next);
        assert_non_null(block);
        size_t kept = size < next ? size : next;
        for (size_t at = MIB - 1; i > 0 && at < kept; at += MIB)
            assert_int_equal(block[at], (at >> 20) % 251 + 1);
        for (size_t at = MIB - 1; at < next; at += MIB)
            block[at] = (unsigned char)((at >> 20) % 251 + 1);
        size = next;
    }
    api.free(block);
}

static void realloc_of_aligned_blocks(void **state) {
    (void)state;
    for (size_t alignment = 16; alignment <= 8 * MIB; alignment *= 8) {
        for (size_t size = 1; size < 3 * MIB; size = size * 5 + 3) {
            char *block = api.aligned_alloc(alignment, size);
            assert_non_null(block);
            pattern_fill(block, size, 9);
            block = api.realloc(block, size * 3);
            assert_non_null(block);
            assert_true(pattern_holds(block, size, 9));
            block = api.realloc(block, size / 2 + 1);
            assert_non_null(block);
            assert_true(pattern_holds(block, size / 2 + 1 < size ? size / 2 + 1 : size, 9));
            api.free(block);
        }
    }
}

static void reallocarray_keeps_contents(void **state) {
    (void)state;
    unsigned *numbers = NULL;
    size_t count = 0;
    for (size_t next = 1; next < 2000000; next = next * 3 / 2 + 1) {
        numbers = api.reallocarray(numbers, next, sizeof *numbers);
        assert_non_null(numbers);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(numbers[i], i);
        for (size_t i = 0; i < next; i++)
            numbers[i] = (unsigned)i;
        count = next;
    }
    api.free(numbers);
}

static void usable_size_may_be_used(void **state) {
    (void)state;
    void *blocks[400];
    size_t count = 0;
    for (size_t size = 0; size < 300 * KIB && count < 400; size += size / 16 + 1) {
        blocks[count] = api.malloc(size);
        assert_non_null(blocks[count]);
        size_t usable = api.malloc_usable_size(blocks[count]);
        assert_true(usable >= size);
        pattern_fill(blocks[count], usable, (unsigned)count);
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        assert_true(pattern_holds(blocks[i], api.malloc_usable_size(blocks[i]), (unsigned)i));
        api.free(blocks[i]);
    }
}

struct live_set {
    uint64_t random;
    bool intact;
};

/* Random mixed traffic; every block is filled when taken and checked when given
 * back, so any overlap of two live blocks shows. */
static void *churn(void *argument) {
    enum { SLOTS = 600, STEPS = 60000 };
    struct live_set *set = argument;
    static _Thread_local struct {
        char *block;
        size_t size;
    } slots[SLOTS];
    for (unsigned step = 0; step < STEPS + SLOTS; step++) {
        set->random ^= set->random << 13, set->random ^= set->random >> 7;
        set->random ^= set->random << 17;
        size_t i = step < STEPS ? set->random % SLOTS : step - STEPS;
        if (slots[i].block != NULL) {
            set->intact &= pattern_holds(slots[i].block, slots[i].size, (unsigned)i);
            api.free(slots[i].block);
            slots[i].block = NULL;
        }
        if (step >= STEPS)
            continue;
        unsigned scale = (unsigned)(set->random >> 20) % 100;
        size_t limit = scale < 80 ? 1040 : scale < 97 ? 32 * KIB : 800 * KIB;
        slots[i].size = (set->random >> 32) % limit;
        slots[i].block =
            (set->random >> 10) % 8 == 0 ? api.calloc(1, slots[i].size) : api.malloc(slots[i].size);
        if (slots[i].block == NULL) {
            set->intact = false;
            continue;
        }
        pattern_fill(slots[i].block, slots[i].size, (unsigned)i);
    }
    return NULL;
}

static void live_blocks_do_not_overlap(void **state) {
    (void)state;
    struct live_set sets[4];
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        sets[i] = (struct live_set){.random = 0x9e3779b97f4a7c15u * (i + 1), .intact = true};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &sets[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(sets[i].intact);
    }
}

static const struct abi_test tests[] = {
    {"calloc is zero after dirty reuse", calloc_is_zero_after_dirty_reuse, NULL},
    {"calloc is zero in recombined spans", calloc_is_zero_in_recombined_spans, NULL},
    {"calloc of 1 GiB is zero", calloc_of_huge_is_zero, NULL},
    {"realloc keeps contents over all transitions", realloc_keeps_contents_over_all_transitions,
     NULL},
    {"realloc grows and shrinks step by step", realloc_grows_and_shrinks_step_by_step, NULL},
    {"realloc of huge blocks", realloc_of_huge, NULL},
    {"realloc of aligned blocks", realloc_of_aligned_blocks, NULL},
    {"reallocarray keeps contents", reallocarray_keeps_contents, NULL},
    {"usable size may be used", usable_size_may_be_used, NULL},
    {"live blocks do not overlap", live_blocks_do_not_overlap, NULL},
};

int main(int argc, char **argv) { return abi_main(argc, argv, tests, TEST_COUNT_OF(tests)); }
