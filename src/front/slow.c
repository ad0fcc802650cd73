/* What the fast path leaves: empty and full bins, sizes without a bin, pointers
 * outside the window, watched threads, threads not yet born or already dead. */
#include "front/front.h"
#include "modes/guard.h"
#include "modes/watch.h"
#include "span/large.h"
#include "span/report.h"

/* At the end of a slow call. */
hak_inline void heed_soft_limit(const struct thread *thread) {
    if (hak_unlikely(limits_excess() != 0))
        front_heed_soft_limit(thread);
}

/* --- malloc ------------------------------------------------------------------ */

/* A long block takes whole SuperSlabs side by side, and each block in a bin keeps one from being
 * whole: before the heap grows for that, the thread's large ones go home, and whole SuperSlabs that
 * its shard holds back join the others. */
static void make_room(struct thread *thread, size_t size) {
    if (thread == NULL || hak_likely(!large_lacks_room(size)))
        return;
    cache_flush_large(thread);
    span_release_warm(thread->shard);
}

static void *take_plain(struct thread *thread, struct request request, bool *is_zero) {
    size_t size = hak_max(request.size + hardened_more_bytes(), (size_t)1);
    unsigned shard = thread != NULL ? thread->shard : front_shard_without_thread();
    *is_zero = false;
    if (request.bin == BIN_LARGE) {
        make_room(thread, size);
        /* Hardened mode looks at what freed memory holds before that is cleared. */
        size_t zero_bytes = request.wants_zero && !hardened_is_on() ? request.size : 0;
        return large_take(shard, size, request.alignment, zero_bytes, is_zero);
    }
    if (thread == NULL)
        return slab_take_one(shard, request.bin, is_zero);
    if (request.wants_zero)
        return cache_take_zeroed(thread, request.bin, is_zero);
    return cache_take(thread, request.bin);
}

static void *take(struct thread *thread, struct request request, bool *is_zero) {
    void *block;
    do
        block = take_plain(thread, request, is_zero);
    while (hardened_is_on() && block != NULL &&
           !hardened_take(thread, request.bin, &block, request.size, *is_zero) && block != NULL);
    return block;
}

/* A window that is full, or has no room in one piece, has no say over blocks that can be mapped by
 * themselves: from a slab on, where the size that was promised (front_good_size) is whole pages. */
static void *take_outside(struct thread *thread, struct request *request, bool *is_zero) {
    if (request->bin == BIN_LARGE)
        return NULL;
    size_t bytes = class_size(request->bin);
    if (bytes < SLAB_BYTES || !is_aligned(bytes, os_page_size()))
        return NULL;
    request->bin = BIN_LARGE;
    if (hardened_is_on())
        return take(thread, *request, is_zero);
    *is_zero = true;
    return huge_take(bytes, request->alignment);
}

/* What lies free in bins and empty slabs may be just what is needed, or what a call-back
 * of the program's lets go. */
static hak_cold void *take_again(struct thread *thread, struct request *request, bool *is_zero) {
    guard_release();
    front_trim();
    uint64_t refused = limits_refused_count();
    void *block = take(thread, *request, is_zero);
    if (block == NULL && limits_refused_count() == refused)
        block = take_outside(thread, request, is_zero);
    if (block == NULL && thread != NULL && front_heed_hard_limit(refused, request->size)) {
        front_trim();
        block = take(thread, *request, is_zero);
    }
    return block;
}

static bool give(struct thread *thread, uint16_t entry, void *block, size_t size, size_t alignment);

/* Of the size that was asked for, to the byte, for what lies behind is not to be touched; but a
 * program that has asked what size it would get may use all of that. Blocks aligned to more than a
 * slab are not guarded. */
static void *guarded_block(struct thread *thread, struct request request, enum guard_side side) {
    bool is_told = front_has_told_good_sizes() && !hardened_is_on();
    size_t size = is_told ? front_good_size(request.size, request.alignment) : request.size;
    return guard_take(thread, size, request.alignment, request.size, side);
}

/* Of the blocks that have just left a refill, one is to be guarded: this one. */
static hak_cold void *guard_instead(struct thread *thread, struct request request, void *block,
                                    bool *is_zero) {
    void *guarded = guarded_block(thread, request, GUARD_BY_CHANCE);
    if (guarded == NULL)
        return block;
    give(thread, window_entry(block), block, FRONT_ANY_SIZE, 1);
    guard_owe(thread, request.bin);
    *is_zero = false;
    return guarded;
}

