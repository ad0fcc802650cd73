/* What hardened mode has to say of a block. See fault.c. */
#ifndef HAK_MODES_FAULT_H
#define HAK_MODES_FAULT_H

#include "slab/slab.h"

/* The block that a pointer points into. */
struct fault_block {
    const char *start;
    size_t room; /* bytes up to the next block */
    size_t size; /* as asked for, or SIZE_MAX where nothing tells it any more */
    const void *slab;
    unsigned class; /* 0: a large or huge block */
};

/* False: into none that there is, or was lately. fault_place leaves out the size. */
bool fault_place(const void *pointer, struct fault_block *block);
bool fault_find(const void *pointer, struct fault_block *block);

/* The end of the process: "hakmem: KIND: OPERATION(POINTER): [inside ]block ... " and the text. */
_Noreturn void fault_report(enum hak_report_kind kind, const char *operation, const void *pointer,
                            const struct fault_block *block, const char *format, ...)
    __attribute__((cold, format(printf, 5, 6)));

/* For a pointer in which no block of the program starts. */
_Noreturn void fault_report_no_block(const void *pointer, const char *operation)
    __attribute__((cold));

#endif
