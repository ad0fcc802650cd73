/* Which threads are watched, and by which modes.
 *
 * A cover is a cache of zeros: its rows show every bin full, and the field
 * behind them leads to the thread. Nothing ever writes to its rows, so but for
 * the page of that field it takes no memory. */
#include "modes/watch.h"

#include "modes/exact.h"
#include "modes/guard.h"
#include "os/memory.h"
#include "os/metadata.h"
#include "os/stack.h"

static bool is_wanted(struct thread *thread) {
    bool is_counted = exact_is_on() && exact_begin(thread);
    return is_counted || guard_counts_calls() || hardened_is_on();
}

void watch_loaded(void) { os_stack_loaded(guard_counts_calls() || hardened_is_on()); }

/* In hardened mode an unwatched thread would hand out blocks without seals, so there must be
 * none; statistics that miss one are worth having. */
bool watch_begin(struct thread *thread) {
    guard_begin(thread);
    if (watch_is_on(thread) || !is_wanted(thread))
        return true;
    struct cover *cover = os_metadata_take_sparse(sizeof *cover, os_page_size());
    if (cover == NULL)
        return !hardened_is_on();
    cover->cache.thread = thread;
    hardened_begin_thread(&cover->hardened);
    thread->cover = &cover->cache;
    return true;
}

void watch_flush(struct thread *thread) {
    if (watch_is_on(thread) && hardened_is_on())
        hardened_flush(thread);
}
