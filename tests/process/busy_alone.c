/* A program without threads whose blocks come back to where they were with each step: no bin ever
 * is empty or full. As long as it makes a slow call now and then, here for a block that has no bin,
 * its blocks are sampled all the same.
 *
 * No look at the clock: it ends when one was guarded, or is ended from outside. */
#include <malloc.h>
#include <stdlib.h>

#include "support.h"

enum { BLOCK_BYTES = 50, PAIRS = 10000, SLOW_BYTES = 2 * 1024 * 1024 };

int main(void) {
    process_begin();
    size_t guarded = 0;
    while (guarded == 0) {
        free(malloc(SLOW_BYTES));
        for (int i = 0; i < PAIRS; i++) {
            void *volatile block = malloc(BLOCK_BYTES);
            /* The usable size of a guarded block is what was asked for. */
            guarded += malloc_usable_size(block) == BLOCK_BYTES;
            free(block);
        }
    }
    return process_ok();
}
