/* Threads that allocate, hand blocks to each other, end and are born again, while
 * another thread forks and its children go on allocating.
 *
 *   round:  8 threads, each a random sequence of the model's interpreter, all of
 *           them leaving blocks for each other in one exchange
 *   beside: a thread that forks; the child inherits its blocks, checks them,
 *           allocates, frees them and ends; the parent's blocks are untouched
 *
 * At the end nothing may be in use. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "interpreter.h"
#include "support.h"

enum {
    THREADS = 8,
    ROUNDS = STRESS_SCALE / 4,
    SEQUENCE_BYTES = 20000,
    FORK_SEQUENCE_BYTES = 4000,
    LIVE_MAX_BYTES = 8 << 20,
};

static struct exchange exchange = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct interpreter runs[THREADS];
static struct interpreter forker_run;
static atomic_bool is_over;

static void *run_thread(void *argument) {
    struct interpreter *run = argument;
    interpreter_run_random(run, run->tag_seed, SEQUENCE_BYTES);
    interpreter_end(run);
    return NULL;
}

/* In the child only this thread is left, with its blocks and its cache. */
_Noreturn static void run_child(uint64_t seed) {
    alarm(HANG_SECONDS);
    interpreter_run_random(&forker_run, seed, FORK_SEQUENCE_BYTES);
    interpreter_end(&forker_run);
    _exit(0);
}

static void fork_once(uint64_t seed) {
    pid_t child = fork();
    require(child >= 0, "fork failed");
    if (child == 0)
        run_child(seed);
    expect_success(child);
}

static void *run_forker(void *argument) {
    uint64_t *forks = argument;
    forker_run = (struct interpreter){.live_max_bytes = LIVE_MAX_BYTES, .tag_seed = 77};
    while (!atomic_load(&is_over)) {
        interpreter_run_random(&forker_run, *forks, FORK_SEQUENCE_BYTES);
        fork_once(*forks);
        ++*forks;
    }
    interpreter_end(&forker_run);
    return NULL;
}

static void run_round(uint64_t round) {
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        runs[i] = (struct interpreter){.exchange = &exchange,
                                       .live_max_bytes = LIVE_MAX_BYTES,
                                       .tag_seed = round * THREADS + i};
        require(pthread_create(&threads[i], NULL, run_thread, &runs[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    uint64_t forks = 0;
    uint64_t operations = 0;
    pthread_t forker;
    require(pthread_create(&forker, NULL, run_forker, &forks) == 0, "no thread");
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        run_round(round);
        for (unsigned i = 0; i < THREADS; i++)
            operations += runs[i].operations;
    }
    atomic_store(&is_over, true);
    pthread_join(forker, NULL);
    exchange_end(&exchange);
    interpreter_expect_empty_heap();
    require(forks > 0 && operations > 0, "nothing was done");
    printf("stress: %llu operations, %llu forks\n", (unsigned long long)operations,
           (unsigned long long)forks);
    return 0;
}
