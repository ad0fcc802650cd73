/* A small program that dies with a core file, after a short life or after one
 * with threads. Address space that is only reserved must not be in that file.
 *
 * usage: core short|threads [wait] */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support.h"

static void *work(void *argument) {
    CHECK(traffic_run((unsigned)(uintptr_t)argument, 2000));
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc >= 2);
    CHECK(traffic_run(1, 150));
    if (strcmp(argv[1], "threads") == 0)
        run_threads();
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    if (argc == 2)
        abort();
    /* Somebody else makes the core file: wait for it, then go. */
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
