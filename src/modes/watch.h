/* Watched threads: those whose every call a mode must see. See README.md. */
#ifndef HAK_MODES_WATCH_H
#define HAK_MODES_WATCH_H

#include "cache/cache.h"

/* At a thread's birth: makes it watched if a mode in force asks for it. */
void watch_begin(struct thread *thread);

hak_inline bool watch_is_on(const struct thread *thread) { return thread->cover != NULL; }

/* What the fast path of this thread is to work on. */
hak_inline const struct row *watch_shown_row(const struct thread *thread) {
    return watch_is_on(thread) ? &cache_closed_row : thread->own;
}
hak_inline struct cache *watch_shown_cache(struct thread *thread) {
    return watch_is_on(thread) ? thread->cover : &thread->cache;
}

/* A watched thread has got a block of a bin (a size class, or BIN_LARGE) after
 * asking for bytes; has given one back. */
void watch_saw_take(struct thread *thread, unsigned bin, size_t bytes);
void watch_saw_give(struct thread *thread, unsigned bin);

#endif
