/* fork while other threads are inside the lock of guarded blocks, which asking for the size of one
 * takes and little else: the child has them, too. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

enum { WORKERS = 2, FORKS = 200, BLOCK_BYTES = 100 };

static atomic_bool stop;

static void *ask(void *argument) {
    (void)argument;
    void *block = malloc(BLOCK_BYTES);
    CHECK(block != NULL);
    while (!atomic_load(&stop))
        CHECK(malloc_usable_size(block) == BLOCK_BYTES); /* guarded: no more than asked for */
    free(block);
    return NULL;
}

int main(void) {
    process_begin();
    pthread_t workers[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, ask, NULL) == 0);
    for (unsigned i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            hang_guard();
            void *volatile block = malloc(BLOCK_BYTES);
            CHECK(block != NULL && malloc_usable_size(block) == BLOCK_BYTES);
            free(block);
            _exit(0);
        }
        wait_for_success(child);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    return process_ok();
}
