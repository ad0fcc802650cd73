/* Prints the machine instructions that malloc and free of a preloaded library
 * really execute, as addresses, for tools/fast_path.py to read.
 *
 *     LD_PRELOAD=LIBRARY trace_calls SIZE...
 *
 * The process forks. The child allocates and frees each size a few times, so
 * that its next calls find what they need in the thread's cache, then makes
 * the calls that count; the parent executes it one instruction at a time and
 * notes the program counter from the first instruction of malloc or free
 * until the call has returned. Every call is repeated, as a cache may need
 * some to adapt to a size; a reader takes the shortest. Both processes have
 * the same address space, so the parent can name what it sees. Nothing of the
 * library is changed or assumed: what is listed is what ran.
 *
 * Output: one line a call, "malloc SIZE FILE:offset FILE:offset ...", where an
 * offset is an address within the file's own address space.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UPS = 8, BLOCKS_AT_ONCE = 4, REPEATS = 16, LONGEST_CALL = 4096 };

/* Called through pointers that the compiler cannot see through, or it would
 * drop a malloc whose block is only freed. */
static void *(*volatile call_malloc)(size_t) = malloc;
static void (*volatile call_free)(void *) = free;

struct registers {
    uintptr_t counter;        /* the program counter */
    uintptr_t return_address; /* valid at the first instruction of a function */
};

static void fail(const char *what) {
    fprintf(stderr, "trace_calls: %s: %s\n", what, strerror(errno));
    exit(2);
}

static struct registers read_registers(pid_t child) {
    struct user_regs_struct regs;
    struct iovec into = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, child, (void *)(uintptr_t)NT_PRSTATUS, &into) != 0)
        fail("cannot read the registers of the traced process");
#if defined(__x86_64__)
    errno = 0;
    long top = ptrace(PTRACE_PEEKDATA, child, (void *)(uintptr_t)regs.rsp, NULL);
    return (struct registers){regs.rip, errno == 0 ? (uintptr_t)top : 0};
#elif defined(__aarch64__)
    return (struct registers){regs.pc, regs.regs[30]};
#else
#error "no registers known for this processor"
#endif
}

/* Executes one instruction; false when the process has ended. */
static bool step(pid_t child) {
    int status;
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
        fail("cannot step");
    if (waitpid(child, &status, 0) != child)
        fail("cannot wait for the traced process");
    return WIFSTOPPED(status);
}

static void print_place(uintptr_t address) {
    Dl_info where;
    struct link_map *map = NULL;
    if (dladdr1((void *)address, &where, (void **)&map, RTLD_DL_LINKMAP) == 0)
        printf(" ?:%" PRIxPTR, address);
    else
        printf(" %s:%" PRIxPTR, where.dli_fname, address - map->l_addr);
}

/* The child stands at the first instruction of a function: list it to its end. */
static void trace_one_call(pid_t child, const char *name, size_t size) {
    static uintptr_t counters[LONGEST_CALL];
    struct registers now = read_registers(child);
    const uintptr_t end = now.return_address;
    size_t length = 0;
    do {
        if (length < LONGEST_CALL)
            counters[length] = now.counter;
        length++;
        if (!step(child))
            return;
        now = read_registers(child);
    } while (now.counter != end);
    printf("%s %zu", name, size);
    for (size_t i = 0; i < length && i < LONGEST_CALL; i++)
        print_place(counters[i]);
    putchar('\n');
}

static void warm_up(size_t size) {
    void *blocks[BLOCKS_AT_ONCE];
    for (int i = 0; i < WARM_UPS; i++) {
        for (int j = 0; j < BLOCKS_AT_ONCE; j++) {
            blocks[j] = call_malloc(size);
            memset(blocks[j], 1, size);
        }
        for (int j = 0; j < BLOCKS_AT_ONCE; j++)
            call_free(blocks[j]);
    }
}

static void run_traced(const size_t *sizes, int count) {
    for (int i = 0; i < count; i++)
        warm_up(sizes[i]);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        fail("tracing is not allowed here");
    raise(SIGSTOP);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < REPEATS; j++)
            call_free(call_malloc(sizes[i]));
    _exit(0);
}

int main(int argc, char **argv) {
    int count = argc - 1;
    size_t *sizes = calloc((size_t)argc, sizeof *sizes);
    if (sizes == NULL)
        fail("no memory");
    for (int i = 0; i < count; i++)
        sizes[i] = strtoul(argv[i + 1], NULL, 10);

    pid_t child = fork();
    if (child < 0)
        fail("cannot fork");
    if (child == 0)
        run_traced(sizes, count);

    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        fail("tracing is not allowed here");
    const uintptr_t malloc_begin = (uintptr_t)call_malloc;
    const uintptr_t free_begin = (uintptr_t)call_free;
    int calls = 0;
    while (step(child)) {
        const uintptr_t counter = read_registers(child).counter;
        if (counter != malloc_begin && counter != free_begin)
            continue;
        if (calls / (2 * REPEATS) >= count)
            break;
        trace_one_call(child, counter == malloc_begin ? "malloc" : "free",
                       sizes[calls / (2 * REPEATS)]);
        calls++;
    }
    free(sizes);
    return calls == 2 * REPEATS * count ? 0 : 1;
}
