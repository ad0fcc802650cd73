/* reach REPORT PRELOAD LIBRARY POINTS COMMAND [ARGUMENT...]: which of some
 * instructions of a library does a program execute?
 *
 * `hakmem ab` compares two builds of a library, and first has to know whether the
 * benchmark runs any of the code in which they differ. A profiler that samples
 * would miss what runs rarely; an emulator would run another program than the one
 * that is measured. So each instruction in question gets a breakpoint, which is
 * taken away the first time it is hit and noted: every instruction costs one trap
 * at most, and the program runs at nearly its usual speed, with its threads and
 * children.
 *
 * PRELOAD is LD_PRELOAD for the command. LIBRARY is the file whose code is
 * watched; POINTS lists the file offsets of the instructions, in hexadecimal, one
 * a line. REPORT gets, a line each: "mapped N" (how many programs had the library,
 * and so breakpoints), "status S" (as in launch.c), "hit OFFSET" for each
 * instruction that was executed.
 *
 * The library is found by looking at the program's maps after each of its system
 * calls, until it is there: the dynamic linker maps a library by such a call and
 * executes nothing of it before the next. From then on system calls run free.
 * Fork copies breakpoints with the memory that they are in; exec ends them, and
 * the search begins again.
 *
 * Ends with 0 when the command ran, however it ended; with 127 when it could not be
 * started or watched (reason on standard error). */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
/* int3; the program counter is behind it when it has been hit. */
typedef uint8_t code_word;
enum { BREAKPOINT = 0xCC, BEHIND_BYTES = 1 };
#define PROGRAM_COUNTER(registers) (registers).rip
#elif defined(__aarch64__)
/* brk #0 */
typedef uint32_t code_word;
#define BREAKPOINT 0xD4200000u
enum { BEHIND_BYTES = 0 };
#define PROGRAM_COUNTER(registers) (registers).pc
#else
#error "breakpoints of this processor are not known here"
#endif

enum { CANNOT = 127, SYSCALL_STOP = SIGTRAP | 0x80, SEEKING_MAX = 1024 };

struct point {
    uint64_t offset; /* in the file */
    code_word original;
    bool hit;
};

static struct point *points; /* sorted by offset */
static size_t point_count;
static int library_fd;
static struct stat library;
static unsigned programs_mapped;

/* Processes between their exec and the library's arrival. */
static pid_t seeking[SEEKING_MAX];
static size_t seeking_count;

static _Noreturn void fail(const char *what, const char *name) {
    fprintf(stderr, "reach: cannot %s %s: %s\n", what, name, strerror(errno));
    exit(CANNOT);
}

static int by_offset(const void *left, const void *right) {
    uint64_t a = ((const struct point *)left)->offset;
    uint64_t b = ((const struct point *)right)->offset;
    return (a > b) - (a < b);
}

static void read_points(const char *path) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fail("read", path);
    }
    size_t room = 0;
    uint64_t offset;
    while (fscanf(file, "%" SCNx64, &offset) == 1) {
        if (point_count == room) {
            room = room == 0 ? 256 : 2 * room;
            points = realloc(points, room * sizeof *points);
            if (points == NULL) {
                fail("keep", path);
            }
        }
        struct point *point = &points[point_count++];
        *point = (struct point){.offset = offset};
        if (pread(library_fd, &point->original, sizeof point->original, (off_t)offset) !=
            (ssize_t)sizeof point->original) {
            fail("find the instructions of", path);
        }
    }
    fclose(file);
    if (point_count != 0) {
        qsort(points, point_count, sizeof *points, by_offset);
    }
}

/* A range of the library's code in a process: addresses begin up to end hold the file from offset
 * on. False: the process does not have it mapped. */
struct range {
    uint64_t begin, end, offset;
};

static bool find_code(pid_t pid, struct range *range) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL) {
        return false;
    }
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, maps) > 0) {
        char executable;
        unsigned device_major, device_minor;
        uint64_t inode;
        found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%c%*c %" SCNx64 " %x:%x %" SCNu64,
                       &range->begin, &range->end, &executable, &range->offset, &device_major,
                       &device_minor, &inode) == 7 &&
                executable == 'x' && inode == library.st_ino &&
                makedev(device_major, device_minor) == library.st_dev;
    }
    free(line);
    fclose(maps);
    return found;
}

static bool write_code(pid_t pid, uint64_t address, code_word word) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int memory = open(path, O_WRONLY | O_CLOEXEC);
    bool written =
        memory >= 0 && pwrite(memory, &word, sizeof word, (off_t)address) == (ssize_t)sizeof word;
    if (memory >= 0) {
        close(memory);
    }
    return written;
}

/* Every instruction that no program has hit so far gets its breakpoint. */
static bool plant(pid_t pid) {
    struct range code;
    if (!find_code(pid, &code)) {
        return false;
    }
    for (size_t i = 0; i < point_count; ++i) {
        uint64_t address = points[i].offset - code.offset + code.begin;
        if (!points[i].hit && address >= code.begin && address < code.end &&
            !write_code(pid, address, (code_word)BREAKPOINT)) {
            fail("set breakpoints in", "the library");
        }
    }
    ++programs_mapped;
    return true;
}

