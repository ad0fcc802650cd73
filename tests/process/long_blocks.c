/* A block longer than a SuperSlab needs whole ones side by side. Blocks of up to 1 MiB that are in
 * a thread's bins, a few in number, must not stand in its way, and neither must guarded blocks: the
 * heap would grow by as much.
 *
 *   long_blocks [ROUNDS]    so many times 32 such blocks before */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { SIZES = 32 };
static const size_t smallest = 64 * KIB, largest = MIB;
/* What lies in bins, and the program itself. */
static const size_t slack_kib = 6 * KIB;

/* One block of each size at a time, all in memory. */
static void fill(char **blocks) {
    for (size_t i = 0; i < SIZES; i++) {
        size_t size = smallest + (largest - smallest) / SIZES * (i + 1);
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
}

int main(int argc, char **argv) {
    process_begin();
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
    char *blocks[SIZES];
    for (unsigned long round = 0; round < rounds; round++) {
        fill(blocks);
        for (size_t i = 0; i < SIZES; i++)
            free(blocks[i]);
    }
    size_t peak_kib = process_status("VmHWM");
    size_t size = peak_kib * KIB / 4 * 3;
    char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 2, size);
    size_t now_kib = process_status("VmHWM");
    free(block);
    if (now_kib >= peak_kib + slack_kib)
        fprintf(stderr, "%zu KiB at the most, then %zu KiB\n", peak_kib, now_kib);
    CHECK(now_kib < peak_kib + slack_kib);
    return process_ok();
}
