/* A bump allocator over chunks of pages.
 *
 *   chunk: | taken ......... | next ->        left | no access |
 *
 * Law 4: metadata never lies in user memory. Chunks are mapped by themselves,
 * with a page without access behind each, so that a run-away write of the
 * program faults before it reaches a descriptor. */
#include "os/metadata.h"

#include "os/memory.h"

enum { CHUNK_BYTES = 256 * 1024 };

struct os_lock os_metadata_lock;

/* Protected by os_metadata_lock. */
static char *next;
static size_t left_bytes;
static size_t taken_bytes;

/* Room for bytes at next, from a new chunk: of the usual size, or just enough
 * where address space is short. What the old chunk had left is forgotten. */
static bool new_chunk(size_t bytes) {
    size_t page = os_page_size();
    size_t usual = align_up(hak_max(bytes, (size_t)CHUNK_BYTES), page);
    size_t sizes[] = {usual, align_up(bytes, page)};
    for (size_t i = 0; i < 2; i++) {
        char *chunk = os_reserve(sizes[i] + page);
        if (chunk == NULL)
            continue;
        if (!os_commit(chunk, sizes[i])) {
            os_unmap(chunk, sizes[i] + page);
            continue;
        }
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

void *os_metadata_take(size_t bytes) {
    bytes = align_up(bytes, HAK_CACHE_LINE);
    void *result = NULL;
    os_lock_acquire(&os_metadata_lock);
    if (bytes >= os_page_size())
        skip_to_page();
    if (bytes <= left_bytes || new_chunk(bytes)) {
        result = next;
        next += bytes;
        left_bytes -= bytes;
        taken_bytes += bytes;
    }
    os_lock_release(&os_metadata_lock);
    return result;
}

size_t os_metadata_bytes(void) {
    os_lock_acquire(&os_metadata_lock);
    size_t bytes = taken_bytes;
    os_lock_release(&os_metadata_lock);
    return bytes;
}
