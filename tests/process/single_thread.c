/* A program without threads stays one: libc takes faster ways in it, and fork
 * has nothing to fear. Its address space stays in few pieces, too: the kernel
 * allows 65,530 mappings, and a mapping a block would use them up. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "support.h"

/* Takes blocks of one size, then gives back all but every tenth, so that free
 * and used memory alternate as often as can be. */
static void leave_holes(size_t size, size_t total) {
    size_t count = total / size;
    char **blocks = malloc(count * sizeof *blocks);
    CHECK(blocks != NULL);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size < 4096 ? size : 4096);
    }
    for (size_t i = 0; i < count; i++) {
        if (i % 10 != 0)
            free(blocks[i]);
    }
    malloc_trim(0);
    free(blocks);
}

int main(void) {
    process_begin();
    size_t mappings = process_mappings();
    static const size_t sizes[] = {40, 3000, 30000, 70000, 600000, 3 << 20};
    for (size_t i = 0; i < 6; i++)
        leave_holes(sizes[i], 300 * MIB);
    CHECK(traffic_run(1, 100000));
    usleep(100000);
    CHECK(traffic_run(2, 100000));
    CHECK(__libc_single_threaded);
    CHECK(process_status("Threads") == 1);
    CHECK(process_mappings() < mappings + 500);
    return process_ok();
}
