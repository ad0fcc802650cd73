/* Blocks over 1 MiB have no bins, and each of them counts for guard sampling, however it is asked
 * for. No look at the clock: it ends when one of each kind was guarded, or is ended from outside.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { BYTES = 1100 * 1024 + 16, ALIGNMENT = 4096 };

static void *plain(void) { return malloc(BYTES); }
static void *zeroed(void) { return calloc(1, BYTES); }
static void *aligned(void) { return aligned_alloc(ALIGNMENT, BYTES); }

/* Others have whole slabs; a guarded one what was asked for, or the multiple of the alignment. */
static int is_guarded(void *block) { return malloc_usable_size(block) < BYTES + ALIGNMENT; }

/* All of it is the program's. */
static void use(char *block, int must_be_zero) {
    CHECK(block != NULL);
    CHECK(!must_be_zero || (block[0] == 0 && memcmp(block, block + 1, BYTES - 1) == 0));
    memset(block, 1, BYTES);
}

int main(void) {
    process_begin();
    void *(*const kinds[])(void) = {plain, zeroed, aligned};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int found = 0;
        while (!found) {
            void *block = kinds[i]();
            found = is_guarded(block);
            if (found)
                use(block, kinds[i] == zeroed);
            CHECK(kinds[i] != aligned || (size_t)block % ALIGNMENT == 0);
            free(block);
        }
    }
    return process_ok();
}
