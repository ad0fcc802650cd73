/* For programs that move their own objects.
 *
 * Such a program frees into the bin from which it takes: each object would land where the
 * one before it was, in the slab that is to become empty. So blocks of sparse slabs on
 * top of the bin go home first, and what then lies there, or the next refill brings, is of
 * slabs that are to stay. */
#include "cache/bins.h"

/* The block has left the bin before its bit is set, also as the child of a fork sees it: the
 * forking thread takes the pool's lock after this thread has released it. */
static void flush_newest(struct bin *bin, unsigned class) {
    void *block = *bin_top(bin);
    bin_set_top(bin, bin_top(bin) - 1);
    slab_give(class, &block, 1);
}

bool cache_is_sparse(struct thread *thread, uint16_t entry, const void *block) {
    unsigned class = entry_bin(entry);
    if (!slab_is_sparse(block, class))
        return false;
    bin_unpark(thread, class);
    struct bin *bin = &thread->own->bins[class];
    while (*bin_top(bin) != NULL && slab_is_sparse(*bin_top(bin), class))
        flush_newest(bin, class);
    return true;
}
