/* Runs one bug. usage: bugs NAME [survive]
 *
 * With "survive" the program handles SIGABRT, jumps out of the report, and goes
 * on: a report must leave no lock held and nothing half done, so ordinary traffic
 * in this thread and in others has to work afterwards, and no second report may
 * come. */
#include "bugs.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *hidden(const void *pointer) {
    const void *volatile cell = pointer;
    union {
        const void *in;
        void *out;
    } cast = {cell};
    return cast.out;
}

void announce(const void *address) {
    printf("address %p\n", address);
    fflush(stdout);
}

void announce_block(const void *block, size_t size) {
    printf("block %p\nsize %zu\n", block, size);
    fflush(stdout);
}

void flush_by_frees(size_t size) {
    enum { COUNT = 4096 };
    static void *blocks[COUNT];
    size_t count = 24 * MIB / size < COUNT ? 24 * MIB / size : COUNT;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

struct thread_work {
    void (*run)(void *);
    void *argument;
};

static void *run_work(void *argument) {
    struct thread_work *work = argument;
    work->run(work->argument);
    return NULL;
}

void in_a_thread(void (*run)(void *), void *argument) {
    struct thread_work work = {run, argument};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_work, &work) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static const struct bug *find_bug(const char *name) {
    const struct bug *tables[] = {bugs_foreign, bugs_inside, bugs_double, bugs_flush,
                                  bugs_hardened};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct bug *bug = tables[i]; bug->name != NULL; bug++) {
            if (strcmp(bug->name, name) == 0)
                return bug;
        }
    }
    return NULL;
}

static sigjmp_buf after_report;

/* One report only: the handler is gone when it runs. */
static void jump_out(int signal_number) {
    (void)signal_number;
    siglongjmp(after_report, 1);
}

static void *run_traffic(void *argument) {
    CHECK(traffic_run((unsigned)(uintptr_t)argument, 20000));
    return NULL;
}

static int prove_heap_is_whole(void) {
    pthread_t threads[3];
    CHECK(traffic_run(1, 50000));
    for (uintptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, run_traffic, (void *)i) == 0);
    for (size_t i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    static const size_t sizes[] = {16, 64, 1000, 8192, 100000, 3 << 20, 1 << 30};
    for (size_t i = 0; i < 7; i++) {
        char *block = malloc(sizes[i]);
        CHECK(block != NULL);
        block[0] = block[sizes[i] - 1] = 1;
        free(block);
    }
    pid_t child = fork();
    if (child == 0)
        _exit(traffic_run(2, 5000) ? 0 : 1);
    wait_for_success(child);
    puts("survived");
    return 0;
}

int main(int argc, char **argv) {
    process_begin();
    static const struct bug *bug; /* static: a jump back into main leaves it alone */
    bug = argc >= 2 ? find_bug(argv[1]) : NULL;
    if (bug == NULL) {
        fprintf(stderr, "usage: %s NAME [survive]\n", argv[0]);
        return 2;
    }
    if (argc > 2) {
        struct sigaction action = {.sa_handler = jump_out, .sa_flags = (int)SA_RESETHAND};
        CHECK(sigaction(SIGABRT, &action, NULL) == 0);
        if (sigsetjmp(after_report, 1) != 0)
            return prove_heap_is_whole();
    }
    bug->make();
    puts("unnoticed");
    return 0;
}
