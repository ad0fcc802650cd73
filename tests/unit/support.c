#include "support.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/calls.h"
#include "os/memory.h"
#include "os/options.h"
#include "refusals.h"

enum { TEXT_BYTES = 4096, HANG_SECONDS = 60 };

uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t random_below(uint64_t *state, size_t below) { return random_next(state) % below; }

/* Reads a file from its start. */
static void read_back(int file, char *text, size_t capacity) {
    ssize_t length = pread(file, text, capacity - 1, 0);
    text[length < 0 ? 0 : length] = '\0';
}

_Noreturn static void run_to_death(void (*act)(void *), void *context, int error_file) {
    dup2(error_file, STDERR_FILENO);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGABRT, SIG_DFL);
    alarm(HANG_SECONDS);
    act(context);
    _exit(0);
}

static bool begins_with(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* One line, and lines of details about it. An emulator says in a line of its own that the program
 * has died. */
static bool is_one_report(const char *text) {
    const char *end = strchr(text, '\n');
    while (end != NULL && begins_with(end + 1, "hakmem:  "))
        end = strchr(end + 1, '\n');
    return end != NULL && (end[1] == '\0' || begins_with(end + 1, "qemu:"));
}

void assert_dies(void (*act)(void *context), void *context, const char *report, ...) {
    int file = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(file >= 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_to_death(act, context, file);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    char text[TEXT_BYTES];
    read_back(file, text, sizeof text);
    close(file);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("expected SIGABRT, got status 0x%x and: %s", (unsigned)status, text);
    if (!begins_with(text, report))
        fail_msg("expected a report '%s...', got: %s", report, text);
    if (!is_one_report(text))
        fail_msg("expected one report, got: %s", text);
    va_list parts;
    va_start(parts, report);
    for (const char *part; (part = va_arg(parts, const char *)) != NULL;) {
        if (strstr(text, part) == NULL)
            fail_msg("expected '%s' in: %s", part, text);
    }
    va_end(parts);
}

void catch_stderr(void (*act)(void *context), void *context, char *text, size_t capacity) {
    int file = memfd_create("stderr", MFD_CLOEXEC);
    int saved = dup(STDERR_FILENO);
    assert_true(file >= 0 && saved >= 0);
    dup2(file, STDERR_FILENO);
    act(context);
    dup2(saved, STDERR_FILENO);
    close(saved);
    read_back(file, text, capacity);
    close(file);
}

void start_os(const char *options) {
    os_memory_init();
    options_parse(options);
    os_memory_use_thp(options_profile()->thp);
}

/* --- refusals ------------------------------------------------------------------ */

static int refused_kind;
static unsigned granted_calls;

static bool refuses(enum os_call kind) {
    if (refused_kind != OS_CALL_KINDS && kind != (enum os_call)refused_kind)
        return false;
    if (granted_calls == 0)
        return true;
    granted_calls--;
    return false;
}

void refuse_after(int kind, unsigned granted) {
    refused_kind = kind;
    granted_calls = granted;
    refuses_call = refuses;
}

void refuse_kind(int kind) { refuse_after(kind, 0); }

void allow_all(void) { refuses_call = NULL; }
