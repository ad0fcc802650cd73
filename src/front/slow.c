/* What the fast path leaves: empty and full bins, sizes without a bin, pointers
 * outside the window, watched threads, threads not yet born or already dead. */
#include "front/front.h"
#include "modes/watch.h"
#include "span/large.h"
#include "span/report.h"

/* At the end of a slow call. */
hak_inline void heed_soft_limit(const struct thread *thread) {
    if (hak_unlikely(limits_excess() != 0))
        front_heed_soft_limit(thread);
}

/* --- malloc ------------------------------------------------------------------ */

static void *take(struct thread *thread, struct request request, bool *is_zero) {
    unsigned shard = thread != NULL ? thread->shard : front_shard_without_thread();
    *is_zero = false;
    if (request.bin == BIN_LARGE)
        return large_take(shard, request.size, request.alignment, is_zero);
    if (thread == NULL)
        return slab_take_one(shard, request.bin, is_zero);
    if (request.wants_zero)
        return cache_take_zeroed(thread, request.bin, is_zero);
    return cache_take(thread, request.bin);
}

/* What lies free in bins and empty slabs may be just what is needed, or what a call-back
 * of the program's lets go. */
static hak_cold void *take_again(struct thread *thread, struct request request, bool *is_zero) {
    front_trim();
    uint64_t refused = limits_refused_count();
    void *block = take(thread, request, is_zero);
    if (block == NULL && thread != NULL && front_heed_hard_limit(refused, request.size)) {
        front_trim();
        block = take(thread, request, is_zero);
    }
    return block;
}

void *front_serve(struct request request, bool *is_zero) {
    struct thread *thread = front_thread();
    if (request.size > PTRDIFF_MAX)
        return NULL;
    void *block = take(thread, request, is_zero);
    if (hak_unlikely(block == NULL))
        block = take_again(thread, request, is_zero);
    if (thread != NULL && block != NULL) {
        if (hak_unlikely(watch_is_on(thread)))
            watch_saw_take(thread, request.bin, request.size);
        scavenger_after_malloc(cache_tick(thread, false));
        heed_soft_limit(thread);
    }
    return block;
}

void *front_malloc_slow(size_t size) {
    if (!front_start())
        return NULL;
    bool is_zero;
    struct request request = {.bin = front_bin_of(size), .size = size, .alignment = 1};
    return front_serve(request, &is_zero);
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
        /* A large block may be the last that this program ever frees, so upkeep does not
         * wait for a next call. */
        scavenger_after_free(cache_tick(thread, !is_small));
        heed_soft_limit(thread);
    }
}
