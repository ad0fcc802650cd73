/* realloc moves the pages of large blocks instead of their bytes. Blocks are not always
 * whole pages: what lies beside a block in its last page, or beside where it goes, must
 * stay. Blocks of each size lie in a row, every other one grows, and all are looked at. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { BLOCKS = 6 };

static void fill(char *block, size_t size, int mark) { memset(block, mark, size); }

static void check(const char *block, size_t size, int mark) {
    for (size_t i = 0; i < size; i += 512)
        CHECK(block[i] == mark);
    CHECK(block[size - 1] == mark);
}

static void grow_among_neighbours(size_t size, size_t grown) {
    char *blocks[BLOCKS], *beside[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        beside[i] = malloc(grown);
        CHECK(blocks[i] != NULL && beside[i] != NULL);
        fill(blocks[i], size, 'a' + i);
        beside[i][0] = beside[i][grown - 1] = 'z';
    }
    /* Blocks between those that stay, their pages not there: what realloc likes to take. */
    for (int i = 0; i < BLOCKS; i += 2)
        free(beside[i]);
    process_trim();
    for (int i = 0; i < BLOCKS; i += 2) {
        blocks[i] = realloc(blocks[i], grown);
        CHECK(blocks[i] != NULL);
    }
    for (int i = 0; i < BLOCKS; i++) {
        check(blocks[i], size, 'a' + i);
        if (i % 2 != 0)
            CHECK(beside[i][0] == 'z' && beside[i][grown - 1] == 'z');
        free(blocks[i]);
        if (i % 2 != 0)
            free(beside[i]);
    }
}

int main(void) {
    process_begin();
    for (size_t size = 64 * KIB; size <= 2 * MIB; size += 4 * KIB) {
        grow_among_neighbours(size, size + size / 3);
        grow_among_neighbours(size, size * 2 + 100);
    }
    return process_ok();
}
