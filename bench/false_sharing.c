/* false_sharing fresh|handed THREADS [STEPS]: do blocks of different threads share cache lines?
 *
 * After cache-thrash and cache-scratch of Berger et al., "Hoard: A Scalable Memory
 * Allocator for Multithreaded Applications" (ASPLOS 2000). Each thread takes a few
 * blocks of 16 bytes, writes them many times and gives them back, again and again.
 * Two threads whose blocks lie in one cache line make each other's writes slow, up
 * to twenty times, and no program can see why.
 *
 *   fresh   threads take their blocks at the same time: an allocator that serves
 *           them in turn from one place induces sharing actively;
 *   handed  before each round one thread takes neighbouring blocks and hands every
 *           thread its share, in turn, which that thread gives back before it takes
 *           its own: an allocator that hands them out again where they were given
 *           back induces sharing passively.
 *
 * STEPS is the number of blocks of each thread. One operation is a malloc, 200
 * writes, and a free. The blocks' addresses are in registers meanwhile: a load from
 * the stack waits for a store to a block whose address ends in the same 12 bits, and
 * where both begin on pages that costs more than shared lines do (docs/decisions/0050).
 */
#include "support/team.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS = 4, /* write_blocks names each */
    BLOCK_BYTES = 16,
    WRITES = 200,
    LIVES_A_ROUND = 2000,
    BLOCKS_A_ROUND = BLOCKS * LIVES_A_ROUND,
    STEPS = 2000000,
};

struct work {
    uint32_t threads;
    uint64_t rounds;
    void **handed;           /* a row of blocks for each thread; NULL in fresh */
    pthread_barrier_t given; /* the blocks of a round are in the table */
    pthread_barrier_t taken; /* and have been given back */
};

/* Block i of the row goes to thread i % threads: neighbours to different threads. */
static void hand_out(const struct work *work) {
    for (uint32_t i = 0; i < BLOCKS; ++i) {
        for (uint32_t thread = 0; thread < work->threads; ++thread) {
            void *block = driver_check(malloc(BLOCK_BYTES));
            driver_touch(block, BLOCK_BYTES, i + 1);
            work->handed[thread * BLOCKS + i] = block;
        }
    }
}

static uint64_t give_back_handed(struct work *work, uint32_t member) {
    if (member == 0) {
        hand_out(work);
    }
    pthread_barrier_wait(&work->given);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < BLOCKS; ++i) {
        void *block = work->handed[member * BLOCKS + i];
        sum += driver_first_word(block);
        free(block);
    }
    pthread_barrier_wait(&work->taken);
    return sum;
}

static uint64_t write_blocks(void) {
    uint64_t *blocks[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; ++i) {
        blocks[i] = driver_check(malloc(BLOCK_BYTES));
        *(volatile uint64_t *)blocks[i] = i;
    }
    volatile uint64_t *first = blocks[0];
    volatile uint64_t *second = blocks[1];
    volatile uint64_t *third = blocks[2];
    volatile uint64_t *fourth = blocks[3];
    for (uint32_t write = 0; write < WRITES; ++write) {
        *first += write;
        *second += write;
        *third += write;
        *fourth += write;
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < BLOCKS; ++i) {
        sum += driver_first_word(blocks[i]);
        free(blocks[i]);
    }
    return sum;
}

static uint64_t play(struct work *work, uint32_t member, uint64_t rounds) {
    uint64_t sum = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
        if (work->handed != NULL) {
            sum += give_back_handed(work, member);
        }
        for (uint32_t life = 0; life < LIVES_A_ROUND; ++life) {
            sum += write_blocks();
        }
    }
    return sum;
}

static uint64_t warm(void *context, uint32_t member) { return play(context, member, 1); }

static uint64_t run(void *context, uint32_t member) {
    struct work *work = context;
    return play(work, member, work->rounds);
}

int main(int argc, char **argv) {
    bool handed = argc > 1 && strcmp(argv[1], "handed") == 0;
    if (argc < 3 || argc > 4 || (!handed && strcmp(argv[1], "fresh") != 0)) {
        driver_fail("usage: false_sharing fresh|handed THREADS [STEPS]");
    }
    struct work work = {.threads = (uint32_t)driver_number(argv[2], 1, TEAM_LARGEST)};
    size_t steps = driver_optional(argc, argv, 3, STEPS, BLOCKS_A_ROUND, SIZE_MAX / 2);
    work.rounds = steps / BLOCKS_A_ROUND;
    if (handed) {
        work.handed = driver_table((size_t)work.threads * BLOCKS * sizeof *work.handed);
    }
    pthread_barrier_init(&work.given, NULL, work.threads);
    pthread_barrier_init(&work.taken, NULL, work.threads);
    struct driver_result result = {
        .benchmark = team_name(handed ? "false_sharing_handed" : "false_sharing", work.threads),
        .ops = work.rounds * BLOCKS_A_ROUND * work.threads,
    };
    struct team team = {.members = work.threads, .context = &work, .warm = warm, .run = run};
    team_measure(&team, &result);
    driver_print(&result);
    return 0;
}
