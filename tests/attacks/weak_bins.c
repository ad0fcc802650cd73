/* Fast bins, unsorted chunks, bins and the top chunk; see weak.h. */
#include "weak.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HEAP_BYTES = 256 * 1024 * 1024, HEAP_STEP = 128 * 1024 };

/* Of lists only fd and bk are used. */
static struct chunk unsorted, large, small[SMALL_MAX / CHUNK_STEP + 1];
static struct chunk *fast[FAST_MAX / CHUNK_STEP + 1];
static struct chunk *top;
static char *heap_end; /* what lies beyond is reserved, and never used before */

static void list_init(struct chunk *list) { list->fd = list->bk = list; }

static void list_add(struct chunk *list, struct chunk *chunk) {
    chunk->fd = list->fd;
    chunk->bk = list;
    chunk->fd->bk = chunk;
    list->fd = chunk;
}

/* "Unlink": two writes to wherever the chunk says. */
static void list_remove(struct chunk *chunk) {
    chunk->fd->bk = chunk->bk;
    chunk->bk->fd = chunk->fd;
}

/* The last one, whose predecessor is believed to be in the list, too. */
static struct chunk *list_take_last(struct chunk *list) {
    struct chunk *last = list->bk;
    list->bk = last->bk;
    last->bk->fd = list;
    return last;
}

static struct chunk *list_of(size_t size) {
    return size <= SMALL_MAX ? &small[size / CHUNK_STEP] : &large;
}

static void set_in_use(struct chunk *chunk, size_t size) {
    chunk_at(chunk, size)->size |= PREV_IN_USE;
}

static bool is_in_use(struct chunk *chunk) {
    return (chunk_at(chunk, chunk_size(chunk))->size & PREV_IN_USE) != 0;
}

void bins_init(void) {
    list_init(&unsorted);
    list_init(&large);
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        list_init(&small[i]);
    char *heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (heap == MAP_FAILED)
        abort();
    heap_end = heap + HEAP_STEP;
    top = chunk_at(heap, 0);
    top->size = HEAP_STEP | PREV_IN_USE;
}

/* --- giving ------------------------------------------------------------------ */

static void merge(struct chunk *chunk) {
    size_t size = chunk_size(chunk);
    if ((chunk->size & PREV_IN_USE) == 0) {
        size += chunk->prev_size;
        chunk = (struct chunk *)(void *)((char *)chunk - chunk->prev_size);
        list_remove(chunk);
    }
    struct chunk *next = chunk_at(chunk, size);
    if (next == top) {
        chunk->size = (size + chunk_size(top)) | PREV_IN_USE;
        top = chunk;
        return;
    }
    if (is_in_use(next)) {
        next->size &= ~(size_t)PREV_IN_USE;
    } else {
        list_remove(next);
        size += chunk_size(next);
    }
    chunk->size = size | PREV_IN_USE;
    chunk_at(chunk, size)->prev_size = size;
    list_add(&unsorted, chunk);
}

void bins_give(struct chunk *chunk) {
    size_t size = chunk_size(chunk);
    if (size > FAST_MAX) {
        merge(chunk);
        return;
    }
    chunk->fd = fast[size / CHUNK_STEP];
    fast[size / CHUNK_STEP] = chunk;
}

static void merge_fast(void) {
    for (size_t i = 0; i < sizeof fast / sizeof fast[0]; i++) {
        struct chunk *chunk = fast[i];
        fast[i] = NULL;
        while (chunk != NULL) {
            struct chunk *next = chunk->fd;
            merge(chunk);
            chunk = next;
        }
    }
}

/* --- taking ------------------------------------------------------------------ */

/* Sorts what is unsorted, until a chunk is just right. */
static struct chunk *take_unsorted(size_t size) {
    while (unsorted.bk != &unsorted) {
        struct chunk *chunk = list_take_last(&unsorted);
        if (chunk_size(chunk) == size)
            return chunk;
        list_add(list_of(chunk_size(chunk)), chunk);
    }
    return NULL;
}

static struct chunk *find_best(size_t size) {
    for (size_t i = size / CHUNK_STEP; i < sizeof small / sizeof small[0]; i++) {
        if (small[i].bk != &small[i])
            return small[i].bk;
    }
    struct chunk *best = NULL;
    for (struct chunk *chunk = large.fd; chunk != &large; chunk = chunk->fd) {
        if (chunk_size(chunk) >= size && (best == NULL || chunk->size < best->size))
            best = chunk;
    }
    return best;
}

static struct chunk *take_best(size_t size) {
    struct chunk *chunk = find_best(size);
    if (chunk == NULL)
        return NULL;
    list_remove(chunk);
    size_t rest_size = chunk_size(chunk) - size;
    if (rest_size < CHUNK_MIN) {
        set_in_use(chunk, chunk_size(chunk));
        return chunk;
    }
    struct chunk *rest = chunk_at(chunk, size);
    chunk->size = size | PREV_IN_USE;
    rest->size = rest_size | PREV_IN_USE;
    chunk_at(rest, rest_size)->prev_size = rest_size;
    list_add(&unsorted, rest);
    return chunk;
}

/* When the top does not reach to the end of the heap (who would have changed that?), it is
 * given up as a free chunk, fenced off by two chunks that are always in use. */
static void extend_top(size_t size) {
    size_t bytes = (size + HEAP_STEP + PAGE - 1) / PAGE * PAGE;
    struct chunk *old = top;
    size_t old_size = chunk_size(old);
    if ((char *)old + old_size == heap_end) {
        top->size += bytes;
    } else {
        top = chunk_at(heap_end, 0);
        top->size = bytes | PREV_IN_USE;
        old_size -= (size_t)2 * CHUNK_HEADER;
        old->size = old_size | (old->size & PREV_IN_USE);
        chunk_at(old, old_size)->size = CHUNK_HEADER | PREV_IN_USE;
        chunk_at(old, old_size + CHUNK_HEADER)->size = CHUNK_HEADER | PREV_IN_USE;
        free((char *)old + CHUNK_HEADER);
    }
    heap_end += bytes;
}

static struct chunk *take_top(size_t size) {
    while (chunk_size(top) < size + CHUNK_MIN)
        extend_top(size);
    struct chunk *chunk = top;
    size_t rest_size = chunk_size(top) - size;
    top = chunk_at(chunk, size);
    top->size = rest_size | PREV_IN_USE;
    chunk->size = size | PREV_IN_USE;
    return chunk;
}

struct chunk *bins_take(size_t size) {
    if (size <= FAST_MAX && fast[size / CHUNK_STEP] != NULL) {
        struct chunk *chunk = fast[size / CHUNK_STEP];
        fast[size / CHUNK_STEP] = chunk->fd;
        return chunk;
    }
    struct chunk *chunk = NULL;
    if (size > SMALL_MAX)
        merge_fast();
    else if (list_of(size)->bk != list_of(size))
        chunk = list_take_last(list_of(size));
    if (chunk == NULL)
        chunk = take_unsorted(size);
    if (chunk != NULL) {
        set_in_use(chunk, size);
        return chunk;
    }
    chunk = take_best(size);
    return chunk != NULL ? chunk : take_top(size);
}
