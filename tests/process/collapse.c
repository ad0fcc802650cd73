/* A large heap of a program that runs long becomes huge pages, where its memory is its own.
 *
 *   collapse whole  busy until half of it has; then frees it but for a block here and there
 *   collapse child  has a child by fork, which shares its memory, is busy for a while, ends the
 *                   child, and goes on as above
 *   collapse none   is busy for a while, in which nothing is to happen
 *   collapse alone  has no second thread, is not busy, and frees as above
 *   Each prints rows of: what has just happened, KiB resident, KiB of them in huge pages. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum { BLOCK_BYTES = 1000, BLOCKS = 128 * 1000, KEPT_RUN = 250 };
enum { WHILE_MS = 4000, LONG_MS = 60000, WAIT_TENTHS = 50 };

static char *blocks[BLOCKS];
static pthread_mutex_t bed = PTHREAD_MUTEX_INITIALIZER;

static void *sleep_long(void *unused) {
    (void)unused;
    pthread_mutex_lock(&bed);
    return NULL;
}

static size_t rollup_kib(const char *format) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, format, &kib);
    fclose(file);
    return kib;
}

static size_t resident_kib(void) { return rollup_kib("Rss: %zu kB"); }
static size_t huge_kib(void) { return rollup_kib("AnonHugePages: %zu kB"); }

static void report(const char *what) { printf("%s %zu %zu\n", what, resident_kib(), huge_kib()); }

static long used_ms(void) {
    struct timespec used;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* Reads the memory, and calls nothing, for so long, or until so much is in huge pages. */
static void be_busy(long ms, size_t until_huge_kib) {
    long end_ms = used_ms() + ms;
    unsigned sum = 0;
    while (used_ms() < end_ms && huge_kib() < until_huge_kib) {
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < BLOCKS; i++)
                sum += (unsigned char)*(volatile char *)blocks[i];
        }
    }
    CHECK(sum % BLOCKS == 0); /* each of them is 1 */
}

/* The memory is shared once this has returned. */
static pid_t fork_sleeper(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    return child;
}

static void end(pid_t child) {
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void free_most(void) {
    size_t full_kib = resident_kib();
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % KEPT_RUN != 0)
            free(blocks[i]);
    }
    process_trim();
    for (int tenth = 0; tenth < WAIT_TENTHS && resident_kib() > full_kib / 4; tenth++)
        usleep(100 * 1000);
    report("freed");
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 2);
    pthread_t sleeper;
    pthread_mutex_lock(&bed);
    bool is_alone = strcmp(argv[1], "alone") == 0;
    CHECK(is_alone || pthread_create(&sleeper, NULL, sleep_long, NULL) == 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    report("full");
    if (is_alone) {
        free_most();
        return process_ok();
    }
    bool has_child = strcmp(argv[1], "child") == 0;
    if (has_child || strcmp(argv[1], "none") == 0) {
        pid_t child = has_child ? fork_sleeper() : 0;
        be_busy(WHILE_MS, SIZE_MAX);
        report("while");
        if (!has_child)
            return process_ok();
        end(child);
    }
    be_busy(LONG_MS, BLOCKS / 2);
    report("busy");
    free_most();
    return process_ok();
}
