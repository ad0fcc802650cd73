/* The main thread ends by pthread_exit while others go on; the process ends in 0
 * with the last of them. A helper thread of the allocator's must not keep it
 * alive, so this program first gives it work: much memory, freed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static void *work(void *argument) {
    for (unsigned round = 0; round < 5; round++) {
        CHECK(traffic_run((unsigned)(uintptr_t)argument, 5000));
        char *block = malloc(20 * MIB);
        CHECK(block != NULL);
        memset(block, 1, 20 * MIB);
        free(block);
        usleep(30000);
    }
    return NULL;
}

static void say_ok(void) { puts("ok"); }

int main(void) {
    process_begin();
    CHECK(atexit(say_ok) == 0);
    for (uintptr_t i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0);
        CHECK(pthread_detach(thread) == 0);
    }
    work((void *)9);
    pthread_exit(NULL);
}
