/* Memory that a threaded program frees goes back to the kernel while nobody calls malloc or
 * free; by a thread that stays while the heap is large, and ends with it.
 *
 *   scavenger idle       frees nine tenths, sleeps: the memory is gone; frees the rest: the
 *                        thread, too; all of it twice
 *   scavenger scattered  frees seven tenths, but some of each slab: pages without blocks are gone
 *   scavenger rested     was busy for long, loses little, and rests: pages without blocks are gone
 *   scavenger fork       the same as idle in a child that has become threaded itself
 *   scavenger ended      a thread that has worked much has ended: what its bins held is gone
 *   scavenger large      large blocks, each freed by a call after which there is none for long
 *   scavenger exit       main leaves by pthread_exit while there is work to do: the program ends
 *   scavenger ids        setuid, which reaches every thread by a signal of the C library's
 *   scavenger signals    a signal that the program's threads block does not reach it */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum { BLOCK_BYTES = 1000, BLOCKS = 160 * 1000, RUN = 1000, WAIT_TENTHS = 50, WAIT_MS = 1000 };

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

static atomic_bool has_begun;

static void *sleep_long(void *unused) {
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    atomic_store(&has_begun, true);
    pthread_mutex_lock(&bed);
    return NULL;
}

static void *allocate_and_sleep(void *unused) {
    free(malloc(1));
    return sleep_long(unused);
}

static void start(void *(*body)(void *)) {
    CHECK(pthread_mutex_lock(&bed) == 0);
    atomic_store(&has_begun, false);
    CHECK(pthread_create(&sleeper, NULL, body, NULL) == 0);
    while (!atomic_load(&has_begun))
        usleep(1000);
}

static void start_sleeper(void) { start(sleep_long); }

static char *blocks[BLOCKS];

/* Returns what is resident. */
static size_t grow(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    return resident_bytes();
}

static size_t grow_and_shrink(void) {
    size_t most = grow();
    /* Nine tenths, in long runs. */
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i / RUN % 10 != 0)
            free(blocks[i]);
    }
    return most;
}

/* Waits without a call until resident memory is at most `bytes`. */
static bool settles_at(size_t bytes) {
    for (int i = 0; i < WAIT_TENTHS && resident_bytes() > bytes; i++)
        usleep(100000);
    return resident_bytes() <= bytes;
}

/* Until only the program's own threads are left. */
static bool is_left_alone(void) {
    for (int i = 0; i < WAIT_TENTHS && thread_count() != 2; i++)
        usleep(100000);
    return thread_count() == 2;
}

static void give_rest(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i / RUN % 10 == 0)
            free(blocks[i]);
    }
}

/* Freed blocks that wait in a quarantine lie all over what was a large heap, which counts as one
 * for as long as they do. Later ones push them out, and those come from few slabs once bins that
 * were filled from all over are empty. */
static void empty_quarantine(void) {
    enum { ROUNDS = 4, PAIRS = 2000 };
    const char *options = getenv("HAKMEM_OPTIONS");
    if (options == NULL || strstr(options, "hardened=2") == NULL)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        process_trim();
        for (int i = 0; i < PAIRS; i++)
            free(malloc(BLOCK_BYTES));
    }
}

/* before: resident before any of this. */
static void idle(size_t before) {
    start_sleeper();
    for (int turn = 0; turn < 2; turn++) {
        size_t most = grow_and_shrink();
        CHECK(most > before + BLOCKS * (size_t)BLOCK_BYTES);
        size_t live = (most - before) / 10;
        CHECK(settles_at(before + live + live / 7 + 4 * MIB));
        give_rest();
        CHECK(settles_at(before + 8 * MIB));
        empty_quarantine();
        CHECK(is_left_alone());
    }
}

/* Frees those blocks of each 80 that lie between, 20 pages. */
static void free_between(size_t first, size_t end) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 80 >= first && i % 80 < end)
            free(blocks[i]);
    }
}

/* All slabs keep some blocks. The heap that falls by half looks for pages without blocks itself;
 * of 20 it finds 8 or 9. Of what goes after that another 4 are found while nobody calls. */
