/* startup [STARTS]: what a process costs that hardly does anything.
 *
 * Shells, build systems and CGI scripts start thousands of small programs. Each
 * pays for loading the library, for what the allocator prepares at its first call,
 * and for the pages that this writes. The driver starts itself again and again, with
 * the environment that it has, so with the same allocator; the child takes one block of 100
 * bytes, gives it back and ends.
 *
 *   ns_per_op        from posix_spawn to the end of the child
 *   peak_rss_bytes   of such a child, with all its libraries
 *   private_bytes    of such a child, what no other process shares: what one more costs
 */
#define _GNU_SOURCE
#include "support/blocks.h"
#include "support/memory.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS = 400, WARM_STARTS = 20, BLOCK_BYTES = 100 };

struct child {
    uint64_t sum;
    uint64_t peak_bytes;
    uint64_t private_bytes;
};

/* Arguments of a program may be written to, so they are no literals. */
static char program[] = "startup";
static char quiet[] = "child";
static char reporting[] = "report";

/* The child's whole life; with a pipe to write to it also says how large it is. */
static int be_child(bool reports) {
    struct child self = {.sum = blocks_give(blocks_take(BLOCK_BYTES, UINT64_C(7) << 32))};
    if (!reports) {
        return 0;
    }
    self.private_bytes = memory_private_bytes();
    self.peak_bytes = memory_peak_resident_bytes();
    return write(STDOUT_FILENO, &self, sizeof self) == sizeof self ? 0 : 1;
}

static void start(char *mode, const posix_spawn_file_actions_t *actions) {
    char *arguments[] = {program, mode, NULL};
    pid_t child;
    if (posix_spawn(&child, "/proc/self/exe", actions, NULL, arguments, environ) != 0) {
        driver_fail("cannot start a child");
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
        driver_fail("a child did not end as it should");
    }
}

static struct child ask(void) {
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0) {
        driver_fail("cannot make a pipe");
    }
    start(reporting, &actions);
    posix_spawn_file_actions_destroy(&actions);
    struct child child;
    if (read(ends[0], &child, sizeof child) != sizeof child) {
        driver_fail("the child said nothing");
    }
    return child;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        driver_fail("usage: startup [STARTS]");
    }
    if (argc == 2 && strcmp(argv[1], quiet) == 0) {
        return be_child(false);
    }
    if (argc == 2 && strcmp(argv[1], reporting) == 0) {
        return be_child(true);
    }
    size_t starts = driver_optional(argc, argv, 1, STARTS, 1, 1000000);
    for (uint32_t i = 0; i < WARM_STARTS; ++i) {
        start(quiet, NULL);
    }
    struct driver_result result = {.benchmark = "startup", .ops = starts};
    result.start_ns = driver_now_ns();
    for (size_t i = 0; i < starts; ++i) {
        start(quiet, NULL);
    }
    result.end_ns = driver_now_ns();
    struct child child = ask();
    result.checksum = child.sum;
    result.peak_rss_bytes = child.peak_bytes;
    driver_add_metric(&result, "private_bytes", (double)child.private_bytes);
    driver_print(&result);
    return 0;
}
