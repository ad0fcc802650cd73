/* What the fast path leaves: empty and full bins, sizes without a bin, pointers
 * outside the window, watched threads, threads not yet born or already dead. */
#include "front/front.h"
#include "modes/watch.h"
#include "span/large.h"
#include "span/report.h"

/* --- malloc ------------------------------------------------------------------ */

static void *take_small(struct thread *thread, unsigned class) {
    if (thread != NULL)
        return cache_take(thread, class);
    void *block;
    bool got = slab_take(front_shard_without_thread(), class, &block, 1) != 0;
    return got ? block : NULL;
}

static void *take_large(struct thread *thread, size_t size) {
    if (size > PTRDIFF_MAX)
        return NULL;
    bool is_zero;
    unsigned shard = thread != NULL ? thread->shard : front_shard_without_thread();
    return large_take(shard, size, 1, &is_zero);
}

static void *take(struct thread *thread, unsigned bin, size_t size) {
    return bin == BIN_LARGE ? take_large(thread, size) : take_small(thread, bin);
}

void *front_malloc_slow(size_t size) {
    struct thread *thread = front_thread();
    if (thread == NULL && !front_start())
        return NULL;
    unsigned bin = size > CLASS_SIZE_MAX ? BIN_LARGE : class_of(size == 0 ? 1 : size);
    void *block = take(thread, bin, size);
    if (hak_unlikely(block == NULL) && size <= PTRDIFF_MAX) {
        /* What lies free in bins and empty slabs may be just what is needed. */
        front_trim();
        block = take(thread, bin, size);
    }
    if (thread != NULL && block != NULL) {
        if (hak_unlikely(watch_is_on(thread)))
            watch_saw_take(thread, bin, size);
        cache_tick(thread);
    }
    return block;
}

/* --- free -------------------------------------------------------------------- */

static void give_small(struct thread *thread, uint16_t entry, void *block) {
    if (thread != NULL)
        cache_give(thread, entry, block);
    else
        slab_give(entry_bin(entry), &block, 1);
}

void front_free_slow(void *block) {
    if (block == NULL)
        return;
    struct thread *thread = front_thread();
    uint16_t entry = window_entry(block);
    unsigned bin = entry_bin(entry);
    bool is_small = bin != BIN_NONE && bin < CLASS_COUNT;
    if (is_small)
        give_small(thread, entry, block);
    else
        large_give(block);
    if (thread != NULL) {
        if (hak_unlikely(watch_is_on(thread)))
            watch_saw_give(thread, is_small ? bin : BIN_LARGE);
        cache_tick(thread);
    }
}
