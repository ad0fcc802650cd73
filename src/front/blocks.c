/* Zeroed, aligned and resized blocks: all on top of malloc, free and large
 * blocks. */
#include <string.h>

#include "front/front.h"
#include "modes/guard.h"
#include "os/clear.h"
#include "span/large.h"
#include "span/move.h"
#include "span/report.h"

/* The class of a small block, 0 for all other pointers. */
static unsigned class_of_block(const void *block) {
    unsigned bin = entry_bin(window_entry(block));
    return bin < CLASS_COUNT ? bin : 0;
}

static bool is_guarded(const void *block) { return entry_bin(window_entry(block)) == BIN_GUARD; }

/* Below this, clearing costs less than finding a block that is zero already. */
enum { WORTH_ZERO_PAGES_BYTES = 8192 };

static hak_noinline void *zeroed_pages(size_t size) {
    if (!front_start())
        return NULL;
    bool is_zero;
    struct request request = {
        .bin = front_bin_of(size), .wants_zero = true, .size = size, .alignment = 1};
    void *block = front_serve(request, &is_zero);
    if (block != NULL && !is_zero)
        os_clear(block, size, false);
    return block;
}

void *front_zeroed(size_t size) {
    if (size >= WORTH_ZERO_PAGES_BYTES)
        return zeroed_pages(size);
    void *block = front_malloc(size, front_malloc_slow);
    return block == NULL ? NULL : memset(block, 0, size);
}

/* What no bin has; by itself, so that small blocks need no stack. */
static hak_cold void *aligned_slow(size_t alignment, size_t size) {
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX || !front_start())
        return NULL;
    bool is_zero;
    struct request request = {
        .bin = front_aligned_bin(size, alignment), .size = size, .alignment = alignment};
    return front_serve(request, &is_zero);
}

static void *no_block(size_t size) {
    (void)size;
    return NULL;
}

void *front_aligned(size_t alignment, size_t size) {
    if (alignment <= CLASS_STEP)
        return front_malloc(size, front_malloc_slow);
    if (alignment <= SLAB_BYTES && size <= CLASS_SIZE_MAX) {
        void *block = front_malloc(class_aligned_size(size, alignment), no_block);
        if (hak_likely(block != NULL))
            return block;
    }
    return aligned_slow(alignment, size);
}

size_t front_usable_bytes(const void *block, const char *operation) {
    size_t room;
    unsigned class = class_of_block(block);
    if (hak_unlikely(is_guarded(block)))
        return guard_usable_bytes(block, operation);
    if (hardened_is_on())
        return hardened_size(block, operation, &room);
    return class != 0 ? class_size(class) : large_usable_bytes(block, operation);
}

bool front_is_sparse(const void *block) {
    uint16_t entry = window_entry(block);
    unsigned bin = entry_bin(entry);
    struct thread *thread = bin != BIN_NONE && bin < CLASS_COUNT ? front_thread() : NULL;
    return thread != NULL && cache_is_sparse(thread, entry, block);
}

static _Atomic bool has_told_good_sizes;

bool front_has_told_good_sizes(void) {
    return atomic_load_explicit(&has_told_good_sizes, memory_order_relaxed);
}

size_t front_good_size(size_t size, size_t alignment) {
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX || !front_start())
        return 0;
    if (!front_has_told_good_sizes())
        atomic_store_explicit(&has_told_good_sizes, true, memory_order_relaxed);
    if (hardened_is_on())
        return size;
    size_t aligned = alignment <= SLAB_BYTES ? class_aligned_size(size, alignment) : SIZE_MAX;
    if (aligned <= CLASS_SIZE_MAX)
        return class_size(class_of(aligned));
    size_t unit = size < GIB && alignment <= GIB ? (size_t)SLAB_BYTES : os_page_size();
    return align_up(hak_max(size, (size_t)1), unit);
}

/* How reports name every call that ends here: reallocarray is made of realloc (abi/by_name.c). */
static const char resizing[] = "realloc";

