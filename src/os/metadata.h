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

/* The same for a descriptor of which about used_bytes will be written to in its life. */
void *os_metadata_take_sparse(size_t bytes, size_t used_bytes);

/* Whether an address lies in such memory. */
bool os_metadata_contains(uintptr_t address);

/* Bytes taken so far. */
size_t os_metadata_bytes(void);

/* How many of them are in use. Written under the lock, read by os_metadata_used_bytes. */
hak_global _Atomic size_t os_metadata_used;

hak_inline size_t os_metadata_used_bytes(void) {
    return atomic_load_explicit(&os_metadata_used, memory_order_relaxed);
}

/* For fork, which takes every lock. */
hak_global struct os_lock os_metadata_lock;

#endif
