/* Large blocks: over the size classes, under 1 GiB. Each is a span of whole
 * slabs; freed, it goes back to its shard's SuperSlabs and to the kernel after
 * the decay time, so a program that frees and allocates again pays no system
 * call and no page fault.
 *
 * Its map entry stands in its first slab only, so that a pointer into its middle
 * meets entry 0. The entry stays when the block is freed: whether the block
 * lives is in the descriptor, and rewriting the entry would take the map's line
 * away from threads that free small blocks near by. */
#include "span/large.h"

#include "span/arena.h"
#include "span/report.h"

static void set_entries(const struct span *span, uint16_t first) {
    size_t index = window_slab_index(span->start);
    window_entry_set(index, first);
    for (size_t i = 1; i < span->slabs; i++)
        window_entry_set(index + i, 0);
}

static size_t slabs_for(size_t bytes) { return divide_up(bytes, SLAB_BYTES); }

void *large_take(unsigned shard, size_t bytes, size_t alignment, size_t zero_bytes, bool *is_zero) {
    if (bytes < GIB && alignment <= GIB) {
        struct span_request request = {
            .slabs = slabs_for(bytes),
            .slabs_least = slabs_for(bytes),
            .alignment = divide_up(alignment, SLAB_BYTES),
            .state = SPAN_LARGE,
            .pages = SPAN_USED,
            .zero_bytes = zero_bytes,
        };
        struct span *span = span_take(shard, &request, is_zero);
        if (span != NULL) {
            set_entries(span, entry_make(0, BIN_LARGE));
            return span->start;
        }
    }
    *is_zero = true;
    /* Of the size that it would have had in the window. */
    return huge_take(bytes < GIB ? align_up(bytes, SLAB_BYTES) : bytes, alignment);
}

bool large_lacks_room(size_t bytes) {
    return bytes > SUPER_BYTES && bytes < GIB && !arena_has_used(divide_up(bytes, SUPER_BYTES));
}

void large_give(void *pointer) {
    if (entry_bin(window_entry(pointer)) == BIN_LARGE) {
        struct span *span = span_of(pointer);
        if (span != NULL && span_give_large(span, pointer))
            return;
    } else if (huge_give(pointer)) {
        return;
    }
    report_bad_pointer(pointer, "free");
}

/* The span of a live large block, or NULL. The caller owns the block, so its
 * descriptor holds still. */
static struct span *span_of_block(const void *pointer) {
    if (entry_bin(window_entry(pointer)) != BIN_LARGE)
        return NULL;
    struct span *span = span_of(pointer);
    bool is_block = span != NULL && span->state == SPAN_LARGE && span->start == pointer;
    return is_block ? span : NULL;
}

size_t large_usable_bytes(const void *pointer, const char *operation) {
    struct span *span = span_of_block(pointer);
    size_t bytes = span != NULL ? span_bytes(span) : huge_usable_bytes(pointer);
    if (bytes == 0)
        report_bad_pointer(pointer, operation);
    return bytes;
}

void *large_resize(void *pointer, size_t bytes) {
    struct span *span = span_of_block(pointer);
    if (span == NULL)
        return huge_resize(pointer, bytes);
    if (bytes >= GIB)
        return NULL;
    size_t old_slabs = span->slabs;
    size_t new_slabs = slabs_for(bytes);
    if (new_slabs == old_slabs)
        return pointer;
    if (!span_resize(span, new_slabs))
        return NULL;
    size_t index = window_slab_index(pointer);
    for (size_t i = old_slabs; i < new_slabs; i++)
        window_entry_set(index + i, 0);
    return pointer;
}
