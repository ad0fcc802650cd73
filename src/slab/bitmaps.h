/* Memory for the bitmaps of slabs with many small blocks. See bitmaps.c. */
#ifndef HAK_SLAB_BITMAPS_H
#define HAK_SLAB_BITMAPS_H

#include "os/lock.h"
#include "span/super.h"

/* Points span->free_bits to room for its capacity; false when out of memory. */
bool bitmaps_take(struct span *span);
void bitmaps_give(struct span *span);

/* For fork, which takes every lock. */
hak_global struct os_lock bitmaps_lock;

#endif
