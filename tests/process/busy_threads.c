/* Threads that are busy in their bins make no slow call by themselves; for guard sampling they
 * are made to, now and then: blocks of theirs leave refills, and some of these are guarded.
 *
 * No look at the clock: it ends when that has happened, or is ended from outside. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

enum { THREADS = 2, BLOCK_BYTES = 50, MORE_BLOCKS = 20 };

static atomic_bool is_over;
static atomic_uint guarded;

static void *pairs(void *unused) {
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        void *volatile block = malloc(BLOCK_BYTES);
        /* The usable size of a guarded block is what was asked for. */
        if (malloc_usable_size(block) == BLOCK_BYTES)
            atomic_fetch_add(&guarded, 1);
        free(block);
    }
    return unused;
}

/* Blocks of the class that have left slabs. */
static unsigned long blocks_taken(int (*write_stats)(int, int)) {
    static char text[1 << 16];
    int file = memfd_create("statistics", MFD_CLOEXEC);
    CHECK(file >= 0 && write_stats(file, 1) == 0);
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    const char *class = strstr(text, "{\"size\": 64, \"taken\": ");
    return class == NULL ? 0 : strtoul(strchr(class + 10, ':') + 1, NULL, 10);
}

int main(void) {
    process_begin();
    int (*write_stats)(int, int);
    *(void **)&write_stats = dlsym(RTLD_DEFAULT, "hak_stats_write");
    CHECK(write_stats != NULL);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, pairs, NULL) == 0);
    unsigned long before = 0;
    while (before == 0) {
        usleep(10000);
        before = blocks_taken(write_stats);
    }
    while (blocks_taken(write_stats) < before + MORE_BLOCKS || atomic_load(&guarded) == 0)
        usleep(100000);
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return process_ok();
}
