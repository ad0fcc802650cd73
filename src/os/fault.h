/* Accesses to pages that were made inaccessible on purpose. See fault.c. */
#ifndef HAK_OS_FAULT_H
#define HAK_OS_FAULT_H

#include "base/base.h"

enum os_access { OS_ACCESS_UNKNOWN, OS_ACCESS_READ, OS_ACCESS_WRITE };

struct os_fault {
    const void *address; /* that was accessed, */
    uintptr_t counter;   /* by the instruction here; 0: not known */
    enum os_access access;
};

/* Is told of every access that faults, in a signal handler of the thread that made it. If it
 * returns, the access is none of its business. */
typedef void os_fault_look(const struct os_fault *fault);

/* From now on; what the program had for SIGSEGV gets what look returns from. Once in the life of
 * a process. False: the kernel refuses. */
bool os_fault_watch(os_fault_look *look);

#endif
