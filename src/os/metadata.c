/* A bump allocator over chunks of pages.
 *
 *   chunk: | no access | taken ......... | next ->        left | no access |
 *
 * Law 4: metadata never lies in user memory. Chunks are mapped by themselves, between
 * pages without access: the kernel puts one mapping beside another, and a run-away write of the
 * program, upwards or downwards, faults before it reaches a descriptor. */
#include "os/metadata.h"

#include "os/memory.h"

enum {
    CHUNK_BYTES = 256 * 1024, /* at least */
    GROWTH_PARTS = 8,         /* of which one is added at a time */
    CHUNKS_MAX = 128,         /* that are remembered: more than 1 TiB of heap needs */
};

struct os_lock os_metadata_lock;

/* Protected by os_metadata_lock. */
static char *next;
static size_t left_bytes;

/* Where chunks lie. Written under the lock, the count last. */
static struct {
    uintptr_t start;
    size_t bytes;
} chunks[CHUNKS_MAX];
static _Atomic size_t chunk_count;

/* Written under the lock. */
static _Atomic size_t taken_bytes;
_Atomic size_t os_metadata_used;

static void count(_Atomic size_t *counter, size_t bytes) {
    size_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + bytes, memory_order_relaxed);
}

static void remember(char *chunk, size_t bytes) {
    size_t i = atomic_load_explicit(&chunk_count, memory_order_relaxed);
    if (i == CHUNKS_MAX)
        return;
    chunks[i].start = (uintptr_t)chunk;
    chunks[i].bytes = bytes;
    /* Pairs with the acquire in os_metadata_contains. */
    atomic_store_explicit(&chunk_count, i + 1, memory_order_release);
}

bool os_metadata_contains(uintptr_t address) {
    size_t count_now = atomic_load_explicit(&chunk_count, memory_order_acquire);
    for (size_t i = 0; i < count_now; i++) {
        if (address - chunks[i].start < chunks[i].bytes)
            return true;
    }
    return false;
}

/* Room for bytes at next, from a new chunk: of the usual size, or just enough
 * where address space is short. What the old chunk had left is forgotten. Each chunk
 * is two mappings, for its page of no access is one with the next chunk's where they lie side by
 * side, and a process may have 65,530: so chunks grow with what there
 * is already, and a heap of 1 TiB has under a hundred. Its two calls into the kernel are
 * made under the lock, for whoever else waits here needs the same chunk. */
static bool new_chunk(size_t bytes) {
    size_t page = os_page_size();
    size_t grown = atomic_load_explicit(&taken_bytes, memory_order_relaxed) / GROWTH_PARTS;
    size_t usual = align_up(hak_max(bytes, hak_max(grown, (size_t)CHUNK_BYTES)), page);
    size_t sizes[] = {usual, align_up(bytes, page)};
    for (size_t i = 0; i < 2; i++) {
        char *reserved = os_reserve(page + sizes[i] + page);
        if (reserved == NULL)
            continue;
        char *chunk = reserved + page;
        if (!os_commit(chunk, sizes[i])) {
            os_unmap(reserved, page + sizes[i] + page);
            continue;
        }
        remember(chunk, sizes[i]);
        next = chunk;
        left_bytes = sizes[i];
        return true;
    }
    return false;
}

static void skip_to_page(void) {
    if (left_bytes == 0)
        return;
    size_t skipped = align_up((uintptr_t)next, os_page_size()) - (uintptr_t)next;
    skipped = hak_min(skipped, left_bytes);
    next += skipped;
    left_bytes -= skipped;
}

void *os_metadata_take_sparse(size_t bytes, size_t used) {
    bytes = align_up(bytes, HAK_CACHE_LINE);
    void *result = NULL;
    os_lock_acquire(&os_metadata_lock);
    if (bytes >= os_page_size())
        skip_to_page();
    if (bytes <= left_bytes || new_chunk(bytes)) {
        result = next;
        next += bytes;
        left_bytes -= bytes;
        count(&taken_bytes, bytes);
        count(&os_metadata_used, hak_min(used, bytes));
    }
    os_lock_release(&os_metadata_lock);
    return result;
}

void *os_metadata_take(size_t bytes) { return os_metadata_take_sparse(bytes, bytes); }

size_t os_metadata_bytes(void) { return atomic_load_explicit(&taken_bytes, memory_order_relaxed); }
