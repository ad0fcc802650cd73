/* What lies behind a block in hardened mode, and what can be told from it. See seal.c, which
 * has what is seldom needed: the rest is inlined into each malloc and free. */
#ifndef HAK_MODES_SEAL_H
#define HAK_MODES_SEAL_H

#include "base/bits.h"

enum {
    SEAL_BYTES = 8, /* the sealed word, at the end of the block's room */
    SEAL_SLACK_BITS = 24,
    SEAL_WHOLE_ROOM = 1024, /* the redzone is looked at as a whole in rooms up to this, */
    SEAL_WORDS = 8,         /* in larger ones so many words of it */
};

#define SEAL_BROKEN SIZE_MAX
#define SEAL_INTACT SIZE_MAX

/* What a sealed word says besides the size: the block is in use; else fill.c has a number for
 * the life in which it was freed. */
#define SEAL_IN_USE UINT64_C(0)

/* Written once, by seal_start. */
struct seal_secrets {
    uint64_t veil[2], tag[2];
};
hak_global struct seal_secrets seal_secrets;

/* Once, before the first block; the secrets are the process's for its life. */
void seal_start(void);

/* What a broken word most likely said, for reports: the only size that fits what is left
 * of it, or SEAL_BROKEN. */
size_t seal_guess(const void *block, size_t room);

/* Blocks are the program's, of whatever type. */
typedef uint64_t __attribute__((may_alias)) seal_word;

hak_inline seal_word *seal_word_at(const void *block, size_t offset) {
    return (seal_word *)((uintptr_t)block + offset); // NOLINT(performance-no-int-to-ptr)
}

/* Both halves of a product: every bit of the result depends on every bit of a and b. */
hak_inline uint64_t seal_mix(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Per block: what its slack is veiled with and its redzone filled with, no byte of it 0. */
hak_inline uint64_t seal_pattern(const void *block) {
    return seal_mix((uintptr_t)block ^ seal_secrets.veil[0], seal_secrets.veil[1]) |
           UINT64_C(0x0101010101010101);
}

hak_inline uint64_t seal_word_for(const void *block, uint64_t pattern, size_t slack,
                                  uint64_t life) {
    uint64_t tag = seal_mix((uintptr_t)block ^ seal_secrets.tag[0],
                            (slack | life << SEAL_SLACK_BITS) ^ seal_secrets.tag[1]);
    uint64_t low = bits_low(SEAL_SLACK_BITS);
    return (tag & ~low) | ((slack ^ pattern) & low);
}

/* Seals a block of room bytes for size of them: size + SEAL_BYTES <= room, a multiple of 16. */
hak_inline void seal_close(void *block, size_t room, size_t size, uint64_t life) {
    size_t slack = room - SEAL_BYTES - size;
    hak_assert(size + SEAL_BYTES <= room && slack <= bits_low(SEAL_SLACK_BITS));
    *seal_word_at(block, room - SEAL_BYTES) =
        seal_word_for(block, seal_pattern(block), slack, life);
}

/* The size that a sealed word tells; SEAL_BROKEN if it is none, or of another life. */
hak_inline size_t seal_size(const void *block, size_t room, uint64_t life) {
    uint64_t word = *seal_word_at(block, room - SEAL_BYTES);
    uint64_t pattern = seal_pattern(block);
    uint64_t slack = (word ^ pattern) & bits_low(SEAL_SLACK_BITS);
    if (hak_unlikely(slack > room - SEAL_BYTES ||
                     word != seal_word_for(block, pattern, slack, life)))
        return SEAL_BROKEN;
    return room - SEAL_BYTES - slack;
}

/* The words that hold the part of the redzone that is looked at end here; they begin with that
 * of its first byte. */
hak_inline size_t seal_redzone_end(size_t room, size_t size) {
    size_t end = room - SEAL_BYTES;
    size_t most = align_down(size, SEAL_BYTES) + (size_t)SEAL_WORDS * SEAL_BYTES;
    return room <= SEAL_WHOLE_ROOM ? end : hak_min(end, most);
}

/* The bytes of the first word that are the redzone's. */
hak_inline uint64_t seal_first_mask(size_t size) { return UINT64_MAX << size % SEAL_BYTES * 8; }

/* As seal_close for a block in use, and the redzone between is filled. */
hak_inline void seal_guard(void *block, size_t room, size_t size) {
    hak_assert(size + SEAL_BYTES <= room && room - size <= bits_low(SEAL_SLACK_BITS));
    uint64_t pattern = seal_pattern(block);
    uint64_t mask = seal_first_mask(size);
    size_t end = seal_redzone_end(room, size);
    for (size_t at = align_down(size, SEAL_BYTES); at < end; at += SEAL_BYTES) {
        seal_word *word = seal_word_at(block, at);
        *word = (*word & ~mask) | (pattern & mask);
        mask = UINT64_MAX;
    }
    /* The pattern is had once: what is written above might be the secrets, for the compiler. */
    *seal_word_at(block, room - SEAL_BYTES) =
        seal_word_for(block, pattern, room - SEAL_BYTES - size, SEAL_IN_USE);
}

/* The offset from the block of the first byte that is not as it was filled, or SEAL_INTACT. */
hak_inline size_t seal_damage(const void *block, size_t room, size_t size) {
    uint64_t pattern = seal_pattern(block);
    uint64_t mask = seal_first_mask(size);
    size_t end = seal_redzone_end(room, size);
    for (size_t at = align_down(size, SEAL_BYTES); at < end; at += SEAL_BYTES) {
        uint64_t changed = (*seal_word_at(block, at) ^ pattern) & mask;
        if (hak_unlikely(changed != 0))
            return at + bit_lowest(changed) / 8;
        mask = UINT64_MAX;
    }
    return SEAL_INTACT;
}

#endif
