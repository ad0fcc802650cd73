/* Starts, measures and joins the threads of a driver; team.h has the contract. */
#include "support/team.h"

#include <stdio.h>

enum { STACK_BYTES = 128 << 10, NAME_BYTES = 64 };

struct member {
    const struct team *team;
    pthread_barrier_t *ready;
    uint32_t number;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t sum;
};

pthread_t team_start_thread(void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0 ||
        pthread_create(&thread, &attributes, run, argument) != 0) {
        driver_fail("cannot start a thread");
    }
    pthread_attr_destroy(&attributes);
    return thread;
}

void team_join(pthread_t thread) {
    if (pthread_join(thread, NULL) != 0) {
        driver_fail("cannot join a thread");
    }
}

const char *team_name(const char *base, size_t threads) {
    static char name[NAME_BYTES];
    if (threads == TEAM_USUAL) {
        return base;
    }
    snprintf(name, sizeof name, "%s_%zu", base, threads);
    return name;
}

static void *work(void *argument) {
    struct member *member = argument;
    const struct team *team = member->team;
    if (team->warm != NULL) {
        member->sum += team->warm(team->context, member->number);
    }
    pthread_barrier_wait(member->ready);
    member->start_ns = driver_now_ns();
    member->sum += team->run(team->context, member->number);
    member->end_ns = driver_now_ns();
    return NULL;
}

void team_measure(const struct team *team, struct driver_result *result) {
    if (team->members == 0 || team->members > TEAM_LARGEST) {
        driver_fail("too many threads");
    }
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, NULL, team->members);
    static struct member members[TEAM_LARGEST];
    pthread_t threads[TEAM_LARGEST];
    for (uint32_t i = 0; i < team->members; ++i) {
        members[i] = (struct member){.team = team, .ready = &ready, .number = i};
        threads[i] = team_start_thread(work, &members[i]);
    }
    result->start_ns = UINT64_MAX;
    result->end_ns = 0;
    for (uint32_t i = 0; i < team->members; ++i) {
        team_join(threads[i]);
        result->checksum += members[i].sum;
        if (members[i].start_ns < result->start_ns) {
            result->start_ns = members[i].start_ns;
        }
        if (members[i].end_ns > result->end_ns) {
            result->end_ns = members[i].end_ns;
        }
    }
    pthread_barrier_destroy(&ready);
}
