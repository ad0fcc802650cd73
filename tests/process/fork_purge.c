/* fork while another thread purges pages inside slabs: for that it holds blocks that are
 * neither free nor anybody's, and the child must not lose them. A slab whose blocks have
 * all come home goes back to its SuperSlab; one that lost a block never does.
 *
 * usage: fork_purge */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

enum { BLOCKS = 2000, SIZE = 3008, KEPT_ONE_IN = 8, FORKS = 200, LOST_THREADS = 8 };
enum { ASKED = SIZE - 8 }; /* with a canary behind them, too, the blocks are of SIZE's class */

static char *blocks[BLOCKS];
static sem_t asked, done;
static atomic_bool is_over;

static void fill_all(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] == NULL)
            CHECK((blocks[i] = malloc(ASKED)) != NULL);
        memset(blocks[i], (int)(i % 100 + 1), ASKED);
    }
}

static void empty_most(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % KEPT_ONE_IN == 0)
            continue;
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* This thread has no blocks of its own: were it inside a flush of its bins when another
 * forks, the child would lose what is on its way home. */
static void *purge_when_asked(void *argument) {
    (void)argument;
    for (;;) {
        sem_wait(&asked);
        if (atomic_load(&is_over))
            return NULL;
        process_trim();
        sem_post(&done);
    }
}

/* Bytes of slabs that hold blocks of SIZE, from the library's own statistics. */
static size_t slab_bytes(void) {
    int (*write_statistics)(int, int) =
        (int (*)(int, int))(uintptr_t)dlsym(RTLD_DEFAULT, "hak_stats_write");
    CHECK(write_statistics != NULL);
    static char text[64 * KIB];
    int file = memfd_create("statistics", MFD_CLOEXEC);
    CHECK(file >= 0 && write_statistics(file, 1) == 0);
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    CHECK(length > 0);
    close(file);
    text[length] = '\0';
    char start[32];
    snprintf(start, sizeof start, "{\"size\": %d,", SIZE);
    const char *row = strstr(text, start);
    CHECK(row != NULL);
    const char *field = strstr(row, "\"slab_bytes\": ");
    CHECK(field != NULL);
    return strtoul(field + strlen("\"slab_bytes\": "), NULL, 10);
}

static int live_as_child(void) {
    hang_guard();
    CHECK(slab_bytes() != 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        for (size_t b = 0; blocks[i] != NULL && b < ASKED; b++)
            CHECK(blocks[i][b] == (char)(i % 100 + 1));
        free(blocks[i]);
    }
    for (unsigned i = 0; i < LOST_THREADS; i++) /* what lost threads' bins hold comes home */
        free(malloc(3 * MIB));
    process_trim();
    CHECK(slab_bytes() == 0);
    return 0;
}

/* Somewhere in the purge: after up to 0.6 ms, asleep or at work. */
static void wait_a_moment(unsigned i) {
    if (i % 2 == 0) {
        usleep(i * 37 % 600);
        return;
    }
    for (volatile unsigned spins = i * 1009 % 200000; spins != 0;)
        spins = spins - 1;
}

int main(void) {
    process_begin();
    pthread_t purger;
    CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
    CHECK(pthread_create(&purger, NULL, purge_when_asked, NULL) == 0);
    for (unsigned i = 0; i < FORKS; i++) {
        fill_all();
        empty_most();
        sem_post(&asked);
        wait_a_moment(i);
        pid_t child = fork();
        if (child == 0)
            _exit(live_as_child());
        wait_for_success(child);
        sem_wait(&done);
    }
    atomic_store(&is_over, true);
    sem_post(&asked);
    CHECK(pthread_join(purger, NULL) == 0);
    return process_ok();
}
