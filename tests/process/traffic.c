/* Ordinary traffic, without and with threads: something to run under tools and
 * with options. usage: traffic [STEPS] */
#include <pthread.h>
#include <stdlib.h>

#include "support.h"

static unsigned steps = 5000;

static void *work(void *argument) {
    CHECK(traffic_run((unsigned)(uintptr_t)argument, steps));
    return NULL;
}

int main(int argc, char **argv) {
    process_begin();
    if (argc > 1)
        steps = (unsigned)atoi(argv[1]);
    CHECK(traffic_run(1, steps));
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return process_ok();
}
