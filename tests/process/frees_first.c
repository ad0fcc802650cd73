/* In each step two sizes whose first call after a slow one is a free, as blocks are replaced. The
 * sampling parks bins in that slow call, so it is these frees that find out when a block is to be
 * guarded: it has to be one of the same size, and not whoever makes the next slow call.
 *
 * Prints how many were guarded of each size, and of a third one, whose first call is a malloc. */
#include <malloc.h>
#include <stdlib.h>

#include "support.h"

enum { SIZES = 3, BLOCKS = 60, GUARDED_AT_LEAST = 100, SLOW_BYTES = 2 * 1024 * 1024 };

static const size_t sizes[SIZES] = {20, 50, 100};
static void *blocks[SIZES][BLOCKS];

/* Whether one of them is guarded: the usable size of such a block is what was asked for. */
static unsigned take_all(unsigned i) {
    unsigned guarded = 0;
    for (unsigned k = 0; k < BLOCKS; k++) {
        blocks[i][k] = malloc(sizes[i]);
        guarded += malloc_usable_size(blocks[i][k]) == sizes[i];
    }
    return guarded;
}

static void give(unsigned i, unsigned from, unsigned to) {
    for (unsigned k = from; k < to; k++)
        free(blocks[i][k]);
}

int main(void) {
    process_begin();
    unsigned guarded[SIZES] = {0};
    while (guarded[0] + guarded[1] + guarded[2] < GUARDED_AT_LEAST) {
        free(malloc(SLOW_BYTES));
        for (unsigned i = 0; i < 2; i++) {
            give(i, 0, 1);
            guarded[i] += take_all(i);
            give(i, 1, BLOCKS);
        }
        guarded[2] += take_all(2);
        give(2, 0, BLOCKS);
    }
    printf("%u %u %u\n", guarded[0], guarded[1], guarded[2]);
    return process_ok();
}
