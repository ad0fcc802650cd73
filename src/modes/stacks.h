/* Stacks that many calls have in common, each kept once. See stacks.c. Thread safe. */
#ifndef HAK_MODES_STACKS_H
#define HAK_MODES_STACKS_H

#include "os/stack.h"

enum { STACKS_MAX = 128 * 1024 };

/* Once; false: no memory. */
bool stacks_start(void);

/* The number of a stack's frames, for ever, below STACKS_MAX; 0: none, or there is no room for
 * more. The thread is not kept. */
uint32_t stacks_keep(const struct os_stack *stack);

/* The frames of a number that stacks_keep has given, or none. */
void stacks_get(uint32_t number, struct os_stack *stack);

#endif
