/* What guard sampling has found, for people:
 *
 *   hakmem: use after free: read at 0x.., 16 bytes into block 0x.. of 100 bytes (...), freed
 *   hakmem:   accessed by thread 71:
 *   hakmem:     #0 0x... lookup+0x1f (/usr/bin/server+0x411f)
 *   hakmem:   freed by thread 70:
 *   hakmem:     ...
 *   hakmem:   allocated by thread 70:
 *   hakmem:     ... */
#include "base/format.h"
#include "modes/guard.h"
#include "modes/guarded.h"
#include "span/report.h"

/* Who had to do with the block before; then the end. */
static _Noreturn void end(const struct guarded *record) {
    if (record->state == GUARDED_FREED)
        os_stack_print("freed", &record->freed);
    os_stack_print("allocated", &record->allocated);
    hak_abort();
}

/* Where a place lies, as seen from a block. */
static const char *where(const struct guarded *record, const char *place, size_t *distance) {
    if (place < record->block) {
        *distance = (size_t)(record->block - place);
        return "before";
    }
    bool is_behind = place >= record->block + record->size;
    *distance = (size_t)(place - record->block) - (is_behind ? record->size : 0);
    return is_behind ? "behind" : "into";
}

/* "block 0x.. of 100 bytes (guarded, size class 112, slab 0x..)": the class is that of blocks of
 * its size, which tells those who look for it in statistics. */
struct description {
    char text[160];
};

static struct description describe(const struct guarded *record, size_t size) {
    struct description description;
    struct format_buffer out = format_begin(description.text, sizeof description.text - 1);
    format_add(&out, "block %p of %zu bytes (guarded, ", (void *)record->block, size);
    size_t bytes = guarded_class_bytes(record);
    if (bytes <= CLASS_SIZE_MAX)
        format_add(&out, "size class %zu", bytes);
    else
        format_text(&out, "large");
    format_add(&out, ", slab %p)", (void *)record->span->start);
    description.text[out.length] = '\0';
    return description;
}

static void report_place(enum hak_report_kind kind, const struct guarded *record, const char *what,
                         const char *place) {
    size_t distance;
    const char *side = where(record, place, &distance);
    hak_report(kind, "%s at %p, %zu bytes %s %s%s", what, (const void *)place, distance, side,
               describe(record, record->size).text,
               record->state == GUARDED_FREED ? ", freed" : "");
}

void guarded_look(const struct os_fault *fault) {
    static const char *const names[] = {
        [OS_ACCESS_UNKNOWN] = "access", [OS_ACCESS_READ] = "read", [OS_ACCESS_WRITE] = "write"};
    /* Held by this thread itself if something here is broken: then it is passed by. */
    bool is_locked = os_lock_try(&guard_lock);
    struct guarded *found = guarded_of(fault->address);
    struct guarded record = {.state = GUARDED_UNUSED};
    if (found != NULL)
        record = *found;
    if (is_locked)
        os_lock_release(&guard_lock);
    if (record.state == GUARDED_UNUSED)
        return;
    bool is_freed = record.state == GUARDED_FREED;
    report_place(is_freed ? HAK_USE_AFTER_FREE : HAK_HEAP_OVERFLOW, &record, names[fault->access],
                 fault->address);
    struct os_stack stack;
    os_stack_capture_from(&stack, fault->counter);
    os_stack_print("accessed", &stack);
    end(&record);
}

void guarded_report_slack(const struct guarded *record, const char *place) {
    report_place(HAK_HEAP_OVERFLOW, record, "write", place);
    end(record);
}

void guarded_report_told(const struct guarded *record, size_t told_size, size_t told_alignment) {
    bool is_aligned_as_told = is_aligned((uintptr_t)record->block, told_alignment);
    hak_report(is_aligned_as_told ? HAK_SIZE_MISMATCH : HAK_MISALIGNED_POINTER,
               "free(%p): %s is given back as %s %zu", (void *)record->block,
               describe(record, record->asked).text,
               is_aligned_as_told ? "one of" : "a multiple of",
               is_aligned_as_told ? told_size : told_alignment);
    end(record);
}

static enum hak_report_kind kind_of(const struct guarded *record, const void *pointer) {
    return record->block == pointer ? HAK_DOUBLE_FREE : report_kind_inside(pointer);
}

void guarded_report_pointer(const struct guarded *record, const void *pointer,
                            const char *operation) {
    if (record->state == GUARDED_UNUSED)
        report_bad_pointer(pointer, operation);
    bool is_start = record->block == pointer;
    const char *inside = is_start ? "" : "inside ";
    const char *freed = record->state == GUARDED_FREED ? ", freed" : "";
    hak_report(kind_of(record, pointer), "%s(%p): %s%s%s", operation, pointer, inside,
               describe(record, record->size).text, is_start ? " is free already" : freed);
    struct os_stack stack;
    os_stack_capture(&stack);
    os_stack_print("called", &stack);
    end(record);
}
