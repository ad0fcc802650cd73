/* fork while other threads are inside the allocator: the child has one thread
 * and every lock as it was at that moment. It must be able to take, give and
 * resize, also blocks of the threads that did not survive, and to fork again.
 *
 * usage: fork_threads one [FORKS] | several | generations */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hakmem/hakmem.h"
#include "support.h"

enum { WORKERS = 2, SLAB_WORKERS = 2, SHARED = 256 }; /* the second: one a shard */

static atomic_bool stop;
static _Atomic(char *) shared[SHARED]; /* blocks that wander between threads */

/* Sizes up to 600 KiB: fork has to meet every kind of lock held. */
static void exchange(unsigned *seed) {
    *seed = *seed * 1103515245 + 12345;
    size_t slot = (*seed >> 8) % SHARED;
    size_t size = (*seed >> 16) % 50 == 0 ? (*seed >> 4) % (600 * KIB) : (*seed >> 4) % 3000;
    char *block = malloc(size + 1);
    CHECK(block != NULL);
    block[0] = 's';
    block = atomic_exchange(&shared[slot], block);
    if (block != NULL) {
        CHECK(block[0] == 's');
        free(block);
    }
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument * 7919;
    struct traffic traffic;
    traffic_begin(&traffic, seed);
    while (!atomic_load(&stop)) {
        for (unsigned i = 0; i < 50; i++)
            exchange(&seed);
        CHECK(traffic_steps(&traffic, 50));
    }
    CHECK(traffic_end(&traffic));
    return NULL;
}

/* Takes and gives spans without touching them, to be inside their locks as often
 * as can be; the next one does so with huge blocks, which are resized under the
 * lock. */
static void *work_on_spans(void *argument) {
    (void)argument;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        char *volatile blocks[4];
        for (size_t j = 0; j < 4; j++)
            CHECK((blocks[j] = malloc((i + j) % 3 * MIB + 2 * MIB)) != NULL);
        for (size_t j = 0; j < 4; j++)
            free(blocks[j]);
    }
    return NULL;
}

/* The same for the slabs of a few classes, whose bins hold one block: most calls lock. */
static void take_and_give_large_classes(unsigned first) {
    char *volatile blocks[8];
    for (size_t j = 0; j < 8; j++)
        CHECK((blocks[j] = malloc(((size_t)first % 3 + 2) * 128 * KIB)) != NULL);
    for (size_t j = 0; j < 8; j++)
        free(blocks[j]);
}

static void *work_on_slabs(void *argument) {
    (void)argument;
    for (unsigned i = 0; !atomic_load(&stop); i++)
        take_and_give_large_classes(i);
    return NULL;
}

static void *work_on_huge_blocks(void *argument) {
    (void)argument;
    char *volatile huge = malloc(GIB + MIB);
    for (size_t i = 0; !atomic_load(&stop); i++) {
        huge = realloc(huge, GIB + (i % 2 + 1) * 16 * MIB);
        CHECK(huge != NULL);
    }
    free(huge);
    return NULL;
}

static void never_told(const struct hak_limit_event *event, void *context) {
    (void)event;
    (void)context;
}

/* And inside the lock of the call-backs. */
static void add_and_remove_callback(void) {
    typedef int change(hak_limit_function * function, void *context);
    change *add = (change *)dlsym(RTLD_DEFAULT, "hak_limit_callback");
    change *remove = (change *)dlsym(RTLD_DEFAULT, "hak_limit_callback_remove");
    CHECK(add != NULL && remove != NULL);
    for (unsigned i = 0; i < 1000; i++) {
        add(never_told, NULL);
        remove(never_told, NULL);
    }
}

static void *work_on_callbacks(void *argument) {
    (void)argument;
    while (!atomic_load(&stop))
        add_and_remove_callback();
    return NULL;
}

