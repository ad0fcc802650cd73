/* Another library's fork handlers allocate. Handlers registered before the
 * allocator's run their prepare after its own, when it holds its locks, and
 * their parent and child before it lets go of them; those registered later the
 * other way round. Both kinds are here, and other threads allocate meanwhile. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

enum { FORKS = 50 };

static atomic_bool stop;
static char *carried[2]; /* from prepare to parent and child */
static unsigned prepared, in_parent;

static void allocate_much(unsigned seed) {
    CHECK(traffic_run(seed, 200));
    /* More than any cache holds, so that slow paths take locks. */
    char *blocks[100];
    for (size_t size = 40; size < 400000; size *= 9) {
        for (size_t i = 0; i < 100; i++) {
            blocks[i] = malloc(size);
            CHECK(blocks[i] != NULL);
            blocks[i][size - 1] = 'm';
        }
        for (size_t i = 0; i < 100; i++)
            free(blocks[i]);
    }
}

static void prepare(size_t which) {
    prepared++;
    allocate_much(prepared);
    carried[which] = malloc(1000);
    CHECK(carried[which] != NULL);
    memset(carried[which], 'c', 1000);
}

static void after(size_t which) {
    CHECK(carried[which][999] == 'c');
    free(carried[which]);
    allocate_much(in_parent);
}

static void prepare_early(void) { prepare(0); }
static void prepare_late(void) { prepare(1); }
static void parent_early(void) { in_parent++, after(0); }
static void parent_late(void) { in_parent++, after(1); }
static void child_early(void) { after(0); }
static void child_late(void) { after(1); }

static void register_early(void) { pthread_atfork(prepare_early, parent_early, child_early); }

CALL_AT_FIRST(register_early);

static void *work(void *argument) {
    struct traffic traffic;
    traffic_begin(&traffic, (unsigned)(uintptr_t)argument);
    while (!atomic_load(&stop))
        CHECK(traffic_steps(&traffic, 50));
    CHECK(traffic_end(&traffic));
    return NULL;
}

int main(void) {
    process_begin();
    free(malloc(10));
    CHECK(pthread_atfork(prepare_late, parent_late, child_late) == 0);
    pthread_t workers[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&workers[i], NULL, work, (void *)i) == 0);
    for (unsigned i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            hang_guard();
            allocate_much(i);
            pid_t grandchild = fork();
            if (grandchild == 0)
                _exit(traffic_run(i, 200) ? 0 : 1);
            wait_for_success(grandchild);
            _exit(0);
        }
        wait_for_success(child);
    }
    CHECK(prepared == 2 * FORKS && in_parent == 2 * FORKS);
    atomic_store(&stop, true);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    return process_ok();
}
