/* Threads of a driver that work at the same time, and the clock around them.
 *
 * Each member warms up, all wait for each other, then each does its part of the
 * measured work. Every member reads the clock itself: the time is that from the
 * first start to the last end, whoever the kernel lets run first. Nanoseconds per
 * operation are that time divided by the operations of all members together: twice
 * the threads on twice the processors halve them when nobody waits for anybody.
 *
 * Members return sums, which are added: what each returns must not depend on the
 * order in which the threads ran, or only in a way that adding them evens out.
 */
#ifndef BENCH_TEAM_H
#define BENCH_TEAM_H

#include "support/driver.h"

#include <pthread.h>
#include <stdint.h>

enum { TEAM_LARGEST = 256, TEAM_USUAL = 2 };

typedef uint64_t team_work_fn(void *context, uint32_t member);

struct team {
    uint32_t members;
    void *context;
    team_work_fn *warm; /* NULL: nothing to warm up */
    team_work_fn *run;
};

/* Runs the team and adds what it did to the result: its times and the checksum. */
void team_measure(const struct team *team, struct driver_result *result);

/* Starts a thread whose stack is small, so that a thousand fit into a limited address space. */
pthread_t team_start_thread(void *(*run)(void *), void *argument);

void team_join(pthread_t thread);

/* The benchmark's name: base alone with the usual number of threads, else base_THREADS. */
const char *team_name(const char *base, size_t threads);

#endif