static void scattered(void) {
    start_sleeper();
    size_t before = resident_bytes();
    size_t most = grow();
    free_between(40, 80);
    usleep(WAIT_MS * 1000); /* the thread that purges finds nothing to do, and sleeps */
    free_between(24, 40);
    CHECK(settles_at(before + (most - before) * 9 / 20));
}

/* All slabs keep most of their blocks, and what goes is too little for anybody to be told. */
static void rested(void) {
    enum { SOME = 8000, TOGETHER = 80, LOST = 12, BUSY_MS = 3000, PAIRS = 10000 };
    start(allocate_and_sleep);
    usleep(WAIT_MS * 1000); /* the thread that purges may be made from now on */
    for (size_t i = 0; i < SOME; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    while (clock() < BUSY_MS * (CLOCKS_PER_SEC / 1000)) {
        for (int i = 0; i < PAIRS; i++)
            free(malloc(BLOCK_BYTES));
    }
    for (size_t i = 0; i < SOME; i++) {
        if (i % TOGETHER < LOST)
            free(blocks[i]);
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = (size_t)LOST * BLOCK_BYTES / page - 1; /* of each that hold none but lost ones */
    CHECK(settles_at(resident_bytes() - SOME / TOGETHER * pages / 2 * page));
}

/* Many classes, some 64 KiB of each, so that bins become as large as they may. */
static void *work_much(void *unused) {
    (void)unused;
    void *some[64];
    for (int round = 0; round < 20; round++) {
        for (size_t bytes = 1024; bytes <= 16 * KIB; bytes += 512) {
            for (int i = 0; i < 64; i++) {
                some[i] = malloc(bytes);
                CHECK(some[i] != NULL);
                memset(some[i], 1, bytes);
            }
            for (int i = 0; i < 64; i++)
                free(some[i]);
        }
    }
    return NULL;
}

static void ended(void) {
    pthread_t worker;
    start_sleeper();
    free(malloc(1));
    size_t before = resident_bytes();
    CHECK(pthread_create(&worker, NULL, work_much, NULL) == 0);
    CHECK(pthread_join(worker, NULL) == 0);
    CHECK(settles_at(before + 3 * MIB / 2));
}

/* One slow call in four looks at the clock anyway. */
static void large(void) {
    enum { LARGE = 4 };
    static const size_t bytes = 16 * MIB;
    char *large_blocks[LARGE];
    start_sleeper();
    size_t before = resident_bytes();
    for (size_t i = 0; i < LARGE; i++) {
        large_blocks[i] = malloc(bytes);
        CHECK(large_blocks[i] != NULL);
        memset(large_blocks[i], 1, bytes);
    }
    CHECK(resident_bytes() > before + LARGE * bytes - 4 * MIB);
    for (size_t i = LARGE; i-- > 0;) {
        usleep(WAIT_MS * 1000); /* the thread that purges finds nothing to do, and sleeps */
        free(large_blocks[i]);
        CHECK(settles_at(before + i * bytes + 4 * MIB));
    }
    CHECK(is_left_alone());
}

static void in_child(void) {
    size_t before = resident_bytes();
    start_sleeper();
    grow_and_shrink();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        give_rest();
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

/* With a large heap, so that there is one thread beside the program's two. */
static void at_work(void) {
    start_sleeper();
    grow_and_shrink();
    CHECK(thread_count() == 3);
}

static void set_ids(void) {
    at_work();
    CHECK(setgid(getgid()) == 0 && setuid(getuid()) == 0);
}

static void block_signals(void) {
    sigset_t usr1, pending;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    at_work();
    CHECK(pthread_sigmask(SIG_BLOCK, &usr1, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0); /* whoever takes it dies of it, and all with him */
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    usleep(100000);
}

int main(int argc, char **argv) {
    process_begin();
    const char *what = argc > 1 ? argv[1] : "idle";
    if (strcmp(what, "large") == 0)
        large();
    else if (strcmp(what, "scattered") == 0)
        scattered();
    else if (strcmp(what, "rested") == 0)
        rested();
    else if (strcmp(what, "ended") == 0)
        ended();
    else if (strcmp(what, "fork") == 0)
        in_child();
    else if (strcmp(what, "exit") == 0)
        leave();
    else if (strcmp(what, "ids") == 0)
        set_ids();
    else if (strcmp(what, "signals") == 0)
        block_signals();
    else
        idle(resident_bytes());
    return process_ok();
}
