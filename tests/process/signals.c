/* Signals while the allocator works: a profiling timer that interrupts threads a
 * thousand times a second, and a signal that every thread of the program blocks
 * in order to wait for it, which then may not reach a thread that the program
 * does not know. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

static atomic_uint ticks;

static void count_tick(int signal_number) {
    (void)signal_number;
    atomic_fetch_add(&ticks, 1);
}

static void *work(void *argument) {
    CHECK(traffic_run((unsigned)(uintptr_t)argument, 60000));
    char *block = malloc(20 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 20 * MIB);
    free(block);
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void run_under_a_timer(void) {
    struct sigaction action = {.sa_handler = count_tick};
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_PROF, &every_ms, NULL) == 0);
    while (atomic_load(&ticks) < 100)
        run_threads();
    CHECK(setitimer(ITIMER_PROF, &never, NULL) == 0);
}

/* SIGUSR1 has its default action: it ends the process wherever it is let in. */
static void run_sigwait(void) {
    sigset_t waited;
    sigemptyset(&waited);
    sigaddset(&waited, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &waited, NULL) == 0);
    for (unsigned round = 0; round < 30; round++) {
        run_threads();
        int got = 0;
        CHECK(kill(getpid(), SIGUSR1) == 0);
        usleep(1000);
        CHECK(sigwait(&waited, &got) == 0);
        CHECK(got == SIGUSR1);
    }
}

int main(void) {
    process_begin();
    /* First without the mask: a helper thread born here inherits nothing. */
    run_threads();
    run_sigwait();
    run_under_a_timer();
    return process_ok();
}
