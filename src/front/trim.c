/* Giving memory back on request: blocks in bins, what ended threads left, empty slabs. */
#include <limits.h>

#include "front/front.h"
#include "span/span.h"

size_t front_trim(void) {
    if (!front_start())
        return 0;
    struct thread *thread = front_thread();
    if (thread != NULL)
        cache_flush(thread);
    registry_release(UINT_MAX);
    slab_trim();
    return span_purge_all();
}
