/* soak THREADS [mixed [BLOCKS]]: a heap that lives as long as its owner likes, driven epoch by
 * epoch through standard input, for `hakmem soak`.
 *
 * What a server's heap goes through: THREADS threads (1 to 64), blocks from
 * 16 bytes to 23 KiB in a bell curve of their logarithms (median 90 bytes) and
 * now and then one of up to 1 MiB. Most blocks die young, some live a while, a
 * few for long, so that the old part of the heap turns over slowly among the
 * traffic. Some young blocks are handed to the next thread, which reads them and
 * gives them back; some old ones change their size by realloc.
 *
 *   table    blocks   steps that replace   what it stands for
 *   young       512                15/16   a request's temporaries; 1 in 16 is handed over
 *   middle    4,096                 1/16   sessions
 *   old      65,536             16/4,096   caches, indices
 *   large        16              1/4,096   buffers of 32 KiB to 1 MiB
 *
 * With `mixed` there is one table of BLOCKS (65,536 by default), its sizes are 16 to
 * 1,040 bytes, and each step replaces one, as in random_mixed.
 *
 * Threads come and go, the tables stay: after LIFE_STEPS steps a thread hands its
 * tables to one that it starts, and ends, in the middle of the traffic.
 *
 * Blocks of the last three are replaced two at a time, each by one of the
 * other's size. So their sizes wander through the heap while the bytes alive
 * stay what they were: memory that grows is the allocator's doing.
 *
 * Standard input has a line an epoch, "LEAD STEPS": each thread runs LEAD steps
 * that are not measured (a pause before the epoch may have cooled caches and let
 * the allocator give memory back) and then STEPS that are; then it empties its
 * inbox, and one line of JSON tells what the epoch showed. Nothing runs between
 * epochs. The end of the input ends the program.
 *
 * An operation is a block given back and one taken (or resized). The numbers of
 * threads, of steps and nothing else decide the sizes, so after the same epochs
 * every allocator has done the same work and the checksum is the same.
 *
 * Right before and after its measured steps each thread calls getppid, and
 * getpgrp before it ends, which nobody else does: who traces the program's system
 * calls sees there which of them belong to the steps, and which threads are ours.
 */
#define _GNU_SOURCE
#include "soak_work.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MAX_THREADS = 64,
    INPUT_BYTES = 128,
    LINE_BYTES = 1 << 17,
    LIFE_STEPS = 1 << 18, /* of a thread: some hundredths of a second */
};

static struct worker workers[MAX_THREADS];
static unsigned threads;
static pthread_barrier_t epoch_begins; /* the two numbers below are written before it */
static pthread_barrier_t steps_done;
static pthread_barrier_t epoch_ends; /* the workers' results are read after it */
static uint64_t lead_steps;
static uint64_t measured_steps;

static uint64_t cpu_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The part of the measured steps that this thread does: before it and after it others may have had
 * this worker's tables. */
static void run_measured(struct worker *worker, uint64_t steps) {
    struct window *window = &worker->window;
    struct rusage before;
    struct rusage after;
    if (worker->steps_left == measured_steps) { /* the first part */
        worker->ops = 0;
        *window = (struct window){.start_ns = driver_now_ns()};
        memset(worker->taking, 0, sizeof *worker->taking);
        memset(worker->giving, 0, sizeof *worker->giving);
    }
    getrusage(RUSAGE_THREAD, &before);
    uint64_t cpu_before_ns = cpu_now_ns();
    (void)getppid();
    run_steps(worker, steps);
    worker->steps_left -= steps;
    window->end_ns = driver_now_ns();
    (void)getppid();
    window->cpu_ns += cpu_now_ns() - cpu_before_ns;
    getrusage(RUSAGE_THREAD, &after);
    window->minor_faults += (uint64_t)(after.ru_minflt - before.ru_minflt);
    window->major_faults += (uint64_t)(after.ru_majflt - before.ru_majflt);
    window->switches += (uint64_t)(after.ru_nivcsw - before.ru_nivcsw);
}

