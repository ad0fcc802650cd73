/* malloc and free of the weak allocator, with its cache and its mapped chunks; see weak.h.
 *
 *   heap  | header | counts[64] | entries[64] | chunk | chunk | ...
 *
 * The cache's heads lie where programs can write to them, and each block in it names them in
 * its second word. */
#include "weak.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CACHE_LISTS = 64,
    CACHE_BLOCKS = 7,
    MAPPED_FROM = 128 * 1024, /* bytes of a chunk that gets a mapping */
};

struct cached {
    struct cached *next;
    struct cache *cache;
};

struct cache {
    uint16_t counts[CACHE_LISTS];
    struct cached *entries[CACHE_LISTS];
};

static struct cache *cache;

static struct chunk *chunk_of(void *block) {
    return (struct chunk *)(void *)((char *)block - CHUNK_HEADER);
}

static void *block_of(struct chunk *chunk) { return (char *)chunk + CHUNK_HEADER; }

/* A request like SIZE_MAX wraps round: that, too, was believed. */
static size_t size_for(size_t bytes) {
    size_t size = (bytes + sizeof(size_t) + CHUNK_STEP - 1) & ~(size_t)(CHUNK_STEP - 1);
    return size < CHUNK_MIN ? CHUNK_MIN : size;
}

static size_t list_for(size_t size) { return (size - CHUNK_MIN) / CHUNK_STEP; }

static void start(void) {
    bins_init();
    cache = block_of(bins_take(size_for(sizeof *cache)));
}

static void *take_mapped(size_t size) {
    size = (size + sizeof(size_t) + PAGE - 1) & ~(size_t)(PAGE - 1);
    struct chunk *chunk =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED)
        return NULL;
    chunk->size = size | IS_MAPPED;
    return block_of(chunk);
}

static void *take_behind_cache(size_t size) {
    /* Sizes near SIZE_MAX are distances backwards, by which the top is moved. */
    bool is_mapped = size >= MAPPED_FROM && size < PTRDIFF_MAX;
    return is_mapped ? take_mapped(size) : block_of(bins_take(size));
}

void *malloc(size_t bytes) {
    if (cache == NULL)
        start();
    size_t list = list_for(size_for(bytes));
    struct cached *block = list < CACHE_LISTS ? cache->entries[list] : NULL;
    if (block == NULL)
        return take_behind_cache(size_for(bytes));
    cache->entries[list] = block->next;
    cache->counts[list]--;
    return block;
}

void free(void *block) {
    if (block == NULL)
        return;
    struct chunk *chunk = chunk_of(block);
    size_t list = list_for(chunk_size(chunk));
    if ((chunk->size & IS_MAPPED) != 0) {
        munmap((char *)chunk - chunk->prev_size, chunk->prev_size + chunk_size(chunk));
    } else if (list < CACHE_LISTS && cache->counts[list] < CACHE_BLOCKS) {
        struct cached *cached = block;
        cached->next = cache->entries[list];
        cached->cache = cache;
        cache->entries[list] = cached;
        cache->counts[list]++;
    } else {
        bins_give(chunk);
    }
}

/* Not out of the cache, as in glibc. */
void *calloc(size_t count, size_t bytes) {
    if (cache == NULL)
        start();
    void *block = take_behind_cache(size_for(count * bytes));
    return block == NULL ? NULL : memset(block, 0, count * bytes);
}

size_t malloc_usable_size(void *block) {
    struct chunk *chunk = chunk_of(block);
    bool is_mapped = (chunk->size & IS_MAPPED) != 0;
    return chunk_size(chunk) - (is_mapped ? CHUNK_HEADER : sizeof(size_t));
}

void *realloc(void *block, size_t bytes) {
    void *moved = malloc(bytes);
    if (block == NULL || moved == NULL)
        return moved;
    size_t kept = malloc_usable_size(block);
    memcpy(moved, block, kept < bytes ? kept : bytes);
    free(block);
    return moved;
}
