/* Giving memory back on request. */
#include "front/front.h"
#include "span/span.h"

size_t front_trim(void) {
    if (!front_start())
        return 0;
    struct thread *thread = front_thread();
    if (thread != NULL)
        cache_flush(thread);
    slab_trim();
    return span_purge_all();
}