static void fill_table(struct worker *worker, struct table *table, uint32_t count,
                       size_t (*size)(uint64_t)) {
    table->slots = driver_table(count * sizeof *table->slots);
    table->count = count;
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t bits = random_next(&worker->random);
        take(worker, &table->slots[i], size(bits), bits);
    }
}

static void begin_epoch(struct worker *worker) {
    if (worker->old.slots == NULL && is_mixed) { /* the first */
        fill_table(worker, &worker->old, mixed_blocks, mixed_size);
    } else if (worker->old.slots == NULL) {
        fill_table(worker, &worker->young, YOUNG, ordinary_size);
        fill_table(worker, &worker->middle, MIDDLE, ordinary_size);
        fill_table(worker, &worker->old, OLD, ordinary_size);
        fill_table(worker, &worker->large, LARGE, large_size);
    }
    pthread_barrier_wait(&epoch_begins);
    worker->lead_left = lead_steps;
    worker->steps_left = measured_steps;
}

static void end_epoch(struct worker *worker) {
    pthread_barrier_wait(&steps_done);
    drain_inbox(worker);
    pthread_barrier_wait(&epoch_ends);
}

static void *work(void *argument);

static void start_thread(struct worker *worker) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, worker) != 0) {
        driver_fail("cannot start a thread");
    }
    pthread_detach(thread);
}

/* A thread's life: LIFE_STEPS steps, epoch after epoch; then another takes its tables. */
static void *work(void *argument) {
    struct worker *worker = argument;
    uint64_t life = LIFE_STEPS;
    for (;;) {
        if (worker->steps_left == 0) {
            begin_epoch(worker);
        }
        if (life == 0) {
            start_thread(worker);
            (void)getpgrp();
            return NULL;
        }
        uint64_t lead = worker->lead_left < life ? worker->lead_left : life;
        run_steps(worker, lead);
        worker->lead_left -= lead;
        life -= lead;
        uint64_t steps = worker->steps_left < life ? worker->steps_left : life;
        if (steps > 0) {
            run_measured(worker, steps);
            life -= steps;
        }
        if (worker->steps_left == 0) {
            end_epoch(worker);
        }
    }
}

static void start_workers(void) {
    pthread_barrier_init(&epoch_begins, NULL, threads + 1);
    pthread_barrier_init(&steps_done, NULL, threads);
    pthread_barrier_init(&epoch_ends, NULL, threads + 1);
    for (unsigned i = 0; i < threads; ++i) {
        struct worker *worker = &workers[i];
        worker->random = RANDOM_SEED;
        worker->random.state += (i + 1) * UINT64_C(0xD1B54A32D192ED03);
        worker->taking = driver_table(sizeof *worker->taking);
        worker->giving = driver_table(sizeof *worker->giving);
        if (threads > 1) {
            worker->inbox = driver_table(sizeof *worker->inbox);
        }
    }
    for (unsigned i = 0; i < threads; ++i) {
        workers[i].outbox = workers[(i + 1) % threads].inbox;
        start_thread(&workers[i]);
    }
}

