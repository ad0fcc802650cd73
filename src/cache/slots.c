/* The arrays of slots that bins stack their blocks in. They come in powers of two, from
 * chunks that belong to the thread for ever; what a bin outgrows waits for the next. */
#include "cache/bins.h"
#include "os/metadata.h"

enum { SLOT_CHUNK_BYTES = 4096 };
_Static_assert(SLOT_ARRAY_MAX * sizeof(void *) <= SLOT_CHUNK_BYTES, "a chunk holds any array");

unsigned slots_kind(unsigned slots) {
    unsigned kind = 0;
    while ((unsigned)SLOT_ARRAY_MIN << kind < slots)
        kind++;
    return kind;
}

/* An array of a kind, its first slot NULL; NULL when out of memory. */
void **slots_take(struct thread *thread, unsigned kind) {
    void **array = thread->free_arrays[kind];
    if (array != NULL) {
        thread->free_arrays[kind] = array[0];
    } else {
        size_t slots = (size_t)SLOT_ARRAY_MIN << kind;
        if ((size_t)(thread->bump_end - thread->bump) < slots) {
            void **chunk = os_metadata_take(SLOT_CHUNK_BYTES);
            if (chunk == NULL)
                return NULL;
            thread->bump = chunk;
            thread->bump_end = chunk + SLOT_CHUNK_BYTES / sizeof *chunk;
        }
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
