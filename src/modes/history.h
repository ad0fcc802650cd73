/* What was done to blocks, by which thread and from where (options history, leaks). See
 * history.c. Thread safe. */
#ifndef HAK_MODES_HISTORY_H
#define HAK_MODES_HISTORY_H

#include "os/options.h"
#include "os/stack.h"

enum history_kind { HISTORY_NOTHING, HISTORY_TAKEN, HISTORY_FREED, HISTORY_RESIZED };

/* Never changes once the first block is out; only in hardened mode. */
hak_inline bool history_is_on(void) {
    return hak_unlikely((hak_options.history | hak_options.leaks) != 0);
}

/* At the start, when options are read; says so and switches it off where it cannot be had. */
void history_start(void);

/* Notes an event of the program's block that starts here: before the block may be freed, or
 * before another may get it. */
void history_add(enum history_kind kind, const void *block, size_t size);
hak_inline void history_note(enum history_kind kind, const void *block, size_t size) {
    if (history_is_on())
        history_add(kind, block, size);
}

/* For a report: where the calling thread is, and the latest events of a block, newest first.
 * Nothing where no history is kept. */
void history_print_caller(void);
void history_print(const void *block);

/* --- for leaks.c ------------------------------------------------------------------- */

/* The program's block in the window: true for the first to ask. */
bool history_reach(const void *block);
bool history_is_reached(const void *block);

/* The number (stacks.h) of where a live block was last taken or resized; 0: not known. */
uint32_t history_stack_of(const void *block);

#endif
