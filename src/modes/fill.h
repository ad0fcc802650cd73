/* What freed memory is filled with (options hardened=2 and zero_on_free). See fill.c. */
#ifndef HAK_MODES_FILL_H
#define HAK_MODES_FILL_H

#include "base/base.h"

/* A block of the window, its seal looked at, is free now: fills it as the options say. */
void fill_freed(void *block, size_t room, size_t size);

/* A block of the window keeps its first bytes alone, whole pages: fills the rest, which is
 * looked at by nobody, as that of a freed one. */
void fill_tail(void *block, size_t room, size_t kept);

/* Of a block that is to be handed out: the offset of the first byte that is not as it was
 * filled; FILL_INTACT, also where nothing is known. */
#define FILL_INTACT SIZE_MAX
size_t fill_damage(const void *block, size_t room);

#endif
