/* SIGSEGV, shared with the program.
 *
 *   access -> kernel -> handle -> look:  ours: reports, ends the process
 *                                        not: returns -> what the program had before
 *
 * The program's handler runs as the kernel would have run it: with the mask that it asked for,
 * the signal's data, and once only if it said so. Where it had none, the default is put back and
 * the access made again: the process ends, and its core file shows the access, not this file.
 * A handler that the program sets later takes the place of this one, and nothing is seen any more.
 */
#include "os/fault.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "os/calls.h"

static os_fault_look *look_at;
static struct sigaction before; /* what the program had */

static struct os_fault fault_of(const siginfo_t *info, const ucontext_t *context) {
    struct os_fault fault = {.address = info->si_addr, .access = OS_ACCESS_UNKNOWN};
#if defined(__x86_64__)
    enum { WRITE_BIT = 2 }; /* of the processor's error code */
    const greg_t *registers = context->uc_mcontext.gregs;
    fault.counter = (uintptr_t)registers[REG_RIP];
    fault.access = registers[REG_ERR] & WRITE_BIT ? OS_ACCESS_WRITE : OS_ACCESS_READ;
#elif defined(__aarch64__)
    fault.counter = context->uc_mcontext.pc;
#else
    (void)context;
#endif
    return fault;
}

static void restore_default(void) {
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    sigaction(SIGSEGV, &fallback, NULL);
}

static void pass_on(int number, siginfo_t *info, void *context) {
    bool is_sent = info->si_code <= 0; /* by a process: nothing would be tried again */
    bool has_handler = (before.sa_flags & SA_SIGINFO) != 0 ||
                       (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN);
    if (!has_handler) {
        if (is_sent && before.sa_handler == SIG_IGN)
            return;
        restore_default();
        if (is_sent)
            raise(number);
        return;
    }
    struct sigaction program = before;
    if (program.sa_flags & (int)SA_RESETHAND)
        before = (struct sigaction){.sa_handler = SIG_DFL};
    if (program.sa_flags & SA_SIGINFO)
        program.sa_sigaction(number, info, context);
    else
        program.sa_handler(number);
}

static void handle(int number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    if (info->si_code > 0) {
        struct os_fault fault = fault_of(info, context);
        look_at(&fault);
    }
    errno = saved_errno;
    pass_on(number, info, context);
}

static bool is_ours(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle;
}

/* Another thread may set a handler at any moment. So what counts is what each call says that it has
 * replaced, until that is this file's own; `before` is known first, for an access may fault as
 * soon as the handler is there. */
bool os_fault_watch(os_fault_look *look) {
    if (!os_call_begins(OS_CALL_SIGNAL))
        return false;
    look_at = look;
    int saved_errno = errno;
    struct sigaction replaced;
    bool done = sigaction(SIGSEGV, NULL, &replaced) == 0;
    while (done && !is_ours(&replaced)) {
        before = replaced;
        struct sigaction action = {.sa_sigaction = handle, .sa_mask = before.sa_mask};
        int kept_flags = before.sa_flags & (int)(SA_NODEFER | SA_RESTART);
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | kept_flags;
        done = sigaction(SIGSEGV, &action, &replaced) == 0;
    }
    errno = saved_errno;
    return done;
}
