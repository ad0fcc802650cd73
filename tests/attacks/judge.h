/* The judge, for main.c. */
#ifndef TESTS_ATTACKS_JUDGE_H
#define TESTS_ATTACKS_JUDGE_H

#include <stdbool.h>

#include "attack.h"

/* Best first. */
enum outcome { OUTSIDE, WRITE, OVERLAP, INTERIOR, DUPLICATE, LEAK, NONE };

/* What has been reached so far. May be asked in a signal handler. */
enum outcome judge_outcome(void);
const char *outcome_name(enum outcome outcome);

/* Takes blocks of all sizes that the attack has taken, more than it has given: what a
 * freed pointer can become, it becomes now. */
void judge_harvest(void);

/* Gives back all that is still in use, as a well-behaved rest of the program does. */
void judge_give_rest(void);

/* Takes and gives many blocks of each size: an allocator may hold back for a while what is
 * freed, and look at it when it serves again. These blocks are not judged. */
void judge_press_out(void);

/* HAKMEM's blocks lie in one window of at most 1 TiB, and all else does not: its metadata,
 * the program's memory. False if a block lies elsewhere. */
bool judge_blocks_are_near(void);

#endif
