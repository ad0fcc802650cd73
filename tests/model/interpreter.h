/* The one interpreter of operation sequences. A string of bytes is read as calls
 * of the allocator over a set of slots, and each call's outcome is held against
 * a model that is too simple to be wrong:
 *
 *   - a block lies at the alignment asked for, is at least as large as asked,
 *     and overlaps no other block;
 *   - nobody but its owner changes its contents; realloc keeps them;
 *   - calloc's memory is zero;
 *   - a refusal is NULL with ENOMEM, only where refusals are to be expected, and
 *     leaves every block as it was;
 *   - the heap agrees with itself (hak_check_heap), every few hundred calls and at the
 *     end, whatever other threads do meanwhile.
 *
 * Every string of bytes is a valid sequence, so random numbers, a fuzzer and a
 * file from an old bug all serve as input:
 *
 *   test_model.c      random sequences; replay of files
 *   test_failures.c   the same with a kernel that refuses calls; test_each_failure.c, one each time
 *   tests/stress      several threads at once, handing blocks to each other
 *   tests/fuzz        libFuzzer chooses the bytes
 *
 * A violation prints what was found and aborts: that works in any thread, in a
 * forked child and under a fuzzer. */
#ifndef HAK_TESTS_MODEL_INTERPRETER_H
#define HAK_TESTS_MODEL_INTERPRETER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INTERPRETER_SLOTS = 256, EXCHANGE_SLOTS = 64 };

struct block {
    unsigned char *start; /* NULL: the slot is empty */
    size_t asked;         /* bytes */
    size_t usable;        /* bytes, all of them filled with the pattern of tag */
    size_t alignment;     /* asked for; what sized frees must repeat */
    uint64_t tag;
    bool is_aligned_call; /* of aligned_alloc and its like */
};

/* Where interpreters of several threads leave blocks for each other. */
struct exchange {
    pthread_mutex_t lock;
    struct block blocks[EXCHANGE_SLOTS];
};

struct interpreter {
    /* Set by the user, else zero. */
    struct exchange *exchange; /* or NULL */
    size_t live_max_bytes;     /* 0: 32 MiB */
    bool expects_refusals;
    uint64_t tag_seed; /* different in each thread */

    /* The sequence. */
    const uint8_t *at, *end;

    /* The model. */
    struct block slots[INTERPRETER_SLOTS];
    struct block *by_address[INTERPRETER_SLOTS]; /* the live ones, ascending */
    size_t live_count;
    size_t live_bytes; /* of blocks below 1 GiB */
    size_t huge_count;

    /* What happened, for people and for tests that must know that it did. */
    uint64_t operations;
    uint64_t blocks_taken;
    uint64_t refusals;
};

/* Runs a sequence; blocks stay live until interpreter_end. */
void interpreter_run(struct interpreter *run, const uint8_t *bytes, size_t count);

/* Runs a sequence of count random bytes. */
void interpreter_run_random(struct interpreter *run, uint64_t seed, size_t count);

/* Checks and frees all blocks that are left; and checks the heap. */
void interpreter_end(struct interpreter *run);

/* The same for an exchange that no thread uses any more. */
void exchange_end(struct exchange *exchange);

/* Every block of the process has been freed and every other thread has ended:
 * the heap says so too, once the calling thread's cache is flushed. */
void interpreter_expect_empty_heap(void);

#endif
