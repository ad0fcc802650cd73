/* Giving memory back on request: blocks in bins, what ended threads left, empty slabs. */
#include <limits.h>

#include "front/front.h"
#include "modes/watch.h"
#include "span/span.h"

/* Also when memory is out: what lies free in bins and empty slabs may be just what is
 * needed. Pages inside slabs would not help then, for their addresses stay taken. */
size_t front_trim(void) {
    if (!front_start())
        return 0;
    struct thread *thread = front_thread();
    if (thread != NULL) {
        watch_flush(thread);
        cache_flush(thread);
    }
    registry_settle(UINT64_MAX);
    registry_release(UINT_MAX);
    slab_trim();
    return span_purge_all();
}

size_t front_purge(void) {
    if (!front_start())
        return 0;
    registry_ask_flush(front_thread());
    size_t bytes = front_trim();
    return bytes + slab_purge_pages();
}
