/* Adding up the heap.
 *
 * Figures derive from what moved between bins and slabs (law 3): "taken" blocks
 * left their slab, "given" ones came back; the difference is with the program or
 * in threads' bins. */
#include "abi/figures.h"

static void add_lock(enum lock_rank rank, struct os_lock *lock, void *context) {
    struct figures *f = context;
    f->locks[rank].acquired += atomic_load_explicit(&lock->acquired, memory_order_relaxed);
    f->locks[rank].contended += atomic_load_explicit(&lock->contended, memory_order_relaxed);
}

struct figures figures_gather(void) {
    struct figures f = {.spans = span_stats(),
                        .huge_pages = span_collapse_stats(),
                        .arena = arena_stats(),
                        .huge = huge_stats(),
                        .limits = limits_stats(),
                        .guard = guard_stats()};
    f.blocks_taken = f.spans.large_taken + f.huge.taken;
    f.blocks_given = f.spans.large_given + f.huge.given;
    f.live_bytes = f.spans.large_bytes + f.huge.bytes;
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        f.classes[class] = slab_stats(class);
        f.blocks_taken += f.classes[class].taken;
        f.blocks_given += f.classes[class].given;
        f.live_bytes += (f.classes[class].taken - f.classes[class].given) * class_size(class);
    }
    front_each_lock(add_lock, &f);
    f.slow_calls = registry_slow_calls();
    f.mapped_bytes = f.arena.committed_bytes + f.huge.bytes;
    return f;
}
