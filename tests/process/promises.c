/* What a kernel with vm.overcommit_memory=2 would have to promise: private writable
 * memory, whether it is touched or not. Prints how many KiB that is at the start, with
 * blocks of MEBIBYTES in use, and when they have gone again. With a huge alignment too,
 * of which the slack is nobody's memory.
 *
 * usage: promises MEBIBYTES */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static size_t promised_kib(void) {
    static char line[512];
    size_t total = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        char *at;
        uintptr_t start = strtoul(line, &at, 16), stop = strtoul(at + 1, &at, 16);
        if (at[2] == 'w' && at[4] == 'p')
            total += stop - start;
    }
    CHECK(fclose(maps) == 0);
    return total / KIB;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    hang_guard();
    free(malloc(100));
    printf("start %zu\n", promised_kib());
    enum { SIZES = 4 };
    static const size_t sizes[SIZES] = {64, 4000, 90000, 3 << 20};
    size_t wanted = strtoul(argv[1], NULL, 10) * MIB / SIZES;
    char **blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        size_t count = wanted / sizes[i];
        CHECK((blocks[i] = malloc(count * sizeof *blocks[i])) != NULL);
        for (size_t b = 0; b < count; b++) {
            CHECK((blocks[i][b] = malloc(sizes[i])) != NULL);
            blocks[i][b][0] = 1;
        }
    }
    printf("grown %zu\n", promised_kib());
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t b = 0; b < wanted / sizes[i]; b++)
            free(blocks[i][b]);
        free(blocks[i]);
    }
    char *huge = aligned_alloc(GIB, GIB);
    printf("huge %zu\n", huge == NULL ? 0 : promised_kib());
    free(huge);
    return process_ok();
}
