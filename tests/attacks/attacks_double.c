/* Blocks given back twice. A list of free blocks then holds a block two times, or a block of a
 * list becomes part of another; and who is handed it owns links that the allocator follows. */
#include "attack.h"

static void tcache_dup(void) {
    void *a = take(40);
    give(a);
    give(a);
    take(40);
    take(40);
}

/* Modern caches mark a block in its second word, by which they know it when it comes again. */
static void tcache_double_free_by_key(void) {
    word *a = take(40);
    give(a);
    a[1] ^= 1;
    give(a);
    take(40);
    take(40);
}

/* A fast bin compares with its newest block only: another comes between. */
static void fastbin_dup(void) {
    struct filler filler = filler_take(88);
    void *a = take(88);
    void *b = take(88);
    filler_give(&filler);
    give(a);
    give(b);
    give(a);
    take_zeroed(88);
    take_zeroed(88);
    take_zeroed(88);
}

/* The block is in use and in the bin: its link is the program's to write. */
static void fastbin_dup_into_stack(void) {
    _Alignas(16) word stack[16] = {0, 96};
    forbid(stack, sizeof stack);
    struct filler filler = filler_take(88);
    void *a = take(88);
    void *b = take(88);
    filler_give(&filler);
    give(a);
    give(b);
    give(a);
    word *twice = take_zeroed(88);
    if (twice == NULL)
        return;
    *twice = link_at(twice, stack);
    take_zeroed(88);
    take_zeroed(88);
    take_zeroed(88);
}

/* A large request merges what the fast bins hold with the top chunk, and is served from
 * there: the stale pointer now is the large block's. */
static void fastbin_dup_consolidate(void) {
    struct filler filler = filler_take(64);
    filler_give(&filler);
    void *stale = take_zeroed(64);
    give(stale);
    take(1024);
    give_stale(stale);
    take(1024);
}

/* Takes a block from the cache, but not the one that is about to be given back again. */
static void make_room(size_t size, const void *victim) {
    for (int i = 0; i < 100; i++) {
        void *block = take(size);
        if (block != victim)
            return;
        give(block);
    }
}

/* A block inside a larger free one goes to the cache, too: it is handed out from both, and
 * the owner of the larger writes the link of the smaller. */
static void house_of_botcake(void) {
    _Alignas(16) static word target[64];
    forbid(target, sizeof target);
    struct filler filler = filler_take(256);
    char *low = take(256);
    char *victim = take(256);
    take(24);
    filler_give(&filler);
    give(victim);
    give(low);
    make_room(256, victim);
    give(victim);
    char *large = take(288);
    if (large == NULL || large != low)
        return;
    *(word *)(void *)victim = link_at(victim, target);
    take(256);
    take(256);
}

const struct attack attacks_double[] = {
    {"tcache_dup", tcache_dup},
    {"tcache_double_free_by_key", tcache_double_free_by_key},
    {"fastbin_dup", fastbin_dup},
    {"fastbin_dup_into_stack", fastbin_dup_into_stack},
    {"fastbin_dup_consolidate", fastbin_dup_consolidate},
    {"house_of_botcake", house_of_botcake},
    {NULL, NULL},
};
