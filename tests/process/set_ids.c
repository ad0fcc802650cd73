/* setuid in a threaded process: libc signals every thread and waits for each to
 * change its own identity. A thread that libc does not know, or that blocks that
 * signal, would make it wait for ever. The allocator's helper thread, if it has
 * one, is woken by freed memory first. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "support.h"

static atomic_bool stop;

static void *work(void *argument) {
    struct traffic traffic;
    traffic_begin(&traffic, (unsigned)(uintptr_t)argument);
    while (!atomic_load(&stop)) {
        CHECK(traffic_steps(&traffic, 200));
        char *block = malloc(8 * MIB);
        CHECK(block != NULL);
        memset(block, 1, 8 * MIB);
        free(block);
    }
    CHECK(traffic_end(&traffic));
    return NULL;
}

int main(void) {
    process_begin();
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    uid_t user = getuid();
    gid_t group = getgid();
    for (unsigned round = 0; round < 100; round++) {
        CHECK(setgid(group) == 0);
        CHECK(setuid(user) == 0);
        CHECK(setresuid(user, user, user) == 0);
        usleep(2000);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return process_ok();
}
