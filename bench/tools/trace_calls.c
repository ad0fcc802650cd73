/* Prints the machine instructions that an allocator really executes in a call
 * and in the call that takes its block back, as addresses. `hakmem audit` and
 * tools/fast_path.py read it.
 *
 *     LD_PRELOAD=LIBRARY trace_calls ALLOCATE FREE SIZE...
 *     LD_PRELOAD=LIBRARY trace_calls malloc free 16 64
 *     LD_PRELOAD=LIBRARY trace_calls _Znwm _ZdlPvm 16 64
 *
 * The process forks. The child allocates and frees each size a few times, so
 * that its next calls find what they need in the thread's cache, then makes
 * the calls that count; the parent executes it one instruction at a time and
 * notes the program counter from the first instruction of the function until
 * the call has returned. Every call is repeated, as a cache may need some to
 * adapt to a size; a reader takes the shortest. Both processes have the same
 * address space, so the parent can name what it sees. Nothing of the library
 * is changed or assumed: what is listed is what ran.
 *
 * Output: one line a call, "malloc SIZE FILE:offset FILE:offset ...", where an
 * offset is an address within the file's own address space. Blanks in names of
 * files are written as %20.
 *
 * A second thread sleeps meanwhile: allocators leave their locks out while a
 * process has one thread only, and programs that care about malloc have more. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
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

enum { WARM_UPS = 8, BLOCKS_AT_ONCE = 4, REPEATS = 16, LONGEST_CALL = 65536 };

/* The second argument is for sized forms of free; functions that have none do
 * not look at its register. */
static void *(*call_allocate)(size_t size, size_t one);
static void (*call_free)(void *block, size_t size);

struct registers {
    uintptr_t counter;        /* the program counter */
    uintptr_t return_address; /* valid at the first instruction of a function */
};

_Noreturn static void give_up(const char *what, const char *why) {
    fprintf(stderr, "trace_calls: %s: %s\n", what, why);
    _exit(2);
}

_Noreturn static void fail(const char *what) { give_up(what, strerror(errno)); }

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
    if (WIFSIGNALED(status))
        give_up("the traced calls were ended", strsignal(WTERMSIG(status)));
    if (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP)
        give_up("the traced calls crashed", strsignal(WSTOPSIG(status)));
    return WIFSTOPPED(status);
}

static void print_place(uintptr_t address) {
    Dl_info where;
    struct link_map *map = NULL;
    if (dladdr1((void *)address, &where, (void **)&map, RTLD_DL_LINKMAP) == 0) {
        printf(" ?:%" PRIxPTR, address);
        return;
    }
    putchar(' ');
    for (const char *letter = where.dli_fname; *letter != '\0'; ++letter)
        if (*letter == ' ')
            fputs("%20", stdout);
        else
            putchar(*letter);
    printf(":%" PRIxPTR, address - map->l_addr);
}

/* The child stands at the first instruction of a function: list it to its end. */
static void trace_one_call(pid_t child, const char *name, size_t size) {
    static uintptr_t counters[LONGEST_CALL];
    struct registers now = read_registers(child);
    const uintptr_t end = now.return_address;
    size_t length = 0;
    do {
        if (length == LONGEST_CALL)
            give_up(name, "a call of it never ends");
        counters[length++] = now.counter;
        if (!step(child))
            give_up(name, "the process ended in it");
        now = read_registers(child);
    } while (now.counter != end);
    printf("%s %zu", name, size);
    for (size_t i = 0; i < length; ++i)
        print_place(counters[i]);
    putchar('\n');
}

static void warm_up(size_t size) {
    void *blocks[BLOCKS_AT_ONCE];
    for (int i = 0; i < WARM_UPS; ++i) {
        for (int j = 0; j < BLOCKS_AT_ONCE; ++j) {
            blocks[j] = call_allocate(size, 1);
            if (blocks[j] == NULL)
                fail("no memory for the calls");
            memset(blocks[j], 1, size);
        }
        for (int j = 0; j < BLOCKS_AT_ONCE; ++j)
            call_free(blocks[j], size);
    }
}

static void *sleep_for_ever(void *unused) {
    for (;;)
        pause();
    return unused;
}

static void start_second_thread(void) {
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, sleep_for_ever, NULL)) != 0)
        fail("cannot start a thread");
}

_Noreturn static void run_traced(const size_t *sizes, int count) {
    start_second_thread();
    for (int i = 0; i < count; ++i)
        warm_up(sizes[i]);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        fail("tracing is not allowed here");
    raise(SIGSTOP);
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < REPEATS; ++j)
            call_free(call_allocate(sizes[i], 1), sizes[i]);
    _exit(0);
}

static void wait_for_first_stop(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("cannot wait for the traced process");
    if (WIFSIGNALED(status))
        give_up("the calls crashed", strsignal(WTERMSIG(status)));
    if (!WIFSTOPPED(status))
        _exit(2); /* the child has said why */
}

static void *function_named(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL)
        give_up(name, "there is no such function");
    return found;
}

int main(int argc, char **argv) {
    if (argc < 4)
        give_up("usage", "trace_calls ALLOCATE FREE SIZE...");
    call_allocate = function_named(argv[1]);
    call_free = function_named(argv[2]);
    int count = argc - 3;
    size_t *sizes = calloc((size_t)count, sizeof *sizes);
    if (sizes == NULL)
        fail("no memory");
    for (int i = 0; i < count; ++i)
        sizes[i] = strtoul(argv[i + 3], NULL, 10);

    pid_t child = fork();
    if (child < 0)
        fail("cannot fork");
    if (child == 0)
        run_traced(sizes, count);
    wait_for_first_stop(child);

    int calls = 0;
    while (calls < 2 * REPEATS * count && step(child)) {
        const uintptr_t counter = read_registers(child).counter;
        const bool allocates = counter == (uintptr_t)call_allocate;
        if (!allocates && counter != (uintptr_t)call_free)
            continue;
        trace_one_call(child, argv[allocates ? 1 : 2], sizes[calls / (2 * REPEATS)]);
        ++calls;
    }
    kill(child, SIGKILL);
    free(sizes);
    return calls == 2 * REPEATS * count ? 0 : 1;
}
