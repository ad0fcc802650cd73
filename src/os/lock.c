/* Waiting for a lock: a short spin, then sleep.
 *
 *        try fails                      futex says so
 *   FREE ---------> HELD_WITH_WAITERS --------------> try again
 *
 * The holder may have been preempted, and with more threads than processors
 * often is; spinning for it would burn the very time slice that it needs. So
 * the spin is about as long as a batch takes under the lock, and then the
 * waiter sleeps in futex(2).
 *
 * A waiter that takes the lock after sleeping marks it HELD_WITH_WAITERS, for
 * it cannot know whether others sleep; one needless wake is the price.
 *
 * Fork: between the handlers before and after fork the forking thread owns all
 * locks, but handlers of other libraries run in between and may allocate. They
 * run in the same thread, so it simply passes: nobody else can be inside. */
#include "os/lock.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 100 };

/* Of the kernel's interface; its headers are not everywhere that a C library is. */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_PRIVATE_FLAG = 128 };

_Atomic uintptr_t os_lock_forker;

/* errno lives in the thread's own memory, so its address names the thread; it
 * stays the same in the child of a fork. */
uintptr_t os_thread_identity(void) { return (uintptr_t)&errno; }

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value) {
    int saved_errno = errno;
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
    errno = saved_errno;
}

void os_wait(_Atomic uint32_t *word, uint32_t value) { futex(word, FUTEX_WAIT, value); }
void os_wake(_Atomic uint32_t *word) { futex(word, FUTEX_WAKE, INT_MAX); }

static bool spin(struct os_lock *lock) {
    for (int turn = 0; turn < SPINS; turn++) {
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_FREE &&
            os_lock_try(lock))
            return true;
        relax();
    }
    return false;
}

static void sleep_until_free(struct os_lock *lock) {
    /* atomic: warm, correctness; pairs with the release of the holder before. */
    while (atomic_exchange_explicit(&lock->state, LOCK_HELD_WITH_WAITERS, memory_order_acquire) !=
           LOCK_FREE)
        futex(&lock->state, FUTEX_WAIT, LOCK_HELD_WITH_WAITERS);
}

void os_lock_wait(struct os_lock *lock) {
    if (!spin(lock)) {
        sleep_until_free(lock);
        os_lock_count(&lock->acquired);
    }
    os_lock_count(&lock->contended);
}

void os_lock_wake(struct os_lock *lock) { futex(&lock->state, FUTEX_WAKE, 1); }

void os_lock_pass_begin(void) {
    atomic_store_explicit(&os_lock_forker, os_thread_identity(), memory_order_relaxed);
}

void os_lock_pass_end(void) { atomic_store_explicit(&os_lock_forker, 0, memory_order_relaxed); }
