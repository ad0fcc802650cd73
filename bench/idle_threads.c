/* idle_threads THREADS [block|freed|mixed [STEPS [LIVE]]]: many threads that allocated once and
 * then wait.
 *
 * Connection pools, thread pools, language runtimes: most of their threads sleep
 * most of the time. What an allocator keeps for each thread that has called it
 * once is paid a thousand times over. Before it waits, each thread
 *
 *   block    takes one block of 64 bytes and keeps it (this is idle_threads)
 *   freed    takes 100 blocks of 16 to 1,016 bytes and gives them back
 *   mixed    does the work of random_mixed 4096, 40,960 steps or as many as are asked
 *            for, and gives everything back; a few threads work at a time, as in a server,
 *            beside LIVE MiB of records that stay all the while (none, if not told)
 *
 *   thread_bytes        what is resident with all of them waiting, less what was
 *                       before the first, for each thread; with stack and descriptor
 *   thread_heap_bytes   the same less what it is when threads do not allocate, which
 *                       a child of this process finds out first
 *
 * One operation is the start of a thread and what it does before it waits.
 */
#include "support/blocks.h"
#include "support/memory.h"
#include "support/team.h"

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LARGEST_THREADS = 20000,
    BLOCK_BYTES = 64,
    RECORD_BYTES = 1024,
    LARGEST_LIVE_MIB = 1000000,
    FREED_BLOCKS = 100,
    FREED_SMALLEST_BYTES = 16,
    FREED_LARGEST_BYTES = 1016,
    MIXED_SLOTS = 4096,
    MIXED_SMALLEST_BYTES = 16,
    MIXED_LARGEST_BYTES = 1040,
    MIXED_STEPS = 10 * MIXED_SLOTS,
    TURNS = 4,
};

/* Threads work in turn: as many at once as there are turns, each with a table to work in. */
struct turn {
    pthread_mutex_t lock;
    void *slots[MIXED_SLOTS];
};

struct sleeper {
    void *(*work)(struct sleeper *sleeper); /* returns a block that it keeps, or NULL */
    struct turn *turn;
    struct random random;
    uint64_t sum;
    pthread_t thread;
};

static uint32_t mixed_steps = MIXED_STEPS; /* before the threads begin */
static pthread_barrier_t worked;
static pthread_barrier_t counted;

static void *work_not(struct sleeper *sleeper) {
    (void)sleeper;
    return NULL;
}

static void *take(struct sleeper *sleeper, uint32_t smallest_bytes, uint32_t largest_bytes) {
    uint64_t bits = random_next(&sleeper->random);
    return blocks_take(
        smallest_bytes + random_scale(random_low(bits), largest_bytes - smallest_bytes + 1), bits);
}

static void *work_block(struct sleeper *sleeper) {
    return blocks_take(BLOCK_BYTES, random_next(&sleeper->random));
}

static void *work_freed(struct sleeper *sleeper) {
    void *blocks[FREED_BLOCKS];
    for (uint32_t i = 0; i < FREED_BLOCKS; ++i) {
        blocks[i] = take(sleeper, FREED_SMALLEST_BYTES, FREED_LARGEST_BYTES);
    }
    for (uint32_t i = 0; i < FREED_BLOCKS; ++i) {
        sleeper->sum += blocks_give(blocks[i]);
    }
    return NULL;
}

static void *take_mixed(struct sleeper *sleeper) {
    return take(sleeper, MIXED_SMALLEST_BYTES, MIXED_LARGEST_BYTES);
}

static void *work_mixed(struct sleeper *sleeper) {
    pthread_mutex_lock(&sleeper->turn->lock);
    void **slots = sleeper->turn->slots;
    for (uint32_t i = 0; i < MIXED_SLOTS; ++i) {
        slots[i] = take_mixed(sleeper);
    }
    for (uint32_t step = 0; step < mixed_steps; ++step) {
        uint64_t bits = random_next(&sleeper->random);
        void **slot = &slots[random_scale(random_high(bits), MIXED_SLOTS)];
        sleeper->sum += blocks_give(*slot);
        *slot = take_mixed(sleeper);
    }
    for (uint32_t i = 0; i < MIXED_SLOTS; ++i) {
        sleeper->sum += blocks_give(slots[i]);
    }
    pthread_mutex_unlock(&sleeper->turn->lock);
    return NULL;
}

