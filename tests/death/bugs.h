/* Tiny programs with one bug each. main.c runs the one that argv[1] names; the
 * bug announces on standard output which pointer its report has to name:
 *
 *   address 0x...   the bad pointer
 *   block 0x...     the block that it points into, where there is one
 *   size N          that block's size
 *
 * A bug that ends without a report is a failure: main.c then says "unnoticed". */
#ifndef TESTS_DEATH_BUGS_H
#define TESTS_DEATH_BUGS_H

#include <stddef.h>
#include <stdint.h>

#include "support.h"

struct bug {
    const char *name;
    void (*make)(void);
};

/* Each ends with an entry whose name is NULL. */
extern const struct bug bugs_foreign[];
extern const struct bug bugs_inside[];
extern const struct bug bugs_double[];
extern const struct bug bugs_flush[];
extern const struct bug bugs_hardened[]; /* seen in hardened mode */

/* Hides from the compiler where a pointer came from, or it would refuse to
 * compile these programs. */
void *hidden(const void *pointer);

void announce(const void *address);
void announce_block(const void *block, size_t size);

/* Makes this thread's free blocks of `size` go home, by pushing more of them
 * than a bin holds. What is in the bin before goes first. */
void flush_by_frees(size_t size);

/* Runs a function in a thread of its own and waits for its end. What it freed may rest then, but
 * goes home with the next process_trim. */
void in_a_thread(void (*run)(void *), void *argument);

#endif
