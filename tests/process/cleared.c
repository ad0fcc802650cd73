/* What was freed cannot be read any more: zero_on_free, and the fill of hardened=2.
 *
 * usage: cleared BYTE    what freed memory is filled with */
#include <stdlib.h>
#include <string.h>

#include "support.h"

static unsigned char filled_with;

static unsigned char *hidden(const void *pointer) {
    __asm__ volatile("" : "+r"(pointer));
    return (unsigned char *)(uintptr_t)pointer;
}

static unsigned char *take(size_t size) {
    unsigned char *block = hidden(malloc(size));
    CHECK(block != NULL);
    memset(block, 'S', size);
    return block;
}

static void check_filled(const unsigned char *at, size_t size) {
    for (size_t i = 0; i < size; i++)
        CHECK(at[i] == filled_with);
}

static void freed(size_t size) {
    unsigned char *block = take(size);
    take(size); /* keeps the slab what it is */
    free(block);
    check_filled(hidden(block), size);
}

static void moved(size_t size) {
    unsigned char *block = take(size);
    unsigned char *larger = hidden(realloc(block, 4 * size + 64));
    CHECK(larger != NULL && larger != block);
    check_filled(hidden(block), size);
    free(larger);
}

/* In place, so that its end goes back without a free. */
static void shrunk(size_t size, size_t to) {
    enum { SLAB_BYTES = 64 * 1024, FILLED_BYTES = 16 * 1024, SEAL_BYTES = 8 };
    unsigned char *block = take(size);
    unsigned char *smaller = hidden(realloc(block, to));
    CHECK(smaller == block);
    size_t kept = (to + SEAL_BYTES + SLAB_BYTES - 1) / SLAB_BYTES * SLAB_BYTES;
    /* Any other byte than zero is for the ends of what is large. */
    check_filled(hidden(block) + kept, filled_with == 0 ? size - kept : FILLED_BYTES);
    free(smaller);
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 2);
    filled_with = (unsigned char)strtoul(argv[1], NULL, 0);
    static const size_t sizes[] = {1, 8, 24, 100, 1000, 5000, 30000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        freed(sizes[i]);
        moved(sizes[i]);
    }
    if (filled_with == 0) {
        freed(100000);
        freed(3 * MIB);
    }
    shrunk(9 * MIB, 3 * MIB);
    shrunk(9 * MIB + 5, 9 * MIB - 64 * KIB);
    shrunk(3 * MIB, MIB + 1);
    return process_ok();
}