/* Whether a call counts by itself, and not the blocks of a refill, and is the one to be guarded:
 * where every call is seen; and of large blocks, which nobody takes in batches. */
static bool is_guards_turn(struct thread *thread, struct request request, enum guard_side *side) {
    if (request.bin == BIN_LARGE)
        return request.alignment <= SLAB_BYTES && guard_counts_large(thread, request.size);
    return watch_is_on(thread) && (guard_counts(thread) || guard_counts_first(request.bin, side));
}

/* A guarded block if it is time for one, or NULL. */
static void *take_guarded(struct thread *thread, struct request request, bool *is_zero) {
    enum guard_side side = GUARD_BY_CHANCE;
    if (thread == NULL || hak_likely(!is_guards_turn(thread, request, &side)))
        return NULL;
    *is_zero = false;
    return guarded_block(thread, request, side);
}

void *front_serve(struct request request, bool *is_zero) {
    struct thread *thread = front_thread();
    if (request.size > PTRDIFF_MAX)
        return NULL;
    void *block = take_guarded(thread, request, is_zero);
    if (hak_likely(block == NULL))
        block = take(thread, request, is_zero);
    if (hak_unlikely(block == NULL))
        block = take_again(thread, &request, is_zero);
    if (thread != NULL && block != NULL) {
        if (hak_unlikely(guard_is_due(thread, request.bin)))
            block = guard_instead(thread, request, block, is_zero);
        if (hak_unlikely(watch_is_on(thread)))
            watch_saw_take(thread, request.bin, request.size);
        scavenger_after_malloc(cache_tick(thread, false));
        heed_soft_limit(thread);
    }
    return block;
}

static void *serve_malloc(unsigned bin, size_t size) {
    bool is_zero;
    struct request request = {.bin = bin, .size = size, .alignment = 1};
    return front_serve(request, &is_zero);
}

/* What the thread's bins have, without upkeep, as on the fast path. */
static void *malloc_hardened(size_t size) {
    struct thread *thread = front_tls.cache->thread;
    unsigned bin = front_bin_of(size);
    bool may_be_guarded = guard_counts_calls() || guard_wants_first(bin);
    if (hak_likely(thread != NULL && bin < CLASS_COUNT && !may_be_guarded)) {
        void *block = hardened_take_cached(thread, bin, size);
        if (hak_likely(block != NULL)) {
            watch_saw_take(thread, bin, size);
            return block;
        }
    }
    return serve_malloc(bin, size);
}

void *front_malloc_slow(size_t size) {
    if (!front_start())
        return NULL;
    return hardened_is_on() ? malloc_hardened(size) : serve_malloc(front_bin_of(size), size);
}

/* --- free -------------------------------------------------------------------- */

static unsigned bin_of_entry(uint16_t entry) {
    unsigned bin = entry_bin(entry);
    return bin == BIN_NONE ? (unsigned)BIN_LARGE : bin;
}

static void give_plain(struct thread *thread, uint16_t entry, void *block) {
    unsigned bin = bin_of_entry(entry);
    if (bin >= CLASS_COUNT)
        large_give(block);
    else if (thread != NULL)
        cache_give(thread, entry, block);
    else
        slab_give(bin, &block, 1);
}

/* False: upkeep is due. */
static bool give(struct thread *thread, uint16_t entry, void *block, size_t size,
                 size_t alignment) {
    if (hak_unlikely(entry_bin(entry) == BIN_GUARD))
        guard_give(block, size, alignment);
    else if (hardened_is_on())
        return hardened_give(thread, entry, block, size, alignment);
    else
        give_plain(thread, entry, block);
    return false;
}

void front_free_sized_slow(void *block, size_t size, size_t alignment) {
    if (block == NULL)
        return;
    struct thread *thread = front_thread();
    uint16_t entry = window_entry(block);
    unsigned bin = hak_min(bin_of_entry(entry), (unsigned)BIN_LARGE);
    bool was_quick = give(thread, entry, block, size, alignment);
    if (thread == NULL)
        return;
    if (hak_unlikely(guard_is_due(thread, bin)))
        guard_owe(thread, bin);
    if (hak_unlikely(watch_is_on(thread)))
        watch_saw_give(thread, bin);
    if (was_quick)
        return;
    /* A large block may be the last that this program ever frees, so upkeep does not
     * wait for a next call. */
    scavenger_after_free(cache_tick(thread, bin == BIN_LARGE));
    heed_soft_limit(thread);
}

void front_free_slow(void *block) { front_free_sized_slow(block, FRONT_ANY_SIZE, 1); }
