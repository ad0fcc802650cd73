/* many_threads_rss THREADS: what a thousand threads leave behind that worked once and now wait.
 *
 * Each thread takes 1 MiB in blocks of 16 bytes to 1 KiB, gives nine in ten of
 * them back, at random, and waits; a few work at a time, as in a server. Then each
 * gives back the rest and waits again. The blocks that are free may be used by
 * any thread, if the allocator lets them; or each thread keeps its own.
 *
 *   fragmentation     resident over live when one block in ten is left
 *   rss_after_bytes   resident when all have been given back and all threads still wait
 *   thread_bytes      the same less what was resident before the first thread, for each
 *                     thread; with about 12 KiB of stack and thread descriptor
 *
 * One operation is a malloc and its free.
 */
#include "support/blocks.h"
#include "support/memory.h"
#include "support/team.h"

#include <stdbool.h>

enum {
    LARGEST_THREADS = 20000,
    THREAD_BYTES = 1 << 20,
    MOST_BLOCKS = 8192,
    MOST_KEPT = 1024,
    KEPT_ONE_IN = 10,
    TURNS = 4,
};

/* Threads work in turn: as many at once as there are turns, each with a table to work in. */
struct turn {
    pthread_mutex_t lock;
    void *blocks[MOST_BLOCKS];
};

struct worker {
    struct turn *turn;
    uint32_t number;
    uint32_t taken; /* blocks */
    uint32_t kept_count;
    uint64_t kept_bytes;
    uint64_t sum;
    pthread_t thread;
    void *kept[MOST_KEPT];
};

static pthread_barrier_t worked;
static pthread_barrier_t worked_counted;
static pthread_barrier_t given;
static pthread_barrier_t given_counted;

static void work(struct worker *worker, void **blocks) {
    struct random random = random_of(worker->number);
    uint32_t count = 0;
    for (uint64_t bytes = 0; bytes < THREAD_BYTES && count < MOST_BLOCKS; ++count) {
        uint64_t bits = random_next(&random);
        blocks[count] = blocks_take(blocks_size(bits, 4, 6), bits);
        bytes += blocks_bytes(blocks[count]);
    }
    worker->taken = count;
    for (uint32_t i = 0; i < count; ++i) {
        bool kept = random_scale(random_high(random_next(&random)), KEPT_ONE_IN) == 0;
        if (kept && worker->kept_count < MOST_KEPT) {
            worker->kept_bytes += blocks_bytes(blocks[i]);
            worker->kept[worker->kept_count++] = blocks[i];
        } else {
            worker->sum += blocks_give(blocks[i]);
        }
    }
}

static void *live(void *argument) {
    struct worker *worker = argument;
    pthread_mutex_lock(&worker->turn->lock);
    work(worker, worker->turn->blocks);
    pthread_mutex_unlock(&worker->turn->lock);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&worked_counted);
    for (uint32_t i = 0; i < worker->kept_count; ++i) {
        worker->sum += blocks_give(worker->kept[i]);
    }
    pthread_barrier_wait(&given);
    pthread_barrier_wait(&given_counted);
    return NULL;
}

static struct turn *make_turns(void) {
    struct turn *turns = driver_table(TURNS * sizeof *turns);
    for (uint32_t i = 0; i < TURNS; ++i) {
        pthread_mutex_init(&turns[i].lock, NULL);
    }
    return turns;
}

static void start(struct worker *workers, struct turn *turns, uint32_t threads) {
    for (uint32_t i = 0; i < threads; ++i) {
        workers[i].number = i;
        workers[i].turn = &turns[i % TURNS];
        workers[i].thread = team_start_thread(live, &workers[i]);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        driver_fail("usage: many_threads_rss THREADS");
    }
    uint32_t threads = (uint32_t)driver_number(argv[1], 1, LARGEST_THREADS);
    struct worker *workers = driver_table(threads * sizeof *workers);
    struct turn *turns = make_turns();
    pthread_barrier_init(&worked, NULL, threads + 1);
    pthread_barrier_init(&worked_counted, NULL, threads + 1);
    pthread_barrier_init(&given, NULL, threads + 1);
    pthread_barrier_init(&given_counted, NULL, threads + 1);
    blocks_give(blocks_take(BLOCKS_SMALLEST_BYTES, 0)); /* starts the allocator */
    double before_bytes = (double)memory_resident_bytes();

    struct driver_result result = {.benchmark = "many_threads_rss"};
    result.start_ns = driver_now_ns();
    start(workers, turns, threads);
    pthread_barrier_wait(&worked);
    result.end_ns = driver_now_ns();
    double worked_bytes = (double)memory_resident_bytes();
    pthread_barrier_wait(&worked_counted);
    pthread_barrier_wait(&given);
    double given_bytes = (double)memory_resident_bytes();
    pthread_barrier_wait(&given_counted);

    double live_bytes = 0;
    for (uint32_t i = 0; i < threads; ++i) {
        team_join(workers[i].thread);
        live_bytes += (double)workers[i].kept_bytes;
        result.ops += workers[i].taken;
        result.checksum += workers[i].sum;
    }
    driver_add_metric(&result, "fragmentation", worked_bytes / live_bytes);
    driver_add_metric(&result, "rss_after_bytes", given_bytes);
    driver_add_metric(&result, "thread_bytes", (given_bytes - before_bytes) / threads);
    driver_print(&result);
    return 0;
}
