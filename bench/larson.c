/* larson THREADS [STEPS]: a server whose connections outlive its threads.
 *
 * After Larson and Krishnan, "Memory Allocation for Long-Running Server
 * Applications" (ISMM 1998). Each thread owns a table of blocks and replaces
 * them at random; after its share of the work it starts a new thread, hands the
 * table over to it and ends. So most blocks are given back by another thread than
 * the one that took them, which is gone by then ("bleeding"): heaps that belong
 * to threads must be inherited, and what dead threads cached must come home.
 *
 * STEPS is the number of replacements of all threads together, ROUNDS the number
 * of times that each table changes hands. One operation is a free and a malloc of
 * 16 to 1,000 bytes.
 */
#include "support/random.h"
#include "support/team.h"

#include <semaphore.h>
#include <stdlib.h>

enum {
    SLOTS = 5000,
    ROUNDS = 20,
    WARM_ROUNDS = 2,
    SMALLEST_BYTES = 16,
    LARGEST_BYTES = 1000,
    STEPS = 24000000,
    FEWEST_STEPS = TEAM_LARGEST * ROUNDS,
};

/* A table and all that its next owner needs to go on with it. */
struct chain {
    void **slots;
    struct random random;
    uint64_t sum;
    uint64_t steps_a_round;
    uint32_t rounds_left;
};

static sem_t chains_ended;

static void *take(uint64_t bits) {
    size_t size_bytes =
        SMALLEST_BYTES + random_scale(random_low(bits), LARGEST_BYTES - SMALLEST_BYTES + 1);
    void *block = driver_check(malloc(size_bytes));
    driver_touch(block, size_bytes, bits);
    return block;
}

static void *own(void *argument) {
    struct chain *chain = argument;
    pthread_detach(pthread_self());
    struct random random = chain->random;
    uint64_t sum = 0;
    for (uint64_t step = 0; step < chain->steps_a_round; ++step) {
        uint64_t bits = random_next(&random);
        void **slot = &chain->slots[random_scale(random_high(bits), SLOTS)];
        sum += driver_first_word(*slot);
        free(*slot);
        *slot = take(bits);
    }
    chain->random = random;
    chain->sum += sum;
    if (--chain->rounds_left > 0) {
        team_start_thread(own, chain);
    } else {
        sem_post(&chains_ended);
    }
    return NULL;
}

static void run(struct chain *chains, uint32_t threads, uint32_t rounds) {
    for (uint32_t i = 0; i < threads; ++i) {
        chains[i].rounds_left = rounds;
        team_start_thread(own, &chains[i]);
    }
    for (uint32_t i = 0; i < threads; ++i) {
        while (sem_wait(&chains_ended) != 0) {
        }
    }
}

static void fill(struct chain *chain, uint32_t number, uint64_t steps_a_round) {
    *chain = (struct chain){
        .slots = driver_table(SLOTS * sizeof *chain->slots),
        .random = random_of(number),
        .steps_a_round = steps_a_round,
    };
    for (uint32_t slot = 0; slot < SLOTS; ++slot) {
        chain->slots[slot] = take(random_next(&chain->random));
    }
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        driver_fail("usage: larson THREADS [STEPS]");
    }
    uint32_t threads = (uint32_t)driver_number(argv[1], 1, TEAM_LARGEST);
    size_t steps = driver_optional(argc, argv, 2, STEPS, FEWEST_STEPS, SIZE_MAX / 2);
    struct chain *chains = driver_table(threads * sizeof *chains);
    uint64_t steps_a_round = steps / ROUNDS / threads;
    for (uint32_t i = 0; i < threads; ++i) {
        fill(&chains[i], i, steps_a_round);
    }
    sem_init(&chains_ended, 0, 0);
    run(chains, threads, WARM_ROUNDS);

    struct driver_result result = {
        .benchmark = team_name("larson", threads),
        .ops = steps_a_round * ROUNDS * threads,
    };
    result.start_ns = driver_now_ns();
    run(chains, threads, ROUNDS);
    result.end_ns = driver_now_ns();

    for (uint32_t i = 0; i < threads; ++i) {
        result.checksum += chains[i].sum;
        for (uint32_t slot = 0; slot < SLOTS; ++slot) {
            result.checksum += driver_first_word(chains[i].slots[slot]);
            free(chains[i].slots[slot]);
        }
    }
    driver_print(&result);
    return 0;
}
