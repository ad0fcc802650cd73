/* An allocator with a planted fault, for the soak to find: glibc's malloc, in which
 *   LEAK_EVERY=n   every n-th block that is given back is forgotten, with a system call
 *                  (getuid, which no malloc makes)
 *   ABORT_AFTER=n  the first free ends the program that comes n milliseconds after another
 * chosen at compile time: measured programs get no variables. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef LEAK_EVERY
#define LEAK_EVERY 0
#endif
#ifndef ABORT_AFTER
#define ABORT_AFTER 0
#endif

void *__libc_malloc(size_t bytes);
void __libc_free(void *block);

enum { LOOK_EVERY = 1024 };

static _Atomic unsigned long frees;
static _Atomic long first_ms;

static void look_at_the_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (first_ms == 0) {
        first_ms = ms;
    } else if (ms - first_ms >= ABORT_AFTER) {
        abort();
    }
}

void *malloc(size_t bytes) { return __libc_malloc(bytes); }

void free(void *block) {
    if (block == NULL) {
        return;
    }
    unsigned long number = ++frees;
    if (ABORT_AFTER != 0 && number % LOOK_EVERY == 1) {
        look_at_the_clock();
    }
    if (LEAK_EVERY != 0 && number % (LEAK_EVERY + !LEAK_EVERY) == 0) {
        syscall(SYS_getuid);
        return;
    }
    __libc_free(block);
}
