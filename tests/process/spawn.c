/* New programs from a threaded process: vfork, whose child runs in the parent's
 * memory until it execs, posix_spawn, system and popen, again and again while
 * other threads allocate. After each the parent's heap is whole. */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static atomic_bool stop;

static void *work(void *argument) {
    struct traffic traffic;
    traffic_begin(&traffic, (unsigned)(uintptr_t)argument);
    while (!atomic_load(&stop))
        CHECK(traffic_steps(&traffic, 100));
    CHECK(traffic_end(&traffic));
    return NULL;
}

/* The child of a vfork borrows the parent's thread and heap. More than execve
 * is not promised to it, but programs do allocate there, and one thread at a
 * time calls malloc in either. */
static void run_vfork(unsigned round) {
    char *volatile block = NULL;
    pid_t child = vfork();
    if (child == 0) {
        block = malloc(round * 10 + 1);
        if (block != NULL)
            block[0] = 'v';
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    wait_for_success(child);
    CHECK(block != NULL && block[0] == 'v');
    free(block);
    child = vfork();
    if (child == 0)
        _exit(0);
    wait_for_success(child);
}

static void run_spawn(void) {
    char shell[] = "sh", flag[] = "-c", command[] = "exit 0";
    char *arguments[] = {shell, flag, command, NULL};
    pid_t child;
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    wait_for_success(child);
    CHECK(posix_spawnp(&child, "no-such-program-anywhere", NULL, NULL, arguments, environ) != 0);
}

static void run_shell(void) {
    char line[64] = "";
    CHECK(system("exit 3") == 3 << 8);
    FILE *pipe = popen("echo from the shell", "r");
    CHECK(pipe != NULL);
    CHECK(fgets(line, sizeof line, pipe) != NULL);
    CHECK(pclose(pipe) == 0);
    CHECK(strcmp(line, "from the shell\n") == 0);
}

int main(void) {
    process_begin();
    pthread_t workers[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&workers[i], NULL, work, (void *)i) == 0);
    for (unsigned round = 0; round < 40; round++) {
        run_vfork(round);
        run_spawn();
        run_shell();
        CHECK(traffic_run(round, 500));
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    return process_ok();
}
