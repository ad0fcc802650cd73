/* A heap that falls and grows again and again, in blocks of one size that are given back in the
 * order in which they were taken, has all the memory that it needs once it has been at its highest:
 * later rounds fault hardly any in.
 *
 *   falls_and_grows BYTES    the size of a block */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support.h"

enum { ROUNDS = 12, FIRST_ROUNDS = 4, HEAP_PAGES = 16384, PAGE_BYTES = 4096 };

/* Of the pages of a heap. */
static const long most_faults = HEAP_PAGES / 128;

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static void go_round(char **blocks, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    size_t count = (size_t)HEAP_PAGES * PAGE_BYTES / size;
    char **blocks = malloc(count * sizeof *blocks);
    CHECK(blocks != NULL);
    for (int round = 0; round < FIRST_ROUNDS; round++)
        go_round(blocks, count, size);
    long before = faults();
    for (int round = FIRST_ROUNDS; round < ROUNDS; round++)
        go_round(blocks, count, size);
    long seen = (faults() - before) / (ROUNDS - FIRST_ROUNDS);
    free(blocks);
    if (seen > most_faults)
        fprintf(stderr, "%ld faults a round\n", seen);
    CHECK(seen <= most_faults);
    return process_ok();
}
