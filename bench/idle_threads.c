/* idle_threads THREADS: many threads that allocated once and then wait.
 *
 * Connection pools, thread pools, language runtimes: most of their threads sleep
 * most of the time. What an allocator keeps for each thread that has called it
 * once is paid a thousand times over.
 *
 * Each thread takes one block of 100 bytes, keeps it and waits. Reported as
 * thread_bytes: what is resident with all of them waiting, less what was before
 * the first, for each thread. That includes about 12 KiB of stack and thread
 * descriptor, the same under every allocator. One operation is the start of a
 * thread and its malloc.
 */
#include "support/blocks.h"
#include "support/memory.h"
#include "support/team.h"

#include <stdlib.h>

enum { LARGEST_THREADS = 20000, BLOCK_BYTES = 100 };

static pthread_barrier_t allocated;
static pthread_barrier_t counted;

static void *idle(void *argument) {
    uint64_t number = *(uint64_t *)argument;
    void *block = blocks_take(BLOCK_BYTES, number << 32);
    pthread_barrier_wait(&allocated);
    pthread_barrier_wait(&counted);
    *(uint64_t *)argument = blocks_give(block);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        driver_fail("usage: idle_threads THREADS");
    }
    uint32_t threads = (uint32_t)driver_number(argv[1], 1, LARGEST_THREADS);
    pthread_t *handles = driver_table(threads * sizeof *handles);
    uint64_t *words = driver_table(threads * sizeof *words);
    pthread_barrier_init(&allocated, NULL, threads + 1);
    pthread_barrier_init(&counted, NULL, threads + 1);
    free(blocks_take(BLOCK_BYTES, 0)); /* the allocator's own start is not the threads' */
    uint64_t before_bytes = memory_resident_bytes();

    struct driver_result result = {.benchmark = "idle_threads", .ops = threads};
    result.start_ns = driver_now_ns();
    for (uint32_t i = 0; i < threads; ++i) {
        words[i] = i;
        handles[i] = team_start_thread(idle, &words[i]);
    }
    pthread_barrier_wait(&allocated);
    result.end_ns = driver_now_ns();
    double added_bytes = (double)memory_resident_bytes() - (double)before_bytes;
    pthread_barrier_wait(&counted);
    for (uint32_t i = 0; i < threads; ++i) {
        team_join(handles[i]);
        result.checksum += words[i];
    }
    driver_add_metric(&result, "thread_bytes", added_bytes / threads);
    driver_print(&result);
    return 0;
}