static int live_as_child(unsigned seed, unsigned depth) {
    hang_guard();
    CHECK(traffic_run(seed, 200));
    add_and_remove_callback();
    for (unsigned i = 0; i < 3; i++)
        take_and_give_large_classes(i);
    char *volatile large = malloc(3 * MIB), *volatile huge = malloc(GIB + MIB);
    CHECK(large != NULL && huge != NULL);
    free(large);
    free(huge);
    for (size_t i = 0; i < SHARED; i++) {
        char *block = atomic_exchange(&shared[i], NULL);
        if (block == NULL)
            continue;
        CHECK(block[0] == 's');
        if (i % 2 == 0)
            block = realloc(block, 4000);
        CHECK(block != NULL);
        free(block);
    }
    if (depth > 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(live_as_child(seed + 1, depth - 1));
        wait_for_success(child);
    }
    /* Threads of the child are as good as any. */
    pthread_t thread;
    atomic_store(&stop, true);
    CHECK(pthread_create(&thread, NULL, work, (void *)(uintptr_t)seed) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

static void *fork_repeatedly(void *argument) {
    unsigned count = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(live_as_child(i, i % 10 == 0 ? 2 : 0));
        wait_for_success(child);
    }
    return NULL;
}

static void run_beside_workers(unsigned forkers, unsigned forks_each) {
    pthread_t workers[WORKERS], slabs[SLAB_WORKERS], spans, huge, callbacks, threads[8];
    for (unsigned i = 0; i < SLAB_WORKERS; i++)
        CHECK(pthread_create(&slabs[i], NULL, work_on_slabs, NULL) == 0);
    CHECK(pthread_create(&spans, NULL, work_on_spans, NULL) == 0);
    CHECK(pthread_create(&callbacks, NULL, work_on_callbacks, NULL) == 0);
    CHECK(pthread_create(&huge, NULL, work_on_huge_blocks, NULL) == 0);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, work, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < forkers; i++)
        CHECK(pthread_create(&threads[i], NULL, fork_repeatedly, (void *)(uintptr_t)forks_each) ==
              0);
    for (unsigned i = 0; i < forkers; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    for (unsigned i = 0; i < SLAB_WORKERS; i++)
        CHECK(pthread_join(slabs[i], NULL) == 0);
    CHECK(pthread_join(spans, NULL) == 0);
    CHECK(pthread_join(huge, NULL) == 0);
    CHECK(pthread_join(callbacks, NULL) == 0);
}

/* Fills this thread's cache with free blocks, then waits to be left behind. */
static pthread_barrier_t filled;

static void *fill_and_wait(void *argument) {
    (void)argument;
    enum { COUNT = 60 };
    char *blocks[COUNT];
    for (size_t size = 512; size <= 8192; size += 512) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = malloc(size);
            CHECK(blocks[i] != NULL);
            memset(blocks[i], 1, size);
        }
        for (size_t i = 0; i < COUNT; i++)
            free(blocks[i]);
    }
    pthread_barrier_wait(&filled);
    for (;;)
        pause();
    return NULL;
}

/* Every generation starts threads with full caches and leaves them behind in
 * its parent. What those caches held is the child's to use: if it were lost,
 * memory would grow with each generation. */
static int live_as_generation(unsigned left, size_t first_kib) {
    enum { THREADS = 4 };
    hang_guard();
    CHECK(pthread_barrier_init(&filled, NULL, THREADS + 1) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, fill_and_wait, NULL) == 0);
    }
    pthread_barrier_wait(&filled);
    size_t data_kib = process_status("RssAnon");
    if (first_kib == 0)
        first_kib = data_kib;
    CHECK(data_kib < first_kib + 16 * KIB);
    if (left > 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(live_as_generation(left - 1, first_kib));
        wait_for_success(child);
    }
    return 0;
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 2 || argc == 3);
    if (strcmp(argv[1], "one") == 0) {
        run_beside_workers(1, argc == 3 ? (unsigned)atoi(argv[2]) : 120);
    } else if (strcmp(argv[1], "several") == 0) {
        run_beside_workers(4, 25);
    } else {
        pid_t child = fork();
        if (child == 0)
            _exit(live_as_generation(60, 0));
        wait_for_success(child);
    }
    return process_ok();
}
