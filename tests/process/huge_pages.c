/* A heap of so many MiB: what its memory is made of, for the test to judge.
 *
 * usage: huge_pages MEBIBYTES
 *   Prints, full and then after all is freed and trimmed: KiB in huge pages, mappings
 *   of the process, and the advice that the last block's memory was given: hg, nh or -. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { BLOCK_BYTES = 1000, LINE_BYTES = 512 };

static char line[LINE_BYTES];

static size_t huge_kib(void) {
    size_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "AnonHugePages: %zu kB", &kib);
    fclose(file);
    return kib;
}

static const char *advice_at(const void *address) {
    const char *advice = "nowhere";
    bool is_inside = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        size_t low, high;
        if (sscanf(line, "%zx-%zx ", &low, &high) == 2)
            is_inside = (size_t)address - low < high - low;
        if (is_inside && strncmp(line, "VmFlags:", 8) == 0)
            advice = strstr(line, " hg") != NULL ? "hg" : strstr(line, " nh") != NULL ? "nh" : "-";
    }
    fclose(file);
    return advice;
}

static void report(const char *when, const void *address) {
    size_t huge = huge_kib();
    size_t mappings = process_mappings();
    printf("%s %zu %zu %s\n", when, huge, mappings, advice_at(address));
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 2);
    size_t count = strtoul(argv[1], NULL, 10) * MIB / BLOCK_BYTES;
    char **blocks = malloc(count * sizeof *blocks);
    CHECK(blocks != NULL);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    report("full", blocks[count - 1]);
    void *last = blocks[count - 1];
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    process_trim();
    report("trimmed", last);
    free(blocks);
    return process_ok();
}
