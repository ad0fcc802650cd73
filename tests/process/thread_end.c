/* Blocks taken and given while a thread ends: in destructors of thread-specific
 * data, which run in no promised order, some of them after the allocator's own,
 * and which may start over up to PTHREAD_DESTRUCTOR_ITERATIONS times. A key made
 * before the first allocation sorts before the allocator's, one made after it
 * behind.
 *
 * Thousands of threads end this way, so what one of them leaves behind shows in
 * the resident memory. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { ROUNDS = 400, THREADS = 8 };

static pthread_key_t early_key, late_key;
static bool early_key_made;

static void destroy_early(void *words);

/* Before main and before every constructor, so before the allocator's key. */
static void make_early_key(void) {
    early_key_made = pthread_key_create(&early_key, destroy_early) == 0;
}

CALL_AT_FIRST(make_early_key);

struct last_words {
    int iterations;
    char *block;
};

static void talk_on(pthread_key_t key, struct last_words *words) {
    char *blocks[50];
    CHECK(words->block[0] == 'b' && words->block[299] == 'b');
    free(words->block);
    for (size_t i = 0; i < 50; i++) {
        blocks[i] = malloc(i * i * 3 + 1);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 'x', i * i * 3 + 1);
    }
    for (size_t i = 0; i < 50; i++)
        free(blocks[i]);
    CHECK(traffic_run((unsigned)words->iterations, 100));
    if (++words->iterations < PTHREAD_DESTRUCTOR_ITERATIONS) {
        words->block = malloc(300);
        CHECK(words->block != NULL);
        memset(words->block, 'b', 300);
        CHECK(pthread_setspecific(key, words) == 0);
    } else {
        free(words);
    }
}

static void destroy_early(void *words) { talk_on(early_key, words); }
static void destroy_late(void *words) { talk_on(late_key, words); }

static void leave_words(pthread_key_t key) {
    struct last_words *words = calloc(1, sizeof *words);
    CHECK(words != NULL);
    words->block = malloc(300);
    CHECK(words->block != NULL);
    memset(words->block, 'b', 300);
    CHECK(pthread_setspecific(key, words) == 0);
}

static void *live_and_end(void *argument) {
    unsigned seed = *(unsigned *)argument;
    free(argument);
    if (seed % 3 == 0) /* ends without having called malloc or free before */
        CHECK(traffic_run(seed, 300));
    leave_words(early_key);
    leave_words(late_key);
    return NULL;
}

static void run_round(unsigned round) {
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        unsigned *seed = malloc(sizeof *seed);
        *seed = round * THREADS + i;
        CHECK(pthread_create(&threads[i], NULL, live_and_end, seed) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    process_begin();
    CHECK(early_key_made);
    free(malloc(1));
    CHECK(pthread_key_create(&late_key, destroy_late) == 0);
    for (unsigned round = 0; round < ROUNDS / 4; round++)
        run_round(round);
    size_t settled_kib = process_status("VmRSS");
    for (unsigned round = ROUNDS / 4; round < ROUNDS; round++)
        run_round(round);
    /* 2,400 threads: 8 KiB left behind by each would be 19 MiB. */
    CHECK(process_status("VmRSS") < settled_kib + 12 * KIB);
    return process_ok();
}
