/* Calls into the kernel and the C library that may be refused, by kind: counted for statistics,
 * refused by tests. */
#ifndef HAK_OS_CALLS_H
#define HAK_OS_CALLS_H

#include "base/base.h"

enum os_call {
    OS_CALL_RESERVE,
    OS_CALL_COMMIT,
    OS_CALL_MAP,
    OS_CALL_UNMAP,
    OS_CALL_REMAP,
    OS_CALL_PURGE,
    OS_CALL_ADVISE,
    OS_CALL_POPULATE,
    OS_CALL_GUARD,
    OS_CALL_FREEZE,
    OS_CALL_LOOK,   /* which pages are in memory */
    OS_CALL_SIGNAL, /* a handler */
    OS_CALL_THREAD, /* its making, */
    OS_CALL_KEY,    /* and what is to be called at its end */
    OS_CALL_READ,   /* a file of the kernel's, or memory by its hand */
    OS_CALL_ASK,    /* for chance, processors, threads */
    OS_CALL_KINDS,
};

/* Counts a call that is about to be made. False: a test wants it refused, and it is not made. */
bool os_call_begins(enum os_call kind);

uint64_t os_call_count(enum os_call kind);

/* Fault injection: what a test links in is asked before each call of the kinds above; true makes
 * the call fail as if it had been refused. Weak, so that the library has nothing there: a
 * pointer to a function would be one that an attacker may write to. */
bool os_test_refuses(enum os_call kind) __attribute__((weak, visibility("hidden")));

#endif
