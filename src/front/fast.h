/* The fast path: all of malloc and free when a bin has what they need.
 *
 *   malloc(n)   own row --n--> bin --> top --> block       13 instructions
 *   free(p)     p --class map--> bin of the cache <-- p    16 instructions
 *
 * Laws 1 to 3 hold here: no lock, no atomic read-modify-write, no fence, no gate,
 * no counter, and no branch but these:
 *
 *   - what turns the size into a bin: arithmetic up to 1 KiB, a table up to 32 KiB,
 *     its leading bits above;
 *   - the bin has no block; the bin is full; the pointer is outside the window.
 *
 * There is no test for "thread not started", "mode on" or "block is large": each
 * is a bin that is shown empty or full. A new feature enters in the same way.
 * tools/fast_path.py holds the machine code of this file to its golden. */
#ifndef HAK_FRONT_FAST_H
#define HAK_FRONT_FAST_H

#include "cache/cache.h"

/* All thread-local state, two pointers, so that a library opened late finds room
 * for them. A new thread starts at shared bins that are empty and full. */
struct front_tls {
    struct row *row;     /* malloc pops here */
    struct cache *cache; /* free pushes here */
};
hak_global _Thread_local struct front_tls front_tls __attribute__((tls_model("initial-exec")));

/* slow: what to call, as a tail call, when the bin has no block; it also sees
 * sizes that no bin serves, 0 and those over CLASS_SIZE_MAX. */
hak_inline void *front_malloc(size_t size, void *(*slow)(size_t size)) {
    size_t offset;
    if (hak_likely(size <= CLASS_LINEAR_MAX))
        offset = (size + CLASS_STEP - 1) & ~(size_t)(CLASS_STEP - 1); /* class * BIN_BYTES */
    else if (hak_likely(size <= CLASS_TABLE_MAX))
        offset = (size_t)class_of_table(size) * BIN_BYTES;
    else if (size <= CLASS_SIZE_MAX)
        offset = (size_t)class_of_bits(size) * BIN_BYTES;
    else
        return slow(size);
    struct bin *bin = (struct bin *)((char *)front_tls.row + offset);
    void **top = bin_top(bin);
    void *block = *top;
    hak_in_result_register(block);
    if (hak_unlikely(block == NULL))
        return slow(size);
    bin_set_top(bin, top - 1);
    return block;
}

/* False: the bin is full; so it is for NULL, large, huge and foreign pointers. */
hak_inline bool front_push(void *block) {
    size_t slab = ((uintptr_t)block >> SLAB_SHIFT) - window_first_slab;
    if (hak_unlikely(slab >= window_slab_count))
        return false;
    uint16_t entry = atomic_load_explicit(&window_map[slab], memory_order_relaxed);
    struct bin *bin = (struct bin *)((char *)front_tls.cache + entry);
    void **top = bin_top(bin);
    if (hak_unlikely(bin_is_full(bin, top)))
        return false;
    top[1] = block;
    bin_set_top(bin, top + 1);
    return true;
}

/* slow: what to call, as a tail call, when there is no room. */
hak_inline void front_free(void *block, void (*slow)(void *block)) {
    if (hak_unlikely(!front_push(block)))
        slow(block);
}

#endif
