/* The window: the one range of addresses that holds all blocks below 1 GiB, cut
 * into slabs of 64 KiB, with two tables beside it.
 *
 *   address space   ... | window: range, range, range -> frontier .... <- ceiling | ...
 *   class map           one entry (2 bytes) a slab:       free's only look-up
 *   super table         one pointer a SuperSlab (2 MiB):  its descriptor
 *
 * Law 1: a map entry is the byte offset of a bin in a thread's cache, so that
 * free gets from any pointer to its bin without a comparison:
 *
 *   entry = row of the slab's shard * ROW_BYTES + bin * BIN_BYTES
 *
 * Entry 0 means "no block starts in this slab"; the bin at offset 0 is always
 * full, so free leaves for its slow path by itself.
 *
 * Reading the map needs no lock: a pointer to a live block has a stable entry
 * but for its row, and any row is right (flush looks the owner up under the
 * lock). Entries are relaxed atomics: plain loads and stores in machine code. */
#ifndef HAK_SPAN_WINDOW_H
#define HAK_SPAN_WINDOW_H

#include <stdatomic.h>

#include "base/base.h"
#include "os/memory.h"

enum {
    SLAB_SHIFT = 16,
    SLAB_BYTES = 1 << SLAB_SHIFT,
    SUPER_SHIFT = 21,
    SUPER_BYTES = 1 << SUPER_SHIFT,
    SUPER_SLABS = SUPER_BYTES / SLAB_BYTES, /* 32: a SuperSlab's slabs fit one word */

    /* The shape of a thread's cache, which map entries point into. */
    BIN_BYTES = 16,
    ROW_BYTES = 4096,
    ROW_COUNT = 16,  /* 16 rows * 4096 bytes: an entry fits 16 bits */
    BIN_NONE = 0,    /* malloc(0), and entry 0 */
    BIN_LARGE = 221, /* a large block: always full, */
    BIN_GUARD = 222, /* and so is this, of a guarded one (modes/guard.c) */
    BIN_COUNT = 224, /* 1 .. 220 are the size classes of slab/classes.h */
};

struct super;

/* Written once by window_init, before any block exists; the count is 0 until
 * then, so every pointer is out of range. Variables of their own, not a struct:
 * the fast path then needs no register for its address. */
hak_global uintptr_t window_first_slab; /* address of the window >> SLAB_SHIFT */
hak_global size_t window_slab_count;    /* a multiple of SUPER_SLABS */
hak_global _Atomic uint16_t *window_map;
hak_global struct super *_Atomic *window_supers;

/* Finds a place for a window of at most bytes and maps its tables. False when
 * there is no address space for even the smallest. */
bool window_init(size_t bytes, uint64_t seed);

/* Makes the tables writable for SuperSlabs [first, first + count), where all before first have been
 * opened; or for any. */
bool window_open(size_t first, size_t count);
bool window_open_apart(size_t first, size_t count);

/* Reserves the addresses of SuperSlabs [first, first + count). */
enum os_reserved window_reserve(size_t first, size_t count);

hak_inline bool window_contains(const void *pointer) {
    return ((uintptr_t)pointer >> SLAB_SHIFT) - window_first_slab < window_slab_count;
}

/* Of a pointer that the window contains. */
hak_inline size_t window_slab_index(const void *pointer) {
    return ((uintptr_t)pointer >> SLAB_SHIFT) - window_first_slab;
}

hak_inline size_t window_super_index(const void *pointer) {
    return window_slab_index(pointer) / SUPER_SLABS;
}

/* Indices of SuperSlabs are below this. */
hak_inline size_t window_super_count(void) { return window_slab_count / SUPER_SLABS; }

hak_inline char *window_super_address(size_t index) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return (char *)((window_first_slab + index * SUPER_SLABS) << SLAB_SHIFT);
}

hak_inline struct super *window_super(size_t index) {
    hak_assert(index < window_super_count());
    /* Pairs with the release in window_super_set: the descriptor is complete. */
    return atomic_load_explicit(&window_supers[index], memory_order_acquire);
}

hak_inline void window_super_set(size_t index, struct super *super) {
    atomic_store_explicit(&window_supers[index], super, memory_order_release);
}

hak_inline uint16_t entry_make(unsigned row, unsigned bin) {
    return (uint16_t)(row * ROW_BYTES + bin * BIN_BYTES);
}

hak_inline unsigned entry_bin(uint16_t entry) { return entry % ROW_BYTES / BIN_BYTES; }
hak_inline unsigned entry_row(uint16_t entry) { return entry / ROW_BYTES; }

/* 0 for a pointer outside the window. */
hak_inline uint16_t window_entry(const void *pointer) {
    if (!window_contains(pointer))
        return 0;
    return atomic_load_explicit(&window_map[window_slab_index(pointer)], memory_order_relaxed);
}

/* Writes only what changes: the line may be hot in another thread's free. */
hak_inline void window_entry_set(size_t slab_index, uint16_t entry) {
    _Atomic uint16_t *place = &window_map[slab_index];
    if (atomic_load_explicit(place, memory_order_relaxed) != entry)
        atomic_store_explicit(place, entry, memory_order_relaxed);
}

#endif
