/* Thousands of threads alive at once, each with blocks of its own, which its
 * neighbour then checks and frees; and thousands of short ones, one after the
 * other, which must leave nothing behind.
 *
 * usage: many_threads alive|short */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "support.h"

enum { ALIVE = 4000, BLOCKS = 30 };

static pthread_barrier_t all_here, all_taken, all_given;
static char *blocks[ALIVE][BLOCKS];

static size_t size_of(size_t thread, size_t i) { return (thread * 31 + i * i * 13) % 2000 + 1; }

static void *live_together(void *argument) {
    size_t me = (size_t)(uintptr_t)argument, neighbour = (me + 1) % ALIVE;
    pthread_barrier_wait(&all_here);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[me][i] = malloc(size_of(me, i));
        CHECK(blocks[me][i] != NULL);
        memset(blocks[me][i], (int)(me % 127), size_of(me, i));
    }
    pthread_barrier_wait(&all_taken);
    for (size_t i = 0; i < BLOCKS; i++) {
        char *block = blocks[neighbour][i];
        CHECK(block[0] == (char)(neighbour % 127));
        CHECK(block[size_of(neighbour, i) - 1] == (char)(neighbour % 127));
        free(block);
    }
    pthread_barrier_wait(&all_given);
    return NULL;
}

static pthread_attr_t small_stack(void) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 2 * PTHREAD_STACK_MIN + 16 * KIB) == 0);
    CHECK(pthread_attr_setguardsize(&attributes, 0) == 0);
    return attributes;
}

static void run_alive(void) {
    static pthread_t threads[ALIVE];
    pthread_attr_t attributes = small_stack();
    pthread_barrier_init(&all_here, NULL, ALIVE);
    pthread_barrier_init(&all_taken, NULL, ALIVE + 1);
    pthread_barrier_init(&all_given, NULL, ALIVE + 1);
    for (size_t i = 0; i < ALIVE; i++)
        CHECK(pthread_create(&threads[i], &attributes, live_together, (void *)i) == 0);
    pthread_barrier_wait(&all_taken);
    /* 120,000 blocks of 1,000 bytes in the middle, 4,000 stacks of which 20 KiB are used, and as
     * much again as the blocks for bins that were filled ahead. */
    CHECK(process_status("VmRSS") < 320 * KIB);
    pthread_barrier_wait(&all_given);
    for (size_t i = 0; i < ALIVE; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *live_shortly(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    void *left = NULL;
    if (seed % 4 == 0) {
        free(malloc(seed % 5000 + 1));
    } else {
        CHECK(traffic_run(seed, 60));
        left = malloc(100); /* freed by the main thread */
    }
    pthread_barrier_wait(&all_given);
    return left;
}

/* Twice as many end together as there are processors: a cache a processor may rest for the next
 * thread, the others must give back all that they hold. */
static void run_short(unsigned from, unsigned to) {
    enum { MOST = 64 };
    unsigned together = (unsigned)get_nprocs() * 2 < MOST ? (unsigned)get_nprocs() * 2 : MOST;
    pthread_attr_t attributes = small_stack();
    pthread_barrier_init(&all_given, NULL, together);
    for (unsigned i = from; i < to; i += together) {
        pthread_t threads[MOST];
        for (unsigned j = 0; j < together; j++)
            CHECK(pthread_create(&threads[j], &attributes, live_shortly,
                                 (void *)(uintptr_t)(i + j)) == 0);
        for (unsigned j = 0; j < together; j++) {
            void *left;
            CHECK(pthread_join(threads[j], &left) == 0);
            free(left);
        }
    }
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 2);
    if (strcmp(argv[1], "alive") == 0) {
        run_alive();
        run_alive();
    } else {
        run_short(0, 4000);
        size_t settled_kib = process_status("VmRSS"), settled_size_kib = process_status("VmSize");
        run_short(4000, 24000);
        /* A slab of each class and shard comes only by and by: 20 MiB are no growth. */
        size_t allowed_kib = settled_kib < 12 * KIB ? 20 * KIB : settled_kib + 8 * KIB;
        CHECK(process_status("VmRSS") < allowed_kib);
        CHECK(process_status("VmSize") < settled_size_kib + 128 * KIB);
    }
    return process_ok();
}
