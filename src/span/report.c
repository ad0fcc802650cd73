/* Sorting bad pointers into the kinds that reports know.
 *
 *   not 16-byte aligned                     misaligned pointer, naming the block if there is one
 *   outside everything that is HAKMEM's     invalid pointer
 *   inside a block, not at its start        invalid pointer, naming the block
 *   a block that is free already            double free
 *
 * Only looks; changes nothing, so that the heap is whole when a handler of
 * SIGABRT takes over. */
#include "span/report.h"

#include "span/large.h"

enum { BLOCK_ALIGNMENT = 16 };

static bool may_be_block(const void *pointer) {
    return is_aligned((uintptr_t)pointer, BLOCK_ALIGNMENT);
}

enum hak_report_kind report_kind_inside(const void *pointer) {
    return may_be_block(pointer) ? HAK_INVALID_POINTER : HAK_MISALIGNED_POINTER;
}

const char *report_why_inside(const void *pointer) {
    return may_be_block(pointer) ? "not its start" : "not a multiple of 16";
}

/* A freed large block keeps its map entry and its descriptor until its slabs
 * serve something else. */
bool report_was_large(const void *pointer, size_t *bytes) {
    struct super *super = window_super(window_super_index(pointer));
    if (super == NULL || entry_bin(window_entry(pointer)) != BIN_LARGE)
        return false;
    struct span *span = &super->spans[super_index_of_slab(super, pointer)];
    *bytes = span_bytes(span);
    return span->start == pointer && span->state == SPAN_FREE;
}

void report_bad_pointer(const void *pointer, const char *operation) {
    enum hak_report_kind kind = report_kind_inside(pointer);
    const char *why = report_why_inside(pointer);
    size_t bytes = 0;
    void *start = huge_start_of(pointer, &bytes);
    if (start != NULL)
        hak_panic(kind, "%s(%p): inside block %p of %zu bytes (huge), %s", operation, pointer,
                  start, bytes, why);
    struct span *span = window_contains(pointer) ? span_of(pointer) : NULL;
    if (span != NULL && span->state == SPAN_LARGE)
        hak_panic(kind, "%s(%p): inside block %p of %zu bytes (large, slab %p), %s", operation,
                  pointer, (void *)span->start, span_bytes(span), (void *)span->start, why);
    if (!may_be_block(pointer))
        hak_panic(kind, "%s(%p): %s, so no block", operation, pointer, why);
    if (!window_contains(pointer))
        hak_panic(HAK_INVALID_POINTER, "%s(%p): not a block of HAKMEM", operation, pointer);
    if (span == NULL && report_was_large(pointer, &bytes))
        hak_panic(HAK_DOUBLE_FREE, "%s(%p): block %p of %zu bytes (large, slab %p) is free already",
                  operation, pointer, pointer, bytes, pointer);
    hak_panic(HAK_INVALID_POINTER, "%s(%p): in HAKMEM's heap, but no block is there", operation,
              pointer);
}

void report_bad_block(const void *pointer, const char *operation, const char *span_start,
                      size_t block_bytes, size_t capacity, bool is_free) {
    enum hak_report_kind kind = report_kind_inside(pointer);
    size_t index = (size_t)((const char *)pointer - span_start) / block_bytes;
    if (index >= capacity)
        hak_panic(kind, "%s(%p): behind the last block of slab %p (size class %zu)", operation,
                  pointer, (const void *)span_start, block_bytes);
    const char *block = span_start + index * block_bytes;
    if (block != pointer)
        hak_panic(kind, "%s(%p): inside block %p of %zu bytes (size class %zu, slab %p), %s",
                  operation, pointer, (const void *)block, block_bytes, block_bytes,
                  (const void *)span_start, report_why_inside(pointer));
    if (is_free)
        hak_panic(HAK_DOUBLE_FREE,
                  "%s(%p): block %p of %zu bytes (size class %zu, slab %p) is free already",
                  operation, pointer, (const void *)block, block_bytes, block_bytes,
                  (const void *)span_start);
    hak_panic(HAK_CORRUPTED_HEAP, "%s(%p): slab %p (size class %zu) contradicts itself", operation,
              pointer, (const void *)span_start, block_bytes);
}
