/* A server that forks a child for each piece of work: the children are alike, and short. For guard
 * sampling each has a countdown of its own, so that a fair part of them guards a block; with their
 * parent's, which they would all go on from, either all did or none.
 *
 * With guard_rate=2000 a child of 1,000 blocks guards none with a chance of exp(-1/2). */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { CHILDREN = 200, BLOCKS = 1000, BLOCK_BYTES = 17 };

/* The usable size of a guarded block is what was asked for. */
static int guards_one(void) {
    for (int i = 0; i < BLOCKS; i++) {
        void *volatile block = malloc(BLOCK_BYTES);
        if (malloc_usable_size(block) == BLOCK_BYTES)
            return 1;
    }
    return 0;
}

int main(void) {
    process_begin();
    free(malloc(BLOCK_BYTES));
    int guarded = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(guards_one());
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        guarded += WEXITSTATUS(status);
    }
    printf("%d of %d\n", guarded, CHILDREN);
    return process_ok();
}
