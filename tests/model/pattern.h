/* What a test writes into its blocks, so that it can tell later whether someone
 * else wrote there too: each block has a tag, each place in it a value made of
 * the tag and the offset.
 *
 * Small blocks are written in full; larger ones at their ends and at places in
 * between, few enough that a test can afford gigabytes. */
#ifndef HAK_TESTS_MODEL_PATTERN_H
#define HAK_TESTS_MODEL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014): the tests' only randomness. */
uint64_t random_next(uint64_t *state);

void pattern_fill(unsigned char *start, size_t bytes, uint64_t tag);

/* Where a block filled over `bytes` differs from its pattern below `checked`;
 * SIZE_MAX: nowhere. */
size_t pattern_find_fault(const unsigned char *start, size_t bytes, size_t checked, uint64_t tag);

/* The first byte that is not 0, looked for at the places that pattern_fill
 * writes; SIZE_MAX: none. */
size_t pattern_find_nonzero(const unsigned char *start, size_t bytes);

#endif