/* Whether the stop was one of ours; then its instruction is whole again and comes next. Two
 * threads may hit the same breakpoint: the second finds it taken away and is put right too. */
static bool take_away(pid_t pid) {
    struct user_regs_struct registers;
    struct iovec view = {&registers, sizeof registers};
    struct range code;
    if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &view) != 0 || !find_code(pid, &code)) {
        return false;
    }
    uint64_t address = PROGRAM_COUNTER(registers) - BEHIND_BYTES;
    if (address < code.begin || address >= code.end) {
        return false;
    }
    struct point wanted = {.offset = address - code.begin + code.offset};
    struct point *point = bsearch(&wanted, points, point_count, sizeof *points, by_offset);
    if (point == NULL || !write_code(pid, address, point->original)) {
        return false;
    }
    point->hit = true;
    PROGRAM_COUNTER(registers) = address;
    return ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &view) == 0;
}

static size_t seeking_place(pid_t pid) {
    size_t place = 0;
    while (place < seeking_count && seeking[place] != pid) {
        ++place;
    }
    return place;
}

static void seek(pid_t pid) {
    if (seeking_place(pid) == seeking_count) {
        if (seeking_count == SEEKING_MAX) {
            errno = EAGAIN;
            fail("watch", "so many processes");
        }
        seeking[seeking_count++] = pid;
    }
}

static void seek_no_more(pid_t pid) {
    size_t place = seeking_place(pid);
    if (place < seeking_count) {
        seeking[place] = seeking[--seeking_count];
    }
}

/* What a stop means, and so with which request and signal the process goes on. */
static void resume(pid_t pid, int status) {
    int stop_signal = WSTOPSIG(status);
    int event = status >> 16;
    int deliver = 0;
    enum __ptrace_request request = PTRACE_CONT;
    if (event == PTRACE_EVENT_EXEC) {
        seek(pid);
    } else if (event == PTRACE_EVENT_STOP) {
        /* A new thread or child; any other signal is a group that job control has stopped. */
        request = stop_signal == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN;
    } else if (event == 0 && stop_signal == SYSCALL_STOP) {
        if (plant(pid)) {
            seek_no_more(pid);
        }
    } else if (event == 0 && !(stop_signal == SIGTRAP && take_away(pid))) {
        deliver = stop_signal;
    }
    if (request == PTRACE_CONT && seeking_place(pid) < seeking_count) {
        request = PTRACE_SYSCALL;
    }
    /* One that has been killed meanwhile is reported by waitpid. */
    ptrace(request, pid, NULL, (void *)(intptr_t)deliver);
}

/* The command, stopped before its first instruction, with every process it makes to be watched. */
static pid_t start(const char *preload, char **command) {
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) != 0) {
        fail("make a pipe for", command[0]);
    }
    pid_t pid = fork();
    if (pid < 0) {
        fail("fork for", command[0]);
    }
    if (pid == 0) {
        char go;
        if (read(gate[0], &go, 1) == 1 && setenv("LD_PRELOAD", preload, 1) == 0) {
            execvp(command[0], command);
            fprintf(stderr, "reach: cannot run %s: %s\n", command[0], strerror(errno));
        }
        _exit(CANNOT);
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE |
                   PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)options) != 0) {
        int error = errno;
        kill(pid, SIGKILL);
        errno = error;
        fail("trace", command[0]);
    }
    if (write(gate[1], "", 1) != 1) {
        fail("start", command[0]);
    }
    close(gate[0]);
    close(gate[1]);
    return pid;
}

/* Until the last process has ended; returns how the first one did. */
static int watch(pid_t first) {
    int result = CANNOT;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (pid > 0 && WIFSTOPPED(status)) {
            resume(pid, status);
        } else if (pid > 0) {
            seek_no_more(pid);
            if (pid == first) {
                result = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
            }
        }
    }
    return result;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: reach REPORT PRELOAD LIBRARY POINTS COMMAND [ARGUMENT...]\n");
        return CANNOT;
    }
    library_fd = open(argv[3], O_RDONLY | O_CLOEXEC);
    if (library_fd < 0 || fstat(library_fd, &library) != 0) {
        fail("open", argv[3]);
    }
    read_points(argv[4]);
    FILE *report = fopen(argv[1], "we");
    if (report == NULL) {
        fail("write", argv[1]);
    }
    int status = watch(start(argv[2], argv + 5));
    fprintf(report, "mapped %u\nstatus %d\n", programs_mapped, status);
    for (size_t i = 0; i < point_count; ++i) {
        if (points[i].hit) {
            fprintf(report, "hit %" PRIx64 "\n", points[i].offset);
        }
    }
    if (fclose(report) != 0) {
        fail("write", argv[1]);
    }
    return 0;
}
