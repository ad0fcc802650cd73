/* What the stress tests share: they end at the first thing that is not as it must be, in
 * whatever thread or process that is. */
#ifndef HAK_TESTS_STRESS_SUPPORT_H
#define HAK_TESTS_STRESS_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>

/* A child that hangs ends itself after so long. */
enum { HANG_SECONDS = 60 };

static inline void require(int is_true, const char *what) {
    if (!is_true) {
        fprintf(stderr, "stress: %s\n", what);
        abort();
    }
}

/* Waits for a child, which must end in 0. */
static inline void expect_success(pid_t child) {
    int status = -1;
    require(waitpid(child, &status, 0) == child, "waitpid failed");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "stress: a forked child ended with status 0x%x\n", (unsigned)status);
        abort();
    }
}

#endif
