/* The model's side of the interpreter: which blocks there are and what is in
 * them. See model.c. */
#ifndef HAK_TESTS_MODEL_MODEL_H
#define HAK_TESTS_MODEL_MODEL_H

#include "interpreter.h"

/* From here on blocks are mappings of their own, and no test can afford to touch
 * them all. */
#define HUGE_BYTES ((size_t)1 << 30)

_Noreturn void model_violated(const struct interpreter *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A call returned a new block for an empty slot: checks it and fills it. */
void model_add(struct interpreter *run, struct block *slot, struct block block);

/* The block's contents are as it left them below `checked` bytes. */
void model_check(const struct interpreter *run, const struct block *block, size_t checked);

/* The block leaves the model; the slot is empty then. */
struct block model_remove(struct interpreter *run, struct block *slot);

/* What a call without result may mean: counts it, or finds that there should
 * have been one. */
void model_refused(struct interpreter *run, size_t bytes, size_t alignment);

#endif
