/* A block longer than a SuperSlab needs whole ones side by side. Blocks of up to 1 MiB that are in
 * a thread's bins, a few in number, must not stand in its way, and neither must guarded blocks: the
 * heap would grow by as much.
 *
 *   long_blocks ROUNDS [bins]    so many times 32 such blocks before; some stay in bins */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { SIZES = 32 };
static const size_t smallest = 64 * KIB, largest = MIB;
/* What lies in bins, and the program itself. */
static const size_t slack_kib = 6 * KIB;

static char *take(size_t i) {
    size_t size = smallest + (largest - smallest) / SIZES * (i + 1);
    char *volatile block = malloc(size); /* no compiler leaves out what is freed at once */
    CHECK(block != NULL);
    memset(block, 1, size);
    return block;
}

/* One block of each size at a time, all in memory. */
static void fill(char **blocks) {
    for (size_t i = 0; i < SIZES; i++)
        blocks[i] = take(i);
}

/* A size that comes again and again has a bin, and keeps a block there: of some sizes where it is,
 * for what lies lower is still in use. */
static void leave_some_in_bins(char **blocks) {
    fill(blocks);
    for (size_t i = SIZES; i-- > 0;) {
        free(blocks[i]);
        for (int times = 0; times < 20 && i % 5 == 4; times++)
            free(take(i));
    }
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc > 1);
    unsigned long rounds = strtoul(argv[1], NULL, 10);
    char *blocks[SIZES];
    for (unsigned long round = 0; round < rounds; round++) {
        fill(blocks);
        for (size_t i = 0; i < SIZES; i++)
            free(blocks[i]);
    }
    if (argc > 2 && strcmp(argv[2], "bins") == 0)
        leave_some_in_bins(blocks);
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
