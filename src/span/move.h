/* Pages on the move: from block to block, and back to the kernel. See move.c.
 * Thread safe. */
#ifndef HAK_SPAN_MOVE_H
#define HAK_SPAN_MOVE_H

#include "span/super.h"

/* From this size on moving pages costs less than copying into fresh ones. */
enum { MOVE_MIN_BYTES = 256 * 1024 };

/* Moves the contents of one block to another where that pays: both the caller's,
 * of at least bytes rounded up to whole pages. What pages `to` had go; `from` then
 * reads as zero. False: nothing was moved, copy. */
bool move_pages(void *from, void *to, size_t bytes);

/* Gives the pages of free slabs that the caller has taken off all lists back to
 * the kernel; true if they all read as zero now. */
bool move_out(struct super *super, uint32_t slabs);

#endif
