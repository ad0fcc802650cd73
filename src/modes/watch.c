/* Which threads are watched, and by which modes.
 *
 * A cover is a cache of zeros: its rows show every bin full, and the field
 * behind them leads to the thread. Nothing ever writes to its rows, so but for
 * the page of that field it takes no memory. */
#include "modes/watch.h"

#include "modes/exact.h"
#include "os/memory.h"
#include "os/metadata.h"

void watch_begin(struct thread *thread) {
    if (!exact_is_on() || watch_is_on(thread))
        return;
    if (!exact_begin(thread))
        return;
    struct cache *cover = os_metadata_take_sparse(sizeof *cover, os_page_size());
    if (cover == NULL)
        return;
    cover->thread = thread;
    thread->cover = cover;
}

void watch_saw_take(struct thread *thread, unsigned bin, size_t bytes) {
    exact_count_take(thread, bin, bytes);
}

void watch_saw_give(struct thread *thread, unsigned bin) { exact_count_give(thread, bin); }
