/* launch REPORT PRELOAD COMMAND [ARGUMENT...]: runs a command once and measures it.
 *
 * Why not straight from the lab's Python? The kernel counts the peak memory of a
 * process from its fork, not from its exec: a child of a Python of 80 MiB has
 * "used" 80 MiB before its first instruction. This launcher is static and a few
 * pages large, so the figure is the program's own. It also reads the clock right
 * at the start and the end, and sets LD_PRELOAD in the child only, so that the
 * allocator under test never runs in here.
 *
 * PRELOAD is the value of LD_PRELOAD for the command ("" for none). REPORT gets
 * one line of JSON:
 *
 *   pid, command   the process, and the kernel's name of the last program that it
 *                  executed (a program that calls exec is seen by this)
 *   status         exit status, or -signal
 *   wall_ns        from fork to the end of the command
 *   user_us, system_us, peak_rss_bytes, minor_faults, major_faults,
 *   voluntary_switches, involuntary_switches
 *                  of the command and all children that it waited for; peak memory is
 *                  that of the largest process among them
 *
 * When the command has ended, processes that it left running are ended too: they
 * would take time and memory from the next sample, or its port from the next server.
 *
 * Ends with 0 when the command ran, however it ended; with 127 when it could not
 * be started (reason on standard error, no report).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CANNOT_START = 127, COMMAND_BYTES = 17 };

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t microseconds(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

static _Noreturn void fail(const char *what, const char *name) {
    fprintf(stderr, "launch: cannot %s %s: %s\n", what, name, strerror(errno));
    exit(CANNOT_START);
}

/* Starts the command. errno of a failed exec comes back through a pipe that a
 * successful one closes. */
static pid_t start(const char *preload, char **command) {
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) {
        fail("make a pipe for", command[0]);
    }
    pid_t pid = fork();
    if (pid < 0) {
        fail("fork for", command[0]);
    }
    if (pid == 0) {
        if (preload[0] == '\0' || setenv("LD_PRELOAD", preload, 1) == 0) {
            execvp(command[0], command);
        }
        int error = errno;
        _exit(write(failure[1], &error, sizeof error) == sizeof error ? CANNOT_START : 1);
    }
    close(failure[1]);
    int error = 0;
    if (read(failure[0], &error, sizeof error) == sizeof error) {
        errno = error;
        fail("run", command[0]);
    }
    close(failure[0]);
    return pid;
}

/* The kernel keeps a dead process's name until it is waited for. */
static void read_command(pid_t pid, char command[COMMAND_BYTES]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, command, COMMAND_BYTES - 1);
    command[length > 0 ? length : 0] = '\0';
    command[strcspn(command, "\n")] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

/* The name as a JSON string may not hold quotes, backslashes or control characters. */
static void make_json_safe(char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20) {
            *text = '?';
        }
    }
}

static void write_report(const char *path, pid_t pid, const char *command, int status,
                         uint64_t wall_ns, const struct rusage *usage) {
    FILE *report = fopen(path, "we");
    if (report == NULL) {
        fail("write", path);
    }
    fprintf(report,
            "{\"pid\": %d, \"command\": \"%s\", \"status\": %d, \"wall_ns\": %llu, "
            "\"user_us\": %llu, \"system_us\": %llu, \"peak_rss_bytes\": %llu, "
            "\"minor_faults\": %ld, \"major_faults\": %ld, \"voluntary_switches\": %ld, "
            "\"involuntary_switches\": %ld}\n",
            (int)pid, command, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status),
            (unsigned long long)wall_ns, (unsigned long long)microseconds(usage->ru_utime),
            (unsigned long long)microseconds(usage->ru_stime),
            (unsigned long long)usage->ru_maxrss * 1024u, usage->ru_minflt, usage->ru_majflt,
            usage->ru_nvcsw, usage->ru_nivcsw);
    if (fclose(report) != 0) {
        fail("write", path);
    }
}

/* What the command leaves behind comes to this process; so do the children of what is ended here,
 * hence the loop. */
static void end_what_is_left(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        FILE *children = fopen(path, "re");
        int pid = 0;
        int found = children != NULL ? fscanf(children, "%d", &pid) : 0;
        if (children != NULL) {
            fclose(children);
        }
        if (found != 1 || kill(pid, SIGKILL) != 0 || waitpid(pid, NULL, 0) != pid) {
            return;
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: launch REPORT PRELOAD COMMAND [ARGUMENT...]\n");
        return CANNOT_START;
    }
    /* Children whose parent ends first come to this process, so the lab's watch still sees them. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    uint64_t start_ns = now_ns();
    pid_t pid = start(argv[2], argv + 3);

    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0) {
        if (errno != EINTR) {
            fail("wait for", argv[3]);
        }
    }
    uint64_t end_ns = now_ns();
    char command[COMMAND_BYTES] = "";
    read_command(pid, command);
    make_json_safe(command);

    int status = 0;
    struct rusage usage;
    if (wait4(pid, &status, 0, &usage) != pid) {
        fail("wait for", argv[3]);
    }
    write_report(argv[1], pid, command, status, end_ns - start_ns, &usage);
    end_what_is_left();
    return 0;
}
