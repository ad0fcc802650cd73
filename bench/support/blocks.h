/* Blocks that know their size, and the sizes that programs ask for.
 *
 * The first word of a block holds its size and 32 random bits, the last word the
 * same; each page in between is written too, so that what a driver holds is
 * resident and not only reserved. Whoever gives a block back, perhaps another
 * thread, reads both words for the checksum and needs no table of sizes.
 *
 *   word   | 32 random bits | size in bytes, 32 bits |
 */
#ifndef BENCH_BLOCKS_H
#define BENCH_BLOCKS_H

#include "support/driver.h"
#include "support/random.h"

#include <stdint.h>
#include <stdlib.h>

enum { BLOCKS_SMALLEST_BYTES = 16, BLOCKS_PAGE_BYTES = 4096 };

/* A size of 2^low to 2^(low + octaves) bytes; each doubling is as likely as the next, which is what
 * the sizes of most programs look like. */
static inline uint32_t blocks_size(uint64_t bits, uint32_t low, uint32_t octaves) {
    uint32_t octave = low + random_scale(random_high(bits), octaves);
    return (UINT32_C(1) << octave) + random_scale(random_low(bits), UINT32_C(1) << octave);
}

/* Mostly 16 bytes to 1 KiB; one in 23 up to 32 KiB, one in 256 up to 256 KiB. By bytes that is
 * about a fifth in small blocks, and two fifths each in middle and large ones. */
static inline uint32_t blocks_mixed_size(uint64_t bits) {
    uint32_t kind = (uint32_t)bits & 255;
    if (__builtin_expect(kind < 244, 1)) {
        return blocks_size(bits, 4, 6);
    }
    return kind < 255 ? blocks_size(bits, 10, 5) : blocks_size(bits, 15, 3);
}

static inline void *blocks_take(uint32_t size_bytes, uint64_t bits) {
    char *block = driver_check(malloc(size_bytes));
    uint64_t word = (bits & ~(uint64_t)UINT32_MAX) | size_bytes;
    for (uint32_t at = 0; at + sizeof word <= size_bytes; at += BLOCKS_PAGE_BYTES) {
        *(volatile uint64_t *)(block + at) = word;
    }
    __builtin_memcpy(block + size_bytes - sizeof word, &word, sizeof word);
    return block;
}

static inline uint32_t blocks_bytes(const void *block) {
    return (uint32_t)driver_first_word(block);
}

/* Gives the block back and returns what it held, for the checksum. */
static inline uint64_t blocks_give(void *block) {
    uint64_t word = driver_first_word(block);
    uint64_t last;
    __builtin_memcpy(&last, (char *)block + (uint32_t)word - sizeof last, sizeof last);
    free(block);
    return word + 3 * last;
}

#endif
