/* Bugs for tools to find. It goes on after them: who finds none sees it end well.
 *
 * usage: planted none | use-after-free | leak | uninitialised */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { BLOCK_BYTES = 100 };

// NOLINTBEGIN(clang-analyzer-*): these are the bugs
static void use_after_free(void) {
    volatile char *block = malloc(BLOCK_BYTES);
    CHECK(block != NULL);
    free((void *)block);
    (void)block[10];
}

static void leak(void) {
    void *volatile block = malloc(BLOCK_BYTES);
    CHECK(block != NULL);
    block = NULL;
}

static void use_what_nobody_wrote(void) {
    volatile char *block = malloc(BLOCK_BYTES);
    CHECK(block != NULL);
    if (block[10] == 'x')
        fputs("x\n", stderr);
    free((void *)block);
}
// NOLINTEND(clang-analyzer-*)

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "use-after-free") == 0)
        use_after_free();
    else if (strcmp(argv[1], "leak") == 0)
        leak();
    else if (strcmp(argv[1], "uninitialised") == 0)
        use_what_nobody_wrote();
    else
        CHECK(strcmp(argv[1], "none") == 0);
    return process_ok();
}
