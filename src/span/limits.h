/* How much memory the heap takes, and how much it may: soft_limit and hard_limit.
 * See limits.c. Thread safe; no locks. */
#ifndef HAK_SPAN_LIMITS_H
#define HAK_SPAN_LIMITS_H

#include <stdatomic.h>

#include "os/metadata.h"

#define NO_LIMIT SIZE_MAX

/* Bytes; relaxed all: each is a value for itself. The first changes with the heap, which
 * the slow path of every thread compares with the second. */
struct limits {
    hak_line_aligned _Atomic size_t charged;
    _Atomic size_t soft, hard, cgroup; /* NO_LIMIT: none, or not known yet */
};
hak_global struct limits limits_now;

/* From the options, at the start. */
void limits_init(void);

/* The heap is about to grow by at most so many bytes. If that is when limits that
 * follow from a cgroup must be known, reads them: files, so no lock is held. */
void limits_expect(size_t bytes);

/* Counts bytes that the kernel may have to back from now on; false if they would pass
 * the hard limit: then they are not counted. And bytes that it need not any more. */
bool limits_charge(size_t bytes);
void limits_discharge(size_t bytes);

/* What counts, descriptors included. */
hak_inline size_t limits_heap_bytes(void) {
    return atomic_load_explicit(&limits_now.charged, memory_order_relaxed) +
           os_metadata_used_bytes();
}

/* Bytes by which the heap is over its soft limit, 0 below it. */
hak_inline size_t limits_excess(void) {
    size_t soft = atomic_load_explicit(&limits_now.soft, memory_order_relaxed);
    size_t heap = limits_heap_bytes();
    return heap > soft ? heap - soft : 0;
}

/* Whether so many bytes more would pass neither limit. */
hak_inline bool limits_have_room(size_t bytes) {
    size_t soft = atomic_load_explicit(&limits_now.soft, memory_order_relaxed);
    size_t hard = atomic_load_explicit(&limits_now.hard, memory_order_relaxed);
    size_t limit = hak_min(soft, hard);
    size_t heap = limits_heap_bytes();
    return heap <= limit && bytes <= limit - heap;
}

/* What is done once each time that the heap passes its soft limit. True for the first
 * to ask; again when the heap has been clearly below in between. */
enum limits_deed { LIMITS_TRIM = 1, LIMITS_TELL = 2 };
bool limits_is_first(enum limits_deed deed);

/* Refusals so far; who sees it change knows of one. */
uint64_t limits_refused_count(void);

/* Processors' worth of time that a cgroup allows, once that is known; else UINT_MAX. */
unsigned limits_processors(void);

struct limits_stats {
    size_t heap_bytes;
    size_t soft_bytes, hard_bytes, cgroup_bytes; /* NO_LIMIT: none, or not known yet */
    uint64_t passed, refused;                    /* times: the soft limit; at the hard one */
};
struct limits_stats limits_stats(void);

#endif
