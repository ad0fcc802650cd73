/* Fresh slabs are faulted in by the step, not page by page.
 *
 * A page fault costs half again as much as what it is for, a zeroed page. A class that
 * has used up its slabs and asks for one more will write to all of it, so some of its
 * pages are asked for in one call:
 *
 *   slab    | populated: step | one by one, as they are written |
 *   step    0, then twice as much each time a class asks again, up to the profile's
 *           most; 0 again when it gives back a slab that it has hardly used
 *
 * Small programs have many classes of a few slabs each, and would pay for all of them.
 * So a step is never more than a sixteenth of what the class has in the shard already:
 * the heap is at most that much larger than if each page came when it is needed.
 *
 * Not for blocks of many pages: nobody knows how much of them will be written.
 *
 * No lock: the span is not the pool's yet. The step is a hint that any thread may
 * change; the call into the kernel is what it is for. */
#include "slab/slab.h"

enum {
    FIRST_STEP_BYTES = 16 * 1024,
    LARGEST_BLOCK_BYTES = 32 * 1024,
    MOST_SHARE = 16, /* of what the class has */
};

size_t populate_fresh(struct pool *pool, unsigned class, const struct span *span) {
    size_t most = options_profile()->populate_max_bytes;
    if (most == 0 || class_size(class) > LARGEST_BLOCK_BYTES)
        return 0;
    size_t step = atomic_load_explicit(&pool->step_bytes, memory_order_relaxed);
    size_t next = step == 0 ? (size_t)FIRST_STEP_BYTES : step * 2;
    atomic_store_explicit(&pool->step_bytes, (uint32_t)hak_min(next, most), memory_order_relaxed);
    size_t slabs = atomic_load_explicit(&pool->slab_count, memory_order_relaxed);
    size_t bytes = hak_min(step, slabs * SLAB_BYTES / MOST_SHARE);
    bytes = align_down(hak_min(bytes, span_bytes(span)), os_page_size());
    /* One page is cheaper by a fault. */
    return bytes > os_page_size() && os_populate(span->start, bytes) ? bytes : 0;
}

void populate_learn(struct pool *pool, const struct span *span) {
    if (span->touched < span->capacity / 2)
        atomic_store_explicit(&pool->step_bytes, 0, memory_order_relaxed);
}
