/* count [-s] REPORT COMMAND [ARGUMENT...]: counts the system calls of what a command starts.
 *
 * COMMAND is the launcher (launch.c), and what it starts is the measured program: the
 * launcher's own calls are not counted, nor those before the program's exec. All
 * processes and threads that the program starts are.
 *
 * With -s COMMAND is a driver, and what is counted are its measured steps alone: what
 * happens between the two times that it reads its processor time (support/measured.c).
 *
 * How: a seccomp filter, inherited by all of them, stops a thread at each system call
 * for its tracer, which is this program. That is one stop a call, where plain ptrace
 * makes two. It still slows a program down many times over, so counting runs are
 * runs of their own, and their times are thrown away.
 *
 * REPORT gets one line of JSON: syscalls, and memory_syscalls, which are those that an
 * allocator gets and gives memory with (mmap munmap mremap madvise mprotect brk). With
 * -s it has minor_faults, too: those of the process that has the steps.
 *
 * When the command ends, what it has left running is ended too: under the filter,
 * without a tracer, none of its calls would work. Ends as the command ends; with 126
 * when the system does not allow tracing, 127 when the command cannot be started.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CANNOT_TRACE = 126, CANNOT_START = 127 };

static const long memory_calls[] = {
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_brk,
};

struct counts {
    pid_t root;      /* the command; its calls are not counted, unless it is a driver */
    unsigned execs;  /* the command's own, then that of the program */
    uint64_t all;    /* system calls */
    uint64_t memory; /* those among memory_calls */
    bool steps_only; /* the command is a driver */
    unsigned clocks; /* so often has it read its processor time: in between are its steps */
    uint64_t faults; /* minor ones of its steps, once those are over */
};

static _Noreturn void fail(int status, const char *what, const char *name) {
    fprintf(stderr, "count: cannot %s %s: %s\n", what, name, strerror(errno));
    exit(status);
}

static int install_filter(void) {
    struct sock_filter stop_always[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)};
    struct sock_fprog program = {.len = 1, .filter = stop_always};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
               ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
               : -1;
}

/* The command waits for its tracer: under the filter and without one, no call would work. */
static pid_t start(char **command) {
    int traced[2];
    if (pipe(traced) != 0) {
        fail(CANNOT_START, "make a pipe for", command[0]);
    }
    pid_t pid = fork();
    if (pid < 0) {
        fail(CANNOT_START, "fork for", command[0]);
    }
    if (pid == 0) {
        char word;
        close(traced[1]);
        if (read(traced[0], &word, 1) != 1) {
            _exit(CANNOT_TRACE);
        }
        close(traced[0]);
        if (install_filter() != 0) {
            fail(CANNOT_TRACE, "filter the calls of", command[0]);
        }
        execvp(command[0], command);
        fail(CANNOT_START, "run", command[0]);
    }
    close(traced[0]);
    const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)options) != 0) {
        fail(CANNOT_TRACE, "trace", command[0]);
    }
    if (write(traced[1], "", 1) != 1) {
        fail(CANNOT_START, "start", command[0]);
    }
    close(traced[1]);
    return pid;
}

/* Of all threads of a thread's process; proc(5). */
static uint64_t minor_faults(pid_t thread) {
    char path[64];
    char line[1024];
    unsigned long long faults = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)thread);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        fail(CANNOT_TRACE, "read", path);
    }
    fclose(file);
    const char *fields = strrchr(line, ')'); /* the name before it may hold anything */
    if (fields == NULL || sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %llu", &faults) != 1) {
        fail(CANNOT_TRACE, "understand", path);
    }
    return faults;
}

/* Whether it lies outside of what is counted. */
static bool leaves_out(struct counts *counts, pid_t thread,
                       const struct __ptrace_syscall_info *info) {
    if (!counts->steps_only) {
        return thread == counts->root || counts->execs < 2;
    }
    if (info->seccomp.nr == SYS_clock_gettime &&
        info->seccomp.args[0] == CLOCK_PROCESS_CPUTIME_ID) {
        if (++counts->clocks <= 2) {
            counts->faults = minor_faults(thread) - counts->faults;
        }
        return true;
    }
    return counts->clocks != 1;
}

static void count_call(struct counts *counts, pid_t thread) {
    struct __ptrace_syscall_info info = {0};
    bool is_known = ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof info, &info) > 0;
    if (leaves_out(counts, thread, &info)) {
        return;
    }
    ++counts->all;
    if (!is_known) {
        return;
    }
    for (size_t i = 0; i < sizeof memory_calls / sizeof memory_calls[0]; ++i) {
        counts->memory += info.seccomp.nr == (uint64_t)memory_calls[i];
    }
}

static bool stops_the_group(int signal) {
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* Lets a stopped thread go on, as it would have without a tracer. One that was killed meanwhile is
 * reported by the next wait. */
static void go_on(struct counts *counts, pid_t thread, int status) {
    int signal = WSTOPSIG(status);
    switch ((unsigned)status >> 16) {
    case PTRACE_EVENT_SECCOMP:
        count_call(counts, thread);
        ptrace(PTRACE_CONT, thread, NULL, NULL);
        break;
    case PTRACE_EVENT_EXEC:
        ++counts->execs;
        ptrace(PTRACE_CONT, thread, NULL, NULL);
        break;
    case PTRACE_EVENT_STOP:
        ptrace(stops_the_group(signal) ? PTRACE_LISTEN : PTRACE_CONT, thread, NULL, NULL);
        break;
    case 0: /* a signal on its way to the thread */
        ptrace(PTRACE_CONT, thread, NULL, (void *)(intptr_t)signal);
        break;
    default:
        ptrace(PTRACE_CONT, thread, NULL, NULL);
    }
}

/* Until the command ends; its exit status. */
static int trace(struct counts *counts) {
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno != EINTR) {
            fail(CANNOT_TRACE, "wait for", "the command");
        }
        if (thread > 0 && WIFSTOPPED(status)) {
            go_on(counts, thread, status);
        } else if (thread == counts->root) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
}

int main(int argc, char **argv) {
    bool steps_only = argc > 1 && strcmp(argv[1], "-s") == 0;
    char **words = argv + 1 + steps_only;
    if (argc < 3 + steps_only) {
        fprintf(stderr, "usage: count [-s] REPORT COMMAND [ARGUMENT...]\n");
        return CANNOT_START;
    }
    struct counts counts = {.root = start(words + 1), .steps_only = steps_only};
    int status = trace(&counts);
    if (steps_only && counts.clocks != 2) {
        fprintf(stderr, "count: %s has read its processor time %u times, not twice\n", words[1],
                counts.clocks);
        return CANNOT_TRACE;
    }
    FILE *report = fopen(words[0], "we");
    if (report == NULL) {
        fail(CANNOT_START, "write", words[0]);
    }
    fprintf(report, "{\"syscalls\": %llu, \"memory_syscalls\": %llu",
            (unsigned long long)counts.all, (unsigned long long)counts.memory);
    if (steps_only) {
        fprintf(report, ", \"minor_faults\": %llu", (unsigned long long)counts.faults);
    }
    fprintf(report, "}\n");
    return fclose(report) == 0 ? status : CANNOT_START;
}
