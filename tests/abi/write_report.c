/* Holds 21,000 blocks of 1,000 bytes and one of 2 GiB, then writes the report
 * named by argv[1] to standard output. For test_reports.py. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hakmem/hakmem.h"

typedef int stats_write_function(int descriptor, enum hak_stats_format format);

static void *blocks[21000];
static void *volatile huge;

static int write_statistics(void) {
    stats_write_function *write_function =
        (stats_write_function *)dlsym(RTLD_DEFAULT, "hak_stats_write");
    if (write_function == NULL)
        return 1;
    return write_function(STDOUT_FILENO, HAK_STATS_JSON) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        blocks[i] = malloc(1000);
        if (blocks[i] == NULL)
            return 1;
        memset(blocks[i], 1, 1000);
    }
    huge = malloc((size_t)2 << 30);
    if (argc != 2 || huge == NULL)
        return 1;
    if (strcmp(argv[1], "malloc_info") == 0)
        return malloc_info(0, stdout) == 0 ? 0 : 1;
    if (strcmp(argv[1], "hak_stats") == 0)
        return write_statistics();
    return 0;
}
