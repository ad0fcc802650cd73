/* producer_consumer PAIRS [STEPS]: one thread takes blocks, another gives them back.
 *
 * After Lever and Boreham's malloc-test ("malloc() Performance in a Multithreaded
 * Linux Environment", USENIX 2000): pipelines of real programs, where a reader
 * makes messages and a worker ends them. No thread ever reuses a block that it
 * gave back itself. An allocator whose freed blocks stay with the thread that
 * gives them back takes ever new memory; one that sends each home alone pays for
 * every one of them.
 *
 * A producer fills batches of 256 blocks of 16 to 512 bytes and passes them
 * through a ring of 8 places, so passing costs next to nothing for each block.
 * STEPS is the number of blocks of each pair; one operation is a malloc in one
 * thread and its free in the other.
 */
#include "support/blocks.h"
#include "support/team.h"

#include <semaphore.h>

enum { BATCH = 256, PLACES = 8, WARM_BATCHES = 64, STEPS = 12000000 };

struct pipe {
    void *places[PLACES][BATCH];
    sem_t empty;
    sem_t full;
    uint64_t put; /* batches so far; the producer's */
    uint64_t got; /* the consumer's */
    struct random random;
};

struct work {
    struct pipe *pipes;
    uint64_t batches; /* of each pair */
};

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) {
    }
}

static uint64_t produce(struct pipe *pipe, uint64_t batches) {
    for (uint64_t i = 0; i < batches; ++i) {
        wait_for(&pipe->empty);
        void **batch = pipe->places[pipe->put++ % PLACES];
        for (uint32_t j = 0; j < BATCH; ++j) {
            uint64_t bits = random_next(&pipe->random);
            batch[j] = blocks_take(blocks_size(bits, 4, 5), bits);
        }
        sem_post(&pipe->full);
    }
    return 0;
}

static uint64_t consume(struct pipe *pipe, uint64_t batches) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < batches; ++i) {
        wait_for(&pipe->full);
        void **batch = pipe->places[pipe->got++ % PLACES];
        for (uint32_t j = 0; j < BATCH; ++j) {
            sum += blocks_give(batch[j]);
        }
        sem_post(&pipe->empty);
    }
    return sum;
}

/* Members come in pairs: the even ones produce, the odd ones consume. */
static uint64_t pass(const struct work *work, uint32_t member, uint64_t batches) {
    struct pipe *pipe = &work->pipes[member / 2];
    return member % 2 == 0 ? produce(pipe, batches) : consume(pipe, batches);
}

static uint64_t warm(void *context, uint32_t member) { return pass(context, member, WARM_BATCHES); }

static uint64_t run(void *context, uint32_t member) {
    const struct work *work = context;
    return pass(work, member, work->batches);
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        driver_fail("usage: producer_consumer PAIRS [STEPS]");
    }
    uint32_t pairs = (uint32_t)driver_number(argv[1], 1, TEAM_LARGEST / 2);
    size_t steps = driver_optional(argc, argv, 2, STEPS, BATCH, SIZE_MAX / 2 / pairs);
    uint32_t members = pairs * 2;
    struct work work = {
        .pipes = driver_table(pairs * sizeof *work.pipes),
        .batches = steps / BATCH,
    };
    for (uint32_t i = 0; i < pairs; ++i) {
        work.pipes[i].random = random_of(i);
        sem_init(&work.pipes[i].empty, 0, PLACES);
        sem_init(&work.pipes[i].full, 0, 0);
    }
    struct driver_result result = {
        .benchmark = team_name("producer_consumer", members),
        .ops = work.batches * BATCH * pairs,
    };
    struct team team = {.members = members, .context = &work, .warm = warm, .run = run};
    team_measure(&team, &result);
    driver_print(&result);
    return 0;
}
