/* fork while another thread purges pages inside slabs: for that it holds blocks that are
 * neither free nor anybody's, and the child must not lose them. A slab whose blocks have
 * all come home goes back to its SuperSlab; one that lost a block never does.
 *
 * usage: fork_purge */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

enum { BLOCKS = 2000, SIZE = 3008, KEPT_ONE_IN = 8, FORKS = 200, LOST_THREADS = 8 };

static char *blocks[BLOCKS];
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stop;

static void fill_all(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] == NULL)
            CHECK((blocks[i] = malloc(SIZE)) != NULL);
        memset(blocks[i], (int)(i % 100 + 1), SIZE);
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

/* Nothing but the purge happens without the lock. */
static void *purge_repeatedly(void *argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&blocks_lock);
        fill_all();
        empty_most();
        pthread_mutex_unlock(&blocks_lock);
        process_trim();
    }
    return NULL;
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
        for (size_t b = 0; blocks[i] != NULL && b < SIZE; b++)
            CHECK(blocks[i][b] == (char)(i % 100 + 1));
        free(blocks[i]);
    }
    for (unsigned i = 0; i < LOST_THREADS; i++) /* what lost threads' bins hold comes home */
        free(malloc(3 * MIB));
    process_trim();
    CHECK(slab_bytes() == 0);
    return 0;
}

int main(void) {
    process_begin();
    pthread_t purger;
    fill_all();
    CHECK(pthread_create(&purger, NULL, purge_repeatedly, NULL) == 0);
    for (unsigned i = 0; i < FORKS; i++) {
        usleep(i * 37 % 1000);
        pthread_mutex_lock(&blocks_lock);
        pid_t child = fork();
        if (child == 0)
            _exit(live_as_child());
        pthread_mutex_unlock(&blocks_lock);
        wait_for_success(child);
    }
    atomic_store(&stop, true);
    CHECK(pthread_join(purger, NULL) == 0);
    return process_ok();
}
