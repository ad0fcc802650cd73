/* Watched threads: those whose every call a mode must see. See README.md. */
#ifndef HAK_MODES_WATCH_H
#define HAK_MODES_WATCH_H

#include "cache/cache.h"
#include "modes/exact.h"
#include "modes/hardened.h"

/* What a watched thread has besides: the cache that it shows, all zero but for the field that
 * leads to the thread, and in the page of that field what modes keep of it. */
struct cover {
    struct cache cache;
    struct hardened_thread hardened;
};
_Static_assert(sizeof(struct cover) - sizeof(((struct cache *)0)->rows) <= 4096,
               "all but the rows is a page");

/* At a thread's birth: makes it watched if a mode in force asks for it. False: it must be, and
 * there is no memory for it. */
bool watch_begin(struct thread *thread);

/* The library is loaded, and options are known: a process whose threads will be watched sees to
 * what reports need. */
void watch_loaded(void);

hak_inline bool watch_is_on(const struct thread *thread) { return thread->cover != NULL; }

/* What the fast path of this thread is to work on. */
hak_inline const struct row *watch_shown_row(const struct thread *thread) {
    return watch_is_on(thread) ? &cache_closed_row : thread->own;
}
hak_inline struct cache *watch_shown_cache(struct thread *thread) {
    return watch_is_on(thread) ? thread->cover : &thread->cache;
}

/* Of a thread in hardened mode. */
hak_inline struct hardened_thread *watch_hardened(struct thread *thread) {
    return &container_of(thread->cover, struct cover, cache)->hardened;
}

/* What modes hold of a thread's blocks goes to its bins. */
void watch_flush(struct thread *thread);

/* A watched thread has got a block of a bin (a size class, or BIN_LARGE) after
 * asking for bytes; has given one back. */
hak_inline void watch_saw_take(struct thread *thread, unsigned bin, size_t bytes) {
    if (exact_counts_thread(thread))
        exact_count_take(thread, bin, bytes);
}
hak_inline void watch_saw_give(struct thread *thread, unsigned bin) {
    if (exact_counts_thread(thread))
        exact_count_give(thread, bin);
}

#endif
