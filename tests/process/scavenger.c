/* Memory that a threaded program frees goes back to the kernel while nobody calls malloc or
 * free; by a thread that is there only for that, and no longer than it takes.
 *
 *   scavenger            frees, sleeps; the memory and the thread are gone
 *   scavenger fork       the same in a child that has become threaded itself
 *   scavenger large      one large block, freed by the very last call
 *   scavenger exit       main leaves by pthread_exit while there is work to do: the program ends */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { BLOCK_BYTES = 1000, BLOCKS = 160 * 1000, RUN = 1000, WAIT_TENTHS = 50 };

/* Without stdio: nothing here may call the allocator. */
static size_t resident_bytes(void) {
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned thread_count(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    CHECK(length > 0);
    close(file);
    text[length] = '\0';
    return (unsigned)strtoul(strstr(text, "Threads:") + 8, NULL, 10);
}

static pthread_t sleeper;
static pthread_mutex_t bed = PTHREAD_MUTEX_INITIALIZER;

static void *sleep_long(void *unused) {
    (void)unused;
    pthread_mutex_lock(&bed);
    return NULL;
}

static void start_sleeper(void) {
    CHECK(pthread_mutex_lock(&bed) == 0);
    CHECK(pthread_create(&sleeper, NULL, sleep_long, NULL) == 0);
}

static char *blocks[BLOCKS];

static size_t grow_and_shrink(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    size_t most = resident_bytes();
    /* Nine tenths, in long runs. */
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i / RUN % 10 != 0)
            free(blocks[i]);
    }
    return most;
}

/* Waits without a call until resident memory is at most `bytes`, and the scavenger gone. */
static bool settles_at(size_t bytes, unsigned threads) {
    for (int i = 0; i < WAIT_TENTHS; i++) {
        usleep(100000);
        if (resident_bytes() <= bytes && thread_count() == threads)
            return true;
    }
    return false;
}

/* before: resident before any of this. */
static void idle(size_t before) {
    start_sleeper();
    size_t most = grow_and_shrink();
    size_t live = (most - before) / 10;
    CHECK(most > before + BLOCKS * (size_t)BLOCK_BYTES);
    CHECK(settles_at(before + live + live / 7 + 4 * MIB, 2));
}

static void large(void) {
    start_sleeper();
    size_t before = resident_bytes();
    char *block = malloc(64 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 64 * MIB);
    CHECK(resident_bytes() > before + 60 * MIB);
    free(block);
    CHECK(settles_at(before + 4 * MIB, 2));
}

static void in_child(void) {
    size_t before = resident_bytes();
    start_sleeper();
    grow_and_shrink();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < BLOCKS; i++) {
            if (i / RUN % 10 == 0)
                free(blocks[i]);
        }
        pthread_mutex_init(&bed, NULL);
        idle(before);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void leave(void) {
    start_sleeper();
    grow_and_shrink();
    pthread_mutex_unlock(&bed);
    process_ok();
    pthread_exit(NULL);
}

int main(int argc, char **argv) {
    process_begin();
    const char *what = argc > 1 ? argv[1] : "idle";
    if (strcmp(what, "large") == 0)
        large();
    else if (strcmp(what, "fork") == 0)
        in_child();
    else if (strcmp(what, "exit") == 0)
        leave();
    else
        idle(resident_bytes());
    return process_ok();
}
