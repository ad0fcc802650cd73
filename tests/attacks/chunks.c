#include <malloc.h>
#include <stdbool.h>

#include "attack.h"

word *behind(void *block) { return (word *)(void *)((char *)block + malloc_usable_size(block)); }

word *last_of(void *block) { return behind(block) - 1; }

word *chunk_of(void *block) { return (word *)block - 2; }

/* The last of a list links to nothing: what is written there is the mask. */
static bool are_links_masked(void) {
    word *block = take(24);
    if (block == NULL)
        return false;
    give(block);
    return *block == (word)block >> 12;
}

word link_at(const void *place, const void *to) {
    word mask = are_links_masked() ? (word)place >> 12 : 0;
    return mask ^ (word)to;
}

struct filler filler_take(size_t size) {
    struct filler filler;
    for (size_t i = 0; i < CACHE_BLOCKS; i++)
        filler.blocks[i] = take(size);
    return filler;
}

void filler_give(const struct filler *filler) {
    for (size_t i = 0; i < CACHE_BLOCKS; i++)
        give(filler->blocks[i]);
}