/* One line of standard input without stdio, which allocates; false at the end of the input. */
static bool read_line(char line[INPUT_BYTES]) {
    size_t length = 0;
    for (;;) {
        char next;
        ssize_t got = read(STDIN_FILENO, &next, 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        if (next == '\n') {
            line[length] = '\0';
            return true;
        }
        if (length == INPUT_BYTES - 1) {
            driver_fail("a line of the input is too long");
        }
        line[length++] = next;
    }
}

static void read_epoch(char *line) {
    char *second = strchr(line, ' ');
    if (second == NULL) {
        driver_fail("a line of the input is not: LEAD STEPS");
    }
    *second = '\0';
    lead_steps = driver_number(line, 0, SIZE_MAX - 1);
    measured_steps = driver_number(second + 1, 1, SIZE_MAX - 1);
}

static void write_all(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, text, length);
        if (written < 0 && errno != EINTR) {
            driver_fail("cannot write the result");
        }
        text += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

static struct worker sum_of_workers(void) {
    static struct latency_histogram taking;
    static struct latency_histogram giving;
    memset(&taking, 0, sizeof taking);
    memset(&giving, 0, sizeof giving);
    struct worker sum = {.taking = &taking, .giving = &giving, .window.start_ns = UINT64_MAX};
    for (unsigned i = 0; i < threads; ++i) {
        const struct worker *worker = &workers[i];
        const struct window *window = &worker->window;
        sum.checksum += worker->checksum;
        sum.ops += worker->ops;
        sum.live_bytes += worker->live_bytes;
        sum.window.cpu_ns += window->cpu_ns;
        sum.window.minor_faults += window->minor_faults;
        sum.window.major_faults += window->major_faults;
        sum.window.switches += window->switches;
        if (window->start_ns < sum.window.start_ns) {
            sum.window.start_ns = window->start_ns;
        }
        if (window->end_ns > sum.window.end_ns) {
            sum.window.end_ns = window->end_ns;
        }
        latency_merge(sum.taking, worker->taking);
        latency_merge(sum.giving, worker->giving);
    }
    return sum;
}

/* Nanoseconds that the threads measured, one after the other: one may end before another. */
static uint64_t thread_ns(void) {
    uint64_t total_ns = 0;
    for (unsigned i = 0; i < threads; ++i) {
        total_ns += workers[i].window.end_ns - workers[i].window.start_ns;
    }
    return total_ns;
}

static void print_epoch(uint64_t epoch) {
    static char line[LINE_BYTES];
    struct worker sum = sum_of_workers();
    int begun = snprintf(
        line, sizeof line,
        "{\"benchmark\": \"soak\", \"epoch\": %llu, \"start_ns\": %llu, \"end_ns\": %llu, "
        "\"thread_ns\": %llu, \"cpu_ns\": %llu, \"ops\": %llu, \"checksum\": \"%016llx\", "
        "\"live_bytes\": %lld, "
        "\"minor_faults\": %llu, \"major_faults\": %llu, \"switches\": %llu, \"malloc\": ",
        (unsigned long long)epoch, (unsigned long long)sum.window.start_ns,
        (unsigned long long)sum.window.end_ns, (unsigned long long)thread_ns(),
        (unsigned long long)sum.window.cpu_ns, (unsigned long long)sum.ops,
        (unsigned long long)sum.checksum, (long long)sum.live_bytes,
        (unsigned long long)sum.window.minor_faults, (unsigned long long)sum.window.major_faults,
        (unsigned long long)sum.window.switches);
    size_t length = (size_t)begun;
    length += latency_print(sum.taking, line + length, sizeof line - length);
    length += (size_t)snprintf(line + length, sizeof line - length, ", \"free\": ");
    length += latency_print(sum.giving, line + length, sizeof line - length);
    length += (size_t)snprintf(line + length, sizeof line - length, "}\n");
    write_all(line, length);
}

/* Who drives this: which process and threads, and what its timer is. */
static void print_hello(void) {
    char line[256];
    int length = snprintf(line, sizeof line,
                          "{\"benchmark\": \"soak\", \"pid\": %d, \"threads\": %u, "
                          "\"timer\": \"%s\", \"timer_cost_ns\": %.2f}\n",
                          (int)getpid(), threads, latency_timer.uses_counter ? "tsc" : "clock",
                          (double)latency_timer.cost_ticks * latency_timer.units_per_tick /
                              LATENCY_UNITS_PER_NS);
    write_all(line, (size_t)length);
}

int main(int argc, char **argv) {
    is_mixed = argc >= 3 && strcmp(argv[2], "mixed") == 0;
    if (argc < 2 || argc > 4 || (argc > 2 && !is_mixed)) {
        driver_fail("usage: soak THREADS [mixed [BLOCKS]]");
    }
    threads = (unsigned)driver_number(argv[1], 1, MAX_THREADS);
    mixed_blocks = (uint32_t)driver_optional(argc, argv, 3, OLD, 1, MIXED_MOST_BLOCKS);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* where only ancestors may trace (Yama) */
    latency_start();
    make_sizes();
    start_workers();
    print_hello();
    char line[INPUT_BYTES];
    for (uint64_t epoch = 1; read_line(line); ++epoch) {
        read_epoch(line);
        pthread_barrier_wait(&epoch_begins);
        pthread_barrier_wait(&epoch_ends);
        print_epoch(epoch);
    }
    return 0;
}
