/* The places of a pattern are visited in ascending order; their distance says
 * how large the block is:
 *
 *   up to 16 KiB   |wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww|   every byte
 *   up to 1 GiB    |wwww|w---|w---|w---|  ...  |w---|wwww|   a word each 16 KiB
 *   beyond         |wwww|      w       w       w    |wwww|   64 words
 *
 * The first and the last 4 KiB are written in full. */
#include "pattern.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    END = 4096,
    WHOLE_MAX = 16 * 1024, /* written in full up to here */
    STEP = 16 * 1024,
    SPARSE_PLACES = 64,
};
#define SPARSE_MIN ((size_t)1 << 30)

uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The place after offset, which is a multiple of a word. */
static size_t next_place(size_t bytes, size_t offset) {
    size_t last_end = bytes < END ? 0 : (bytes - END) / WORD * WORD;
    if (bytes <= WHOLE_MAX || offset + WORD < END || offset >= last_end)
        return offset + WORD;
    size_t step = bytes < SPARSE_MIN ? STEP : bytes / SPARSE_PLACES / STEP * STEP;
    size_t next = (offset / step + 1) * step;
    return next < last_end ? next : last_end;
}

static uint64_t word_at(uint64_t tag, size_t offset) {
    return (tag ^ offset) * UINT64_C(0xd6e8feb86659fd93);
}

void pattern_fill(unsigned char *start, size_t bytes, uint64_t tag) {
    for (size_t at = 0; at < bytes; at = next_place(bytes, at)) {
        uint64_t word = word_at(tag, at);
        memcpy(start + at, &word, bytes - at < WORD ? bytes - at : WORD);
    }
}

size_t pattern_find_fault(const unsigned char *start, size_t bytes, size_t checked, uint64_t tag) {
    for (size_t at = 0; at < checked; at = next_place(bytes, at)) {
        uint64_t word = word_at(tag, at);
        if (memcmp(start + at, &word, checked - at < WORD ? checked - at : WORD) != 0)
            return at;
    }
    return SIZE_MAX;
}

size_t pattern_find_nonzero(const unsigned char *start, size_t bytes) {
    static const unsigned char zero[WORD];
    for (size_t at = 0; at < bytes; at = next_place(bytes, at)) {
        if (memcmp(start + at, zero, bytes - at < WORD ? bytes - at : WORD) != 0)
            return at;
    }
    return SIZE_MAX;
}
