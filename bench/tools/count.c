/* count REPORT COMMAND [ARGUMENT...]: counts the system calls of what a command starts.
 *
 * COMMAND is the launcher (launch.c), and what it starts is the measured program: the
 * launcher's own calls are not counted, nor those before the program's exec. All
 * processes and threads that the program starts are.
 *
 * How: a seccomp filter, inherited by all of them, stops a thread at each system call
 * for its tracer, which is this program. That is one stop a call, where plain ptrace
 * makes two. It still slows a program down many times over, so counting runs are
 * runs of their own, and their times are thrown away.
 *
 * REPORT gets one line of JSON: syscalls, and memory_syscalls, which are those that an
 * allocator gets and gives memory with (mmap munmap mremap madvise mprotect brk).
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
#include <unistd.h>

enum { CANNOT_TRACE = 126, CANNOT_START = 127 };

static const long memory_calls[] = {
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_brk,
};

struct counts {
    pid_t root;      /* the command; its calls are not counted */
    unsigned execs;  /* the command's own, then that of the program */
    uint64_t all;    /* system calls */
    uint64_t memory; /* those among memory_calls */
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

static void count_call(struct counts *counts, pid_t thread) {
    struct __ptrace_syscall_info info;
    if (thread == counts->root || counts->execs < 2) {
        return;
    }
    ++counts->all;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof info, &info) <= 0) {
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
    if (argc < 3) {
        fprintf(stderr, "usage: count REPORT COMMAND [ARGUMENT...]\n");
        return CANNOT_START;
    }
    struct counts counts = {.root = start(argv + 2)};
    int status = trace(&counts);
    FILE *report = fopen(argv[1], "we");
    if (report == NULL) {
        fail(CANNOT_START, "write", argv[1]);
    }
    fprintf(report, "{\"syscalls\": %llu, \"memory_syscalls\": %llu}\n",
            (unsigned long long)counts.all, (unsigned long long)counts.memory);
    return fclose(report) == 0 ? status : CANNOT_START;
}
