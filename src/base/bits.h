/* Words as sets of small numbers. */
#ifndef HAK_BASE_BITS_H
#define HAK_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum { WORD_BITS = 64 };

hak_inline unsigned bit_count(uint64_t word) { return (unsigned)__builtin_popcountll(word); }

/* Both undefined for 0. */
hak_inline unsigned bit_lowest(uint64_t word) { return (unsigned)__builtin_ctzll(word); }
hak_inline unsigned bit_highest(uint64_t word) {
#if defined(__x86_64__)
    if (!__builtin_constant_p(word)) {
        /* BSR leaves its result as it was for 0, and so waits for whoever wrote that register
         * last; a compiler takes any. Here it is the one that it waits for anyway. */
        __asm__("bsrq %0, %0" : "+r"(word) : : "cc");
        return (unsigned)word;
    }
#endif
    return 63u - (unsigned)__builtin_clzll(word);
}

/* The lowest n bits set, n <= 64. */
hak_inline uint64_t bits_low(unsigned n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

/* n bits set from bit at on; at + n <= 64. */
hak_inline uint64_t bits_range(unsigned at, unsigned n) { return bits_low(n) << at; }

/* Bitmaps: bit i of a set is bit i % 64 of word i / 64. */
hak_inline bool bitmap_get(const uint64_t *map, size_t i) {
    return (map[i / WORD_BITS] >> (i % WORD_BITS)) & 1;
}
hak_inline void bitmap_set(uint64_t *map, size_t i) {
    map[i / WORD_BITS] |= UINT64_C(1) << (i % WORD_BITS);
}
hak_inline void bitmap_clear(uint64_t *map, size_t i) {
    map[i / WORD_BITS] &= ~(UINT64_C(1) << (i % WORD_BITS));
}

/* Whether bits [first, first + count) are all set. */
hak_inline bool bitmap_has_all(const uint64_t *map, size_t first, size_t count) {
    while (count != 0) {
        unsigned at = first % WORD_BITS;
        unsigned part = (unsigned)hak_min(count, (size_t)(WORD_BITS - at));
        if ((~map[first / WORD_BITS] & bits_range(at, part)) != 0)
            return false;
        first += part;
        count -= part;
    }
    return true;
}

/* Whether some of bits [first, first + count) are set. */
hak_inline bool bitmap_has_any(const uint64_t *map, size_t first, size_t count) {
    uint64_t found = 0;
    while (count != 0) {
        unsigned at = first % WORD_BITS;
        unsigned part = (unsigned)hak_min(count, (size_t)(WORD_BITS - at));
        found |= map[first / WORD_BITS] & bits_range(at, part);
        first += part;
        count -= part;
    }
    return found != 0;
}

/* Sets or clears bits [first, first + count); false if some were so already. */
hak_inline bool bitmap_change(uint64_t *map, size_t first, size_t count, bool set) {
    bool all_changed = true;
    while (count != 0) {
        unsigned at = first % WORD_BITS;
        unsigned part = (unsigned)hak_min(count, (size_t)(WORD_BITS - at));
        uint64_t range = bits_range(at, part);
        uint64_t *word = &map[first / WORD_BITS];
        all_changed &= (*word & range) == (set ? 0 : range);
        *word = set ? *word | range : *word & ~range;
        first += part;
        count -= part;
    }
    return all_changed;
}

/* The positions at which n set bits in a row begin, n >= 1: bit i of the result
 * is set if bits i .. i+n-1 of word are. Doubles the length at each step. */
hak_inline uint64_t bits_runs(uint64_t word, unsigned n) {
    unsigned have = 1;
    while (have < n && word != 0) {
        unsigned step = hak_min(have, n - have);
        word &= word >> step;
        have += step;
    }
    return word;
}

#endif