/* Whether a block of usable bytes may stay where it is for size: it fits, and no
 * more than half of it lies idle. */
static bool may_stay(size_t usable, size_t size) { return size <= usable && size >= usable / 2; }

/* Whether the pages that hold the first bytes of both blocks hold nothing else. Size
 * classes so large are whole pages of 4 and of 16 KiB, but not of 64; a guarded block may begin
 * anywhere on a page. */
static bool own_their_pages(size_t bytes, size_t usable, const void *block, const void *other) {
    size_t whole = align_up(bytes, os_page_size());
    return bytes >= MOVE_MIN_BYTES && whole <= usable &&
           whole <= front_usable_bytes(other, resizing) && !is_guarded(block) && !is_guarded(other);
}

/* A block that has grown by little will do so again: it gets a quarter more than it had, so that
 * one that grows by steps is not copied at each size class on its way. In hardened mode each block
 * ends where it was asked to, and near a limit nobody takes more than needed. */
static size_t grown_size(const void *block, size_t usable, size_t size) {
    size_t more = usable + usable / 4;
    bool is_step = size > usable && size < more && more <= CLASS_SIZE_MAX;
    bool may_grow = !hardened_is_on() && !is_guarded(block) && limits_have_room(more);
    return is_step && may_grow ? more : size;
}

/* A block with room for more, that is counted, and guarded, as one of size. */
static void *take_grown(size_t more, size_t size) {
    void *block = front_malloc(more, no_block);
    if (hak_likely(block != NULL))
        return block;
    bool is_zero;
    struct request request = {.bin = front_bin_of(more), .size = size, .alignment = 1};
    return front_serve(request, &is_zero);
}

/* The contents of a block go to a new one, large ones by their pages where that
 * pays, and the old one goes. */
static void *move_to_new(void *block, size_t usable, size_t size) {
    size_t more = grown_size(block, usable, size);
    void *moved = more == size ? front_malloc(size, front_malloc_slow) : take_grown(more, size);
    if (moved == NULL)
        return NULL;
    size_t kept = hak_min(usable, size);
    if (!own_their_pages(kept, usable, block, moved) || !move_pages(block, moved, kept))
        memcpy(moved, block, kept);
    front_free(block, front_free_slow);
    return moved;
}

/* A larger or smaller large block without a copy, or NULL. A move takes more memory
 * than growth in place: what the hard limit has refused is tried again after a trim. */
static void *resize_large(void *block, size_t size) {
    uint64_t refused = limits_refused_count();
    void *resized = large_resize(block, size);
    if (resized == NULL && hak_unlikely(limits_refused_count() != refused)) {
        front_trim();
        resized = large_resize(block, size);
    }
    return resized;
}

/* In place as elsewhere, the seal counted in. */
static void *resize_hardened(void *block, size_t size) {
    size_t room;
    size_t old_size = hardened_size(block, resizing, &room);
    size_t bytes = size + hardened_more_bytes();
    bool has_class = class_of_block(block) != 0 || bytes <= CLASS_SIZE_MAX;
    if (has_class && may_stay(room, bytes)) {
        hardened_reseal(block, size);
        return block;
    }
    void *resized = NULL;
    if (!has_class) {
        hardened_shrink(block, room, bytes);
        resized = resize_large(block, bytes);
    }
    if (resized == NULL)
        return move_to_new(block, old_size, size);
    hardened_reseal(resized, size);
    return resized;
}

void *front_resize(void *block, size_t size) {
    if (size > PTRDIFF_MAX)
        return NULL;
    if (hardened_is_on() && !is_guarded(block))
        return resize_hardened(block, size);
    unsigned class = class_of_block(block);
    size_t usable = front_usable_bytes(block, resizing);
    if (class != 0 || size <= CLASS_SIZE_MAX || is_guarded(block)) {
        if (may_stay(usable, size) && !is_guarded(block))
            return block;
    } else {
        void *resized = resize_large(block, size);
        if (resized != NULL)
            return resized;
    }
    return move_to_new(block, usable, size);
}
