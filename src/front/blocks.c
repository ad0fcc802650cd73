/* Zeroed, aligned and resized blocks: all on top of malloc, free and large
 * blocks. */
#include <string.h>

#include "front/front.h"
#include "span/large.h"
#include "span/move.h"
#include "span/report.h"

/* The class of a small block, 0 for all other pointers. */
static unsigned class_of_block(const void *block) {
    unsigned bin = entry_bin(window_entry(block));
    return bin < CLASS_COUNT ? bin : 0;
}

/* Below this, clearing costs less than finding a block that is zero already. */
enum { WORTH_ZERO_PAGES_BYTES = 8192 };

static hak_noinline void *zeroed_pages(size_t size) {
    if (!front_start())
        return NULL;
    bool is_zero;
    struct request request = {
        .bin = front_bin_of(size), .wants_zero = true, .size = size, .alignment = 1};
    void *block = front_serve(request, &is_zero);
    return block == NULL || is_zero ? block : memset(block, 0, size);
}

void *front_zeroed(size_t size) {
    if (size >= WORTH_ZERO_PAGES_BYTES)
        return zeroed_pages(size);
    void *block = front_malloc(size, front_malloc_slow);
    return block == NULL ? NULL : memset(block, 0, size);
}

/* By itself, so that small blocks need no stack. */
static hak_cold void *aligned_large(size_t alignment, size_t size) {
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX || !front_start())
        return NULL;
    bool is_zero;
    struct request request = {
        .bin = BIN_LARGE, .size = hak_max(size, (size_t)1), .alignment = alignment};
    return front_serve(request, &is_zero);
}

void *front_aligned(size_t alignment, size_t size) {
    if (alignment <= CLASS_STEP)
        return front_malloc(size, front_malloc_slow);
    if (alignment <= SLAB_BYTES && size <= CLASS_SIZE_MAX &&
        class_aligned_size(size, alignment) <= CLASS_SIZE_MAX)
        return front_malloc(class_aligned_size(size, alignment), front_malloc_slow);
    return aligned_large(alignment, size);
}

size_t front_usable_bytes(const void *block) {
    unsigned class = class_of_block(block);
    return class != 0 ? class_size(class) : large_usable_bytes(block);
}

bool front_is_sparse(const void *block) {
    uint16_t entry = window_entry(block);
    unsigned bin = entry_bin(entry);
    struct thread *thread = bin != BIN_NONE && bin < CLASS_COUNT ? front_thread() : NULL;
    return thread != NULL && cache_is_sparse(thread, entry, block);
}

size_t front_good_size(size_t size, size_t alignment) {
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX || !front_start())
        return 0;
    size_t aligned = alignment <= SLAB_BYTES ? class_aligned_size(size, alignment) : SIZE_MAX;
    if (aligned <= CLASS_SIZE_MAX)
        return class_size(class_of(aligned));
    size_t unit = size < GIB && alignment <= GIB ? (size_t)SLAB_BYTES : os_page_size();
    return align_up(hak_max(size, (size_t)1), unit);
}

/* Whether a block of usable bytes may stay where it is for size: it fits, and no
 * more than half of it lies idle. */
static bool may_stay(size_t usable, size_t size) { return size <= usable && size >= usable / 2; }

/* Whether the pages that hold the first bytes of both blocks hold nothing else. Size
 * classes are whole pages of 4 KiB from 64 KiB on, but not of 16 or 64 KiB. */
static bool own_their_pages(size_t bytes, size_t usable, const void *other) {
    size_t whole = align_up(bytes, os_page_size());
    return bytes >= MOVE_MIN_BYTES && whole <= usable && whole <= front_usable_bytes(other);
}

/* The contents of a block go to a new one, large ones by their pages where that
 * pays, and the old one goes. */
static void *move_to_new(void *block, size_t usable, size_t size) {
    void *moved = front_malloc(size, front_malloc_slow);
    if (moved == NULL)
        return NULL;
    size_t kept = hak_min(usable, size);
    if (!own_their_pages(kept, usable, moved) || !move_pages(block, moved, kept))
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

void *front_resize(void *block, size_t size) {
    if (size > PTRDIFF_MAX)
        return NULL;
    unsigned class = class_of_block(block);
    size_t usable = front_usable_bytes(block);
    if (class != 0 || size <= CLASS_SIZE_MAX) {
        if (may_stay(usable, size))
            return block;
    } else {
        void *resized = resize_large(block, size);
        if (resized != NULL)
            return resized;
    }
    return move_to_new(block, usable, size);
}