static const struct kind {
    const char *argument;
    const char *benchmark;
    void *(*work)(struct sleeper *sleeper);
} kinds[] = {
    {"block", "idle_threads", work_block},
    {"freed", "idle_threads_freed", work_freed},
    {"mixed", "idle_threads_mixed", work_mixed},
};

static const struct kind *kind_of(const char *argument) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        if (strcmp(argument, kinds[i].argument) == 0) {
            return &kinds[i];
        }
    }
    driver_fail("usage: idle_threads THREADS [block|freed|mixed [STEPS [LIVE]]]");
}

static void *sleep_after_work(void *argument) {
    struct sleeper *sleeper = argument;
    void *block = sleeper->work(sleeper);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&counted);
    if (block != NULL) {
        sleeper->sum += blocks_give(block);
    }
    return NULL;
}

/* Bytes that became resident for each thread. */
static double run(struct sleeper *sleepers, uint32_t threads, struct driver_result *result) {
    double before_bytes = (double)memory_resident_bytes();
    result->start_ns = driver_now_ns();
    for (uint32_t i = 0; i < threads; ++i) {
        sleepers[i].thread = team_start_thread(sleep_after_work, &sleepers[i]);
    }
    pthread_barrier_wait(&worked);
    result->end_ns = driver_now_ns();
    double added_bytes = (double)memory_resident_bytes() - before_bytes;
    pthread_barrier_wait(&counted);
    for (uint32_t i = 0; i < threads; ++i) {
        team_join(sleepers[i].thread);
        result->checksum += sleepers[i].sum;
    }
    return added_bytes / threads;
}

/* The same where threads do not allocate, in a child, so that nothing of it remains here. */
static double run_without_work(struct sleeper *sleepers, uint32_t threads) {
    double thread_bytes = 0;
    int ends[2];
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child == 0) {
        struct driver_result result = {0};
        for (uint32_t i = 0; i < threads; ++i) {
            sleepers[i].work = work_not;
        }
        thread_bytes = run(sleepers, threads, &result);
        _exit(write(ends[1], &thread_bytes, sizeof thread_bytes) == sizeof thread_bytes ? 0 : 1);
    }
    bool has_result = child > 0 && read(ends[0], &thread_bytes, sizeof thread_bytes) > 0;
    if (!has_result || waitpid(child, NULL, 0) != child) {
        driver_fail("the child did not measure threads that do not allocate");
    }
    close(ends[0]);
    close(ends[1]);
    return thread_bytes;
}

/* A heap that is there before the threads are, and as long as the process. */
static void take_records(uint32_t live_mib) {
    size_t records = (size_t)live_mib * 1024 * 1024 / RECORD_BYTES;
    for (size_t i = 0; i < records; ++i) {
        blocks_take(RECORD_BYTES, i);
    }
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 5) {
        driver_fail("usage: idle_threads THREADS [block|freed|mixed [STEPS [LIVE]]]");
    }
    if (argc >= 4) {
        mixed_steps = (uint32_t)driver_number(argv[3], 0, UINT32_MAX);
    }
    uint32_t threads = (uint32_t)driver_number(argv[1], 1, LARGEST_THREADS);
    const struct kind *kind = kind_of(argc > 2 ? argv[2] : "block");
    struct sleeper *sleepers = driver_table(threads * sizeof *sleepers);
    struct turn *turns = driver_table(TURNS * sizeof *turns);
    for (uint32_t i = 0; i < TURNS; ++i) {
        pthread_mutex_init(&turns[i].lock, NULL);
    }
    for (uint32_t i = 0; i < threads; ++i) {
        sleepers[i] =
            (struct sleeper){.work = kind->work, .turn = &turns[i % TURNS], .random = random_of(i)};
    }
    pthread_barrier_init(&worked, NULL, threads + 1);
    pthread_barrier_init(&counted, NULL, threads + 1);
    take_records(argc == 5 ? (uint32_t)driver_number(argv[4], 0, LARGEST_LIVE_MIB) : 0);
    blocks_give(blocks_take(BLOCK_BYTES, 0)); /* the allocator's own start is not the threads' */

    double without_bytes = run_without_work(sleepers, threads);
    struct driver_result result = {.benchmark = kind->benchmark, .ops = threads};
    double thread_bytes = run(sleepers, threads, &result);
    driver_add_metric(&result, "thread_bytes", thread_bytes);
    driver_add_metric(&result, "thread_heap_bytes", thread_bytes - without_bytes);
    driver_print(&result);
    return 0;
}
