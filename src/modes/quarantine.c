/* Quarantine: a freed block is not handed out again at once, so that who still uses it meets
 * the fill (fill.c) rather than another's data, and leaves his trace there.
 *
 *   blocks   ..... | oldest | ...... older half | ...... newer half | newest | .....
 *                    leaves next                  <-- comes in anywhere here
 *
 * A ring of a thread's own, bounded in blocks and bytes. A block that comes in changes places
 * with a random one of the newer half, so nobody can tell when one will be reused, but each
 * waits for as many frees as half of the ring holds. */
#include "modes/quarantine.h"

#include "slab/slab.h"

enum { BYTES_MAX = 256 * 1024 };

static uint32_t first_of(const struct quarantine *quarantine) {
    return atomic_load_explicit(&quarantine->first, memory_order_relaxed);
}
static uint32_t count_of(const struct quarantine *quarantine) {
    return atomic_load_explicit(&quarantine->count, memory_order_relaxed);
}
static void set(_Atomic uint32_t *field, uint32_t value) {
    atomic_store_explicit(field, value, memory_order_release);
}

bool quarantine_is_full(const struct quarantine *quarantine, size_t room) {
    uint32_t count = count_of(quarantine);
    return count == QUARANTINE_BLOCKS || (count != 0 && quarantine->bytes + room > BYTES_MAX);
}

static uint32_t place(const struct quarantine *quarantine, uint32_t number) {
    return (first_of(quarantine) + number) % QUARANTINE_BLOCKS;
}

void quarantine_push(struct quarantine *quarantine, void *block, size_t room, uint32_t random) {
    uint32_t newest = count_of(quarantine);
    void **other = &quarantine->blocks[place(quarantine, newest - random % (newest / 2 + 1))];
    quarantine->blocks[place(quarantine, newest)] = *other;
    *other = block;
    quarantine->bytes += room;
    set(&quarantine->count, newest + 1);
}

/* Between the two stores the newest does not count either: a child then loses a block, rather
 * than have one twice. */
void *quarantine_pop(struct quarantine *quarantine) {
    uint32_t count = count_of(quarantine);
    if (count == 0)
        return NULL;
    void *block = quarantine->blocks[first_of(quarantine)];
    set(&quarantine->count, count - 1);
    set(&quarantine->first, place(quarantine, 1));
    quarantine->bytes -= class_size(entry_bin(window_entry(block)));
    return block;
}

void quarantine_visit(const struct quarantine *quarantine, void (*visit)(void *block)) {
    uint32_t count = hak_min(count_of(quarantine), (uint32_t)QUARANTINE_BLOCKS);
    for (uint32_t i = 0; i < count; i++)
        visit(quarantine->blocks[place(quarantine, i)]);
}
