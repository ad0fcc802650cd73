/* Pointers given back that never were blocks, with what looks like a chunk around them. The
 * "houses of spirit": the fake is handed out as the next block. */
#include "attack.h"

static void make_chunk(word *at, size_t size) {
    at[1] = size;
    at[size / sizeof(word) + 1] = 2 * size; /* the next chunk's size: any that may be */
}

static void tcache_house_of_spirit(void) {
    _Alignas(16) word stack[24] = {0};
    make_chunk(stack, 64);
    take(24); /* there is a heap */
    forbid(stack, sizeof stack);
    give(&stack[2]);
    take(48);
}

static void house_of_spirit(void) {
    _Alignas(16) word stack[24] = {0};
    make_chunk(stack, 64);
    struct filler filler = filler_take(48);
    filler_give(&filler);
    forbid(stack, sizeof stack);
    give(&stack[2]);
    take_zeroed(48);
}

static void house_of_spirit_in_static_memory(void) {
    _Alignas(16) static word fake[24];
    make_chunk(fake, 64);
    take(24);
    forbid(fake, sizeof fake);
    give(&fake[2]);
    take(48);
}

/* Inside a block, the fake is handed out while the block is in use. */
static void free_of_an_interior_pointer(void) {
    word *block = take(248);
    if (block == NULL)
        return;
    make_chunk(&block[4], 64);
    give(&block[6]);
    take(48);
}

/* Behind all blocks, the fake is handed out while blocks are still to be cut from there. */
static void free_of_a_pointer_behind_blocks(void) {
    word *block = take(248);
    if (block == NULL)
        return;
    word *fake = &block[36];
    make_chunk(fake, 64);
    give(&fake[2]);
    take(48);
    take(248);
}

static void free_of_an_interior_pointer_of_pages(void) {
    enum { SIZE = 3 << 20 };
    word *block = take(SIZE);
    if (block == NULL)
        return;
    make_chunk(&block[SIZE / 16], 64);
    give(&block[SIZE / 16 + 2]);
    take(48);
}

const struct attack attacks_fake[] = {
    {"tcache_house_of_spirit", tcache_house_of_spirit},
    {"house_of_spirit", house_of_spirit},
    {"house_of_spirit_in_static_memory", house_of_spirit_in_static_memory},
    {"free_of_an_interior_pointer", free_of_an_interior_pointer},
    {"free_of_a_pointer_behind_blocks", free_of_a_pointer_behind_blocks},
    {"free_of_an_interior_pointer_of_pages", free_of_an_interior_pointer_of_pages},
    {NULL, NULL},
};
