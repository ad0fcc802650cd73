/* An allocator with the weaknesses that the published attacks were written for: the shape of
 * dlmalloc and of glibc before it checked anything. Not for use. Single-threaded.
 *
 *   chunk ->  | prev_size          |   of the chunk before, if that is free; else its last word
 *             | size         |M|P| |   P: the chunk before is in use, M: a mapping of its own
 *   block ->  | fd                 |   free: the neighbours in its list;
 *             | bk                 |   in use: the program's, like all that follows
 *             | ...                |
 *   chunk ->  | prev_size ...
 *
 * All of this is believed as it is found. A freed block goes to the first of these that
 * takes it:
 *
 *   cache      lists of up to 7 blocks of each size up to 1 KiB; their heads lie in the
 *              heap's first chunk (weak_malloc.c)
 *   fast bins  lists of chunks up to 128 bytes, which keep their P bits (weak_bins.c)
 *   unsorted   merged with free neighbours; sorted into bins when malloc next looks
 *   top        the chunk that reaches to the heap's end */
#ifndef TESTS_ATTACKS_WEAK_H
#define TESTS_ATTACKS_WEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHUNK_HEADER = 16,
    CHUNK_MIN = 32,
    CHUNK_STEP = 16,
    PREV_IN_USE = 1,
    IS_MAPPED = 2,
    FLAGS = 15,
    FAST_MAX = 128,   /* bytes of a chunk in a fast bin */
    SMALL_MAX = 1008, /* bytes of a chunk in a bin of its own size */
    PAGE = 4096,
};

struct chunk {
    size_t prev_size;
    size_t size;
    struct chunk *fd, *bk;
};

static inline struct chunk *chunk_at(void *start, size_t offset) {
    return (struct chunk *)(void *)((char *)start + offset);
}

static inline size_t chunk_size(const struct chunk *chunk) { return chunk->size & ~(size_t)FLAGS; }

/* Every list empty, and the top chunk at the start of the heap. */
void bins_init(void);

/* A chunk of so many bytes, in use. The heap does not run out. */
struct chunk *bins_take(size_t size);
void bins_give(struct chunk *chunk);

#endif
