/* Sending blocks home, and what a fork's child does with the bins of threads that are
 * not there any more. */
#include "cache/bins.h"
#include "os/frozen.h"

#include <string.h>

enum { FLUSH_MAX = SLOT_ARRAY_MAX / 2 }; /* blocks moved at a time */

/* The bin is shown empty while its blocks move, and they leave it before their bits
 * are set: should another thread fork now, the child's copy of the bin never
 * holds a block twice. */
void bin_flush_oldest(struct bin *bin, void **base, unsigned class, unsigned count) {
    while (count != 0) {
        void *batch[FLUSH_MAX];
        unsigned part = hak_min(count, (unsigned)FLUSH_MAX);
        size_t rest = (size_t)(bin_top(bin) - base) - part;
        bin_set_top(bin, base);
        /* atomic: warm, correctness; its partner is a fork in another thread. */
        atomic_thread_fence(memory_order_release);
        memcpy(batch, base + 1, part * sizeof *batch);
        memmove(base + 1, base + 1 + part, rest * sizeof *base);
        atomic_store_explicit(&bin->top, base + rest, memory_order_release);
        slab_give(class, batch, part);
        count -= part;
    }
}

void bin_flush_own(struct thread *thread, unsigned class) {
    bin_unpark(thread, class);
    struct bin *bin = &thread->own->bins[class];
    void **base = thread->infos[class].base;
    bin_flush_oldest(bin, base, class, (unsigned)(bin_top(bin) - base));
}

/* Foreign bins keep no note of their base: it is where the NULL lies. */
static void **foreign_base(const struct bin *bin) {
    void **at = bin_top(bin);
    while (*at != NULL)
        at--;
    return at;
}

unsigned bin_flush_foreign(struct bin *bin, unsigned class) {
    void **base = foreign_base(bin);
    unsigned count = (unsigned)(bin_top(bin) - base);
    bin_flush_oldest(bin, base, class, count);
    return count;
}

void bins_each_foreign(struct thread *thread,
                       void (*visit)(struct thread *, struct bin *, unsigned class)) {
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        if ((thread->foreign_rows >> row & 1) == 0)
            continue;
        for (unsigned class = 1; class < CLASS_COUNT; ++class) {
            struct bin *bin = &thread->cache.rows[row].bins[class];
            if (bin_top(bin) != NULL)
                visit(thread, bin, class);
        }
    }
}

static void visit_flush(struct thread *thread, struct bin *bin, unsigned class) {
    (void)thread;
    bin_flush_foreign(bin, class);
}

void bins_flush_foreign(struct thread *thread) { bins_each_foreign(thread, visit_flush); }

void cache_flush(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        if (thread->infos[class].base != NULL)
            bin_flush_own(thread, class);
    }
    bins_flush_foreign(thread);
}

/* A bin as the child of a fork finds it was copied while its owner worked on it,
 * page by page: its parts may stem from different moments. So nothing of it is
 * believed that cannot be checked; what is doubtful stays taken for ever. */
static void reclaim_bin(struct bin *bin, void **base, unsigned class, size_t capacity,
                        size_t parked) {
    void **top = bin_top(bin);
    size_t held = top == base ? parked : (size_t)(top - base);
    if (top < base || held > capacity)
        return;
    for (size_t done = 0; done < held; done += FLUSH_MAX) {
        void *batch[FLUSH_MAX];
        size_t part = hak_min(held - done, (size_t)FLUSH_MAX);
        memcpy(batch, base + 1 + done, part * sizeof *batch);
        slab_reclaim(class, batch, (unsigned)part);
    }
}

static void visit_reclaim(struct thread *thread, struct bin *bin, unsigned class) {
    (void)thread;
    void **base = bin_top(bin);
    unsigned held = 0;
    for (; *base != NULL && held <= FOREIGN_CAPACITY; base--)
        held++;
    reclaim_bin(bin, base, class, FOREIGN_CAPACITY, 0);
}

hak_frozen void (*cache_reclaim_held)(struct thread *thread);

void cache_reclaim(struct thread *thread) {
    if (cache_reclaim_held != NULL)
        cache_reclaim_held(thread);
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        const struct bin_info *info = &thread->infos[class];
        if (info->base != NULL)
            reclaim_bin(&thread->own->bins[class], info->base, class, info->capacity,
                        bin_parked(info));
    }
    bins_each_foreign(thread, visit_reclaim);
}
