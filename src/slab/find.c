/* Whose memory a pointer points into, for reports: without a lock, so true only as long as
 * nobody changes it meanwhile. */
#include "slab/pool.h"

bool slab_find(const void *pointer, struct slab_place *place) {
    struct span *span = window_contains(pointer) ? span_of(pointer) : NULL;
    unsigned class = span != NULL && span->state == SPAN_TAKEN ? span_class(span) : 0;
    if (class == 0)
        return false;
    size_t size = class_size(class);
    size_t index = (size_t)((const char *)pointer - span->start) / size;
    *place = (struct slab_place){span->start + index * size, span->start, class};
    return index < span->capacity;
}
