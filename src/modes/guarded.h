/* What guard.c and its reports share. */
#ifndef HAK_MODES_GUARDED_H
#define HAK_MODES_GUARDED_H

#include "base/list.h"
#include "os/fault.h"
#include "os/stack.h"
#include "span/span.h"

enum guarded_state { GUARDED_UNUSED, GUARDED_LIVE, GUARDED_FREED };

/* A guarded block, live or freed. */
struct guarded {
    struct list link; /* unused, or freed; under guard_lock */
    uint8_t state;    /* enum guarded_state; under guard_lock */
    bool is_reached;  /* guard_reach; the same */
    struct span *span;
    char *pages; /* those that are accessible while it is live, */
    size_t pages_bytes;
    char *block;      /* on them, */
    size_t alignment; /* a multiple of this; */
    size_t size;      /* what the program may use, */
    size_t asked;     /* and what it asked for: less, where nallocx had promised more */
    struct os_stack allocated, freed;
};

/* The block that has the slab of a pointer for itself, or NULL. A guess for pointers that are
 * not to a guarded block in use. */
struct guarded *guarded_of(const void *pointer);

/* What a block of its size and alignment has where it is not guarded: that of its size class, or,
 * over CLASS_SIZE_MAX, whole slabs. */
size_t guarded_class_bytes(const struct guarded *record);

/* --- guard_report.c ---------------------------------------------------------------- */

/* Of an access that faulted; returns if no guarded block has to do with it. */
void guarded_look(const struct os_fault *fault);

/* A call of the program's with a pointer that is not to a guarded block in use, though it lies in
 * the slab of one; record is a copy. */
_Noreturn void guarded_report_pointer(const struct guarded *record, const void *pointer,
                                      const char *operation);

/* The caller says of a block in use what is not so: see guard_give. */
_Noreturn void guarded_report_told(const struct guarded *record, size_t told_size,
                                   size_t told_alignment);

/* Something was written at a place beside a block that has just been freed. */
_Noreturn void guarded_report_slack(const struct guarded *record, const char *place);

#endif
