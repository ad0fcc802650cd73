/* Forks while other threads use size classes for the first time in their shard.
 *
 *   threads   each in a shard of its own; all take and free a block of the next class
 *   main      forks at the same moment; the child does the same and ends
 *
 * A fork holds the lock of every pool that is open. One that is opened meanwhile is none of
 * its business: its lock must neither be released under its holder nor stay held. */
#include <pthread.h>
#include <unistd.h>

#include "hakmem/hakmem.h"
#include "slab/classes.h"
#include "support.h"

enum { THREADS = 16 };

static pthread_barrier_t next_class;

static void use(unsigned class) {
    void *block = hak_malloc(class_size(class));
    require(block != NULL, "malloc refused");
    hak_free(block);
}

static void *open_pools(void *unused) {
    (void)unused;
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        pthread_barrier_wait(&next_class);
        use(class);
    }
    return NULL;
}

static void fork_once(unsigned class) {
    pid_t child = fork();
    require(child >= 0, "fork failed");
    if (child != 0) {
        expect_success(child);
        return;
    }
    alarm(HANG_SECONDS);
    hak_check_heap(); /* whatever the others were in the middle of */
    use(class);
    _exit(0);
}

int main(void) {
    pthread_t threads[THREADS];
    require(pthread_barrier_init(&next_class, NULL, THREADS + 1) == 0, "no barrier");
    for (unsigned i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, open_pools, NULL) == 0, "no thread");
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        pthread_barrier_wait(&next_class);
        fork_once(class);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("stress: %d forks\n", CLASS_COUNT - 1);
    return 0;
}
