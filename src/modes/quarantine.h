/* Freed blocks that wait before they may be handed out again. See quarantine.c. */
#ifndef HAK_MODES_QUARANTINE_H
#define HAK_MODES_QUARANTINE_H

#include <stdatomic.h>

#include "base/base.h"

/* With the field before it, within the page that a cover has for itself (watch.h). */
enum { QUARANTINE_BLOCKS = 256 };

/* A thread's own; all zero is empty. first and count are stored with release: the ring lies on
 * one page, which a fork in another thread copies at one moment, and the places that then count
 * must be of blocks that are in. */
struct quarantine {
    size_t bytes;           /* of its blocks' rooms */
    _Atomic uint32_t first; /* the oldest */
    _Atomic uint32_t count; /* it and those behind it, round the end */
    void *blocks[QUARANTINE_BLOCKS];
};

/* Blocks with more room than this do not wait. */
enum { QUARANTINE_ROOM_MAX = 32 * 1024 };

/* Whether one has to leave before a block with so much room comes in. */
bool quarantine_is_full(const struct quarantine *quarantine, size_t room);

/* A block of a size class comes in, behind at least the older half; random: any number. */
void quarantine_push(struct quarantine *quarantine, void *block, size_t room, uint32_t random);

/* The one that leaves next; NULL: there is none. */
void *quarantine_pop(struct quarantine *quarantine);

/* In the child of a fork, of a thread that is not there any more: calls visit for each block
 * that was surely in. */
void quarantine_visit(const struct quarantine *quarantine, void (*visit)(void *block));

#endif
