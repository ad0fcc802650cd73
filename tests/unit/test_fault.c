/* SIGSEGV shared with the program: what look does not claim reaches what the program had, as the
 * kernel would have brought it. Each case in a process of its own. */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/fault.h"
#include "os/stack.h"

enum { CLAIMED = 41, HANDLED = 42, HANDLED_WITH_DATA = 43, HANDLED_BY_OTHER = 44, PAGE = 65536 };

static char *forbidden, *claimed;

/* What another thread, or an access that faults, does right behind the first call that asks
 * (behind_ask) or sets (behind_set) what SIGSEGV has. The linker has sent all calls here. */
static void (*behind_ask)(void), (*behind_set)(void);
int __real_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *old);

int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    void (**behind)(void) = action == NULL ? &behind_ask : &behind_set;
    void (*act)(void) = *behind;
    *behind = NULL;
    int result = __real_sigaction(number, action, old);
    if (act != NULL)
        act();
    return result;
}

static void look(const struct os_fault *fault) {
    if (fault->address == claimed)
        _exit(CLAIMED);
}

static void handle(int number) { _exit(number == SIGSEGV ? HANDLED : 1); }

static void handle_other(int number) { _exit(number == SIGSEGV ? HANDLED_BY_OTHER : 1); }

static void handle_data(int number, siginfo_t *info, void *context) {
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    /* ThreadSanitizer's own handler, which calls this one, has everything blocked. */
    bool is_masked = sigismember(&now, SIGUSR1) && (HAK_TSAN || !sigismember(&now, SIGUSR2));
    bool is_right = number == SIGSEGV && info->si_addr == forbidden && context != NULL && is_masked;
    _exit(is_right ? HANDLED_WITH_DATA : 1);
}

static void touch(volatile char *place) { *place = 1; }

/* What happens in a child while it begins to be watched. */
static void (*meanwhile_asked)(void), (*meanwhile_set)(void);

/* The status of a child that has set `action` for SIGSEGV, is watched, and does `act`. */
static int status_of(const struct sigaction *action, void (*act)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        sigaction(SIGSEGV, action, NULL);
        behind_ask = meanwhile_asked;
        behind_set = meanwhile_set;
        if (!os_fault_watch(look))
            _exit(1);
        act();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void touch_forbidden(void) { touch(forbidden); }
static void touch_claimed(void) { touch(claimed); }
static void send_to_self(void) { kill(getpid(), SIGSEGV); }
static void touch_twice(void) {
    touch(forbidden); /* the handler returns after making it accessible */
    mprotect(forbidden, PAGE, PROT_NONE);
    touch(forbidden);
}
static void allow(int number) {
    (void)number;
    mprotect(forbidden, PAGE, PROT_READ | PROT_WRITE);
}

static void test_what_is_claimed_goes_no_further(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = handle};
    assert_int_equal(WEXITSTATUS(status_of(&action, touch_claimed)), CLAIMED);
}

static void test_the_default_ends_the_process(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = SIG_DFL};
    int status = status_of(&action, touch_forbidden);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = status_of(&action, send_to_self);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void test_ignored_ones(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = SIG_IGN};
    assert_int_equal(status_of(&action, send_to_self), 0);
    int status = status_of(&action, touch_forbidden); /* no process may ignore this one */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void test_the_programs_handler_runs(void **state) {
    (void)state;
    struct sigaction plain = {.sa_handler = handle};
    assert_int_equal(WEXITSTATUS(status_of(&plain, touch_forbidden)), HANDLED);
    assert_int_equal(WEXITSTATUS(status_of(&plain, send_to_self)), HANDLED);
    struct sigaction with_data = {.sa_sigaction = handle_data, .sa_flags = SA_SIGINFO};
    sigaddset(&with_data.sa_mask, SIGUSR1);
    assert_int_equal(WEXITSTATUS(status_of(&with_data, touch_forbidden)), HANDLED_WITH_DATA);
}

static void test_a_handler_may_mend_and_return(void **state) {
    (void)state;
    struct sigaction mends = {.sa_handler = allow};
    assert_int_equal(status_of(&mends, touch_twice), 0);
    mends.sa_flags = (int)SA_RESETHAND;
    assert_int_equal(status_of(&mends, touch_forbidden), 0);
    int status = status_of(&mends, touch_twice);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void set_other(void) {
    struct sigaction other = {.sa_handler = handle_other};
    __real_sigaction(SIGSEGV, &other, NULL);
}

static void test_a_handler_set_meanwhile_is_not_lost(void **state) {
    (void)state;
    struct sigaction plain = {.sa_handler = handle};
    meanwhile_asked = set_other;
    assert_int_equal(WEXITSTATUS(status_of(&plain, touch_forbidden)), HANDLED_BY_OTHER);
    meanwhile_asked = NULL;
    meanwhile_set = set_other;
    assert_int_equal(WEXITSTATUS(status_of(&plain, touch_forbidden)), HANDLED_BY_OTHER);
    meanwhile_set = NULL;
}

static void test_an_access_meanwhile_reaches_the_program(void **state) {
    (void)state;
    struct sigaction plain = {.sa_handler = handle};
    meanwhile_set = touch_forbidden;
    assert_int_equal(WEXITSTATUS(status_of(&plain, touch_forbidden)), HANDLED);
    meanwhile_set = NULL;
}

/* --- stacks --------------------------------------------------------------------------- */

__attribute__((noinline)) static void outer(struct os_stack *stack, unsigned depth) {
    if (depth == 0)
        os_stack_capture(stack);
    else
        outer(stack, depth - 1);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static void test_a_stack_is_as_deep_as_its_calls(void **state) {
    (void)state;
    struct os_stack shallow, deep, endless;
    outer(&shallow, 0);
    outer(&deep, 5);
    outer(&endless, 100);
    assert_int_equal(shallow.thread, getpid());
    if (!HAK_HAS_UNWINDER) {
        assert_int_equal(deep.depth, 0);
        return;
    }
    assert_in_range(shallow.depth, 2, OS_STACK_FRAMES - 5);
    assert_int_equal(deep.depth, shallow.depth + 5);
    assert_int_equal(endless.depth, OS_STACK_FRAMES);
}

static void test_a_frame_names_its_object(void **state) {
    (void)state;
    char text[300];
    struct format_buffer line = format_begin(text, sizeof text - 1);
    os_stack_describe((uintptr_t)getpid + 1, &line);
    text[line.length] = '\0';
    assert_non_null(strstr(text, "getpid+0x1 ("));
    line = format_begin(text, sizeof text - 1);
    os_stack_describe(16, &line);
    text[line.length] = '\0';
    assert_string_equal(text, "(unknown)");
}

int main(void) {
    char *pages = mmap(NULL, 2 * (size_t)PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    forbidden = pages;
    claimed = pages + PAGE;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_claimed_goes_no_further),
        cmocka_unit_test(test_the_default_ends_the_process),
        cmocka_unit_test(test_ignored_ones),
        cmocka_unit_test(test_the_programs_handler_runs),
        cmocka_unit_test(test_a_handler_may_mend_and_return),
        cmocka_unit_test(test_a_handler_set_meanwhile_is_not_lost),
        cmocka_unit_test(test_an_access_meanwhile_reaches_the_program),
        cmocka_unit_test(test_a_stack_is_as_deep_as_its_calls),
        cmocka_unit_test(test_a_frame_names_its_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
