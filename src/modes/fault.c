/* Reports of hardened mode: what is wrong, and with which block.
 *
 * All of them end in fault_report. Nothing here writes or takes a lock but that of the table
 * of huge blocks, and the block's own memory is read only where it is known to be there. */
#include "modes/fault.h"

#include <stdarg.h>

#include "base/format.h"
#include "modes/history.h"
#include "modes/marks.h"
#include "modes/seal.h"
#include "span/large.h"
#include "span/report.h"

/* As it was sealed last: for use, or when it was freed. */
static size_t told_size(const struct fault_block *block) {
    size_t size = seal_size(block->start, block->room, SEAL_IN_USE);
    if (size == SEAL_BROKEN && window_contains(block->start))
        size = seal_size(block->start, block->room, 1 + marks_cuts(block->start, block->room));
    return size != SEAL_BROKEN ? size : seal_guess(block->start, block->room);
}

static bool find_small(const void *pointer, struct fault_block *block) {
    struct slab_place place;
    if (!slab_find(pointer, &place))
        return false;
    *block = (struct fault_block){.start = place.block,
                                  .room = class_size(place.class),
                                  .slab = place.slab,
                                  .class = place.class};
    return true;
}

static bool find_large(const void *pointer, struct fault_block *block) {
    if (!window_contains(pointer))
        return false;
    struct span *span = span_of(pointer);
    size_t bytes;
    if (span != NULL && span->state == SPAN_LARGE)
        *block = (struct fault_block){
            .start = span->start, .room = span_bytes(span), .slab = span->start};
    else if (span == NULL && report_was_large(pointer, &bytes))
        *block = (struct fault_block){.start = pointer, .room = bytes, .slab = pointer};
    else
        return false;
    return true;
}

static bool find_huge(const void *pointer, struct fault_block *block) {
    size_t bytes = 0;
    const char *start = huge_start_of(pointer, &bytes);
    *block = (struct fault_block){.start = start, .room = bytes, .slab = start};
    return start != NULL;
}

bool fault_place(const void *pointer, struct fault_block *block) {
    return find_small(pointer, block) || find_large(pointer, block) || find_huge(pointer, block);
}

bool fault_find(const void *pointer, struct fault_block *block) {
    bool found = fault_place(pointer, block);
    if (found)
        block->size = told_size(block);
    return found;
}

static void describe(struct format_buffer *out, const struct fault_block *block) {
    bool is_known = block->size != SEAL_BROKEN;
    format_add(out, "block %p of %s%zu bytes (", (const void *)block->start,
               is_known ? "" : "at most ", is_known ? block->size : block->room - SEAL_BYTES);
    if (block->class != 0)
        format_add(out, "size class %zu", class_size(block->class));
    else
        format_text(out, window_contains(block->start) ? "large" : "huge");
    format_add(out, ", slab %p)", block->slab);
}

void fault_report(enum hak_report_kind kind, const char *operation, const void *pointer,
                  const struct fault_block *block, const char *format, ...) {
    char text[384];
    struct format_buffer out = format_begin(text, sizeof text - 1);
    format_add(&out, "%s(%p): ", operation, pointer);
    if (pointer != block->start)
        format_text(&out, "inside ");
    describe(&out, block);
    va_list arguments;
    va_start(arguments, format);
    format_add_v(&out, format, arguments);
    va_end(arguments);
    text[out.length] = '\0';
    hak_report(kind, "%s", text);
    history_print_caller();
    history_print(block->start);
    hak_abort();
}

void fault_report_no_block(const void *pointer, const char *operation) {
    struct fault_block block;
    if (!fault_find(pointer, &block))
        report_bad_pointer(pointer, operation);
    if (pointer != block.start)
        fault_report(report_kind_inside(pointer), operation, pointer, &block, ", %s",
                     report_why_inside(pointer));
    fault_report(HAK_DOUBLE_FREE, operation, pointer, &block, " is free already");
}
