/* A small program that dies with a core file, after a normal life with threads.
 * Address space that is only reserved must not be in that file. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

static void *work(void *argument) {
    CHECK(traffic_run((unsigned)(uintptr_t)argument, 2000));
    return NULL;
}

int main(int argc, char **argv) {
    (void)argv;
    process_begin();
    CHECK(traffic_run(1, 2000));
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    if (argc == 1)
        abort();
    /* Somebody else makes the core file: wait for it, then go. */
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
