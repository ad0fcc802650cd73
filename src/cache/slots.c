/* The arrays of slots that bins stack their blocks in. They come in powers of two; what a
 * bin outgrows waits for the next one that needs its size.
 *
 * They are cut from the rest of the own row's page first, then from chunks, each other one
 * twice as large, so that a few pointers lead to all of them: when a thread has no blocks,
 * the pages of its chunks can go. */
#include "cache/bins.h"
#include "os/memory.h"
#include "os/metadata.h"

_Static_assert(SLOT_ARRAY_MAX * sizeof(void *) <= SLOT_CHUNK_MIN_BYTES, "a chunk holds any array");

unsigned slots_kind(unsigned slots) {
    unsigned kind = 0;
    while ((unsigned)SLOT_ARRAY_MIN << kind < slots)
        kind++;
    return kind;
}

static size_t chunk_bytes(unsigned chunk) { return (size_t)SLOT_CHUNK_MIN_BYTES << chunk / 2; }

static bool next_chunk(struct thread *thread) {
    unsigned chunk = thread->chunks_used;
    if (chunk == SLOT_CHUNKS)
        return false;
    if (thread->chunks[chunk] == NULL)
        thread->chunks[chunk] = os_metadata_take(chunk_bytes(chunk));
    if (thread->chunks[chunk] == NULL)
        return false;
    thread->chunks_used++;
    thread->bump = thread->chunks[chunk];
    thread->bump_end = thread->bump + chunk_bytes(chunk) / sizeof *thread->bump;
    return true;
}

void **slots_take(struct thread *thread, unsigned kind) {
    void **array = thread->free_arrays[kind];
    if (array != NULL) {
        thread->free_arrays[kind] = array[0];
    } else {
        size_t slots = (size_t)SLOT_ARRAY_MIN << kind;
        if ((size_t)(thread->bump_end - thread->bump) < slots && !next_chunk(thread))
            return NULL;
        array = thread->bump;
        thread->bump += slots;
    }
    array[0] = NULL;
    return array;
}

void slots_give(struct thread *thread, void **array, unsigned kind) {
    array[0] = thread->free_arrays[kind];
    thread->free_arrays[kind] = array;
}

/* The first arrays lie in the row that was the own one when the thread first began. */
bool slots_contain(const struct thread *thread, void *const *array, size_t slots) {
    bool is_ours = false;
    for (unsigned place = 0; place < ROW_COUNT + thread->chunks_used && !is_ours; place++) {
        bool is_row = place < ROW_COUNT;
        void *const *start =
            is_row ? thread->cache.rows[place].slots : thread->chunks[place - ROW_COUNT];
        size_t room = is_row ? ROW_SLOTS : chunk_bytes(place - ROW_COUNT) / sizeof *start;
        is_ours = array >= start && array + slots <= start + room;
    }
    return is_ours && is_aligned((uintptr_t)array, sizeof *array);
}

/* Chunks smaller than a page share theirs with other threads' metadata. */
void slots_release(struct thread *thread) {
    for (unsigned chunk = 0; chunk < thread->chunks_used; chunk++) {
        if (chunk_bytes(chunk) >= os_page_size())
            os_purge(thread->chunks[chunk], chunk_bytes(chunk));
    }
    for (unsigned kind = 0; kind < SLOT_ARRAY_KINDS; kind++)
        thread->free_arrays[kind] = NULL;
    thread->chunks_used = 0;
    thread->bump = thread->bump_end = NULL;
}
