/* Memory for HAKMEM's own descriptors, apart from all memory that it hands out.
 * See metadata.c. */
#ifndef HAK_OS_METADATA_H
#define HAK_OS_METADATA_H

#include "base/base.h"
#include "os/lock.h"

/* Zero memory, aligned to a cache line, or to a page if it is that large; NULL when the kernel has
 * none. It is never given back: whoever retires a descriptor keeps it for its next of the same
 * kind. Thread safe. */
void *os_metadata_take(size_t bytes);

/* Bytes taken so far. */
size_t os_metadata_bytes(void);

/* For fork, which takes every lock. */
hak_global struct os_lock os_metadata_lock;

#endif
