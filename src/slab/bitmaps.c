/* A slab of 512-byte blocks needs 2 words of bitmap, one of 16-byte blocks 64.
 * Two lie in the descriptor itself, which then is a single cache line; slabs
 * with more blocks borrow an array of 4, 8 .. 64 words from here, so that the
 * descriptors of a small program stay on a few pages.
 *
 * Lock: bitmaps_lock protects the lists of returned arrays. */
#include "slab/bitmaps.h"

#include "os/metadata.h"

enum { SMALLEST_WORDS = 4, KINDS = 5 };
_Static_assert(SMALLEST_WORDS << (KINDS - 1) == SPAN_BITMAP_WORDS, "the largest holds any slab");

struct os_lock bitmaps_lock;
static uint64_t *returned[KINDS]; /* linked through their first word */

static unsigned kind_of(const struct span *span) {
    unsigned words = (unsigned)divide_up(span->capacity, WORD_BITS);
    unsigned kind = 0;
    while ((unsigned)SMALLEST_WORDS << kind < words)
        kind++;
    return kind;
}

bool bitmaps_take(struct span *span) {
    if (span->capacity <= SPAN_INLINE_WORDS * WORD_BITS) {
        span->free_bits = span->inline_bits;
        return true;
    }
    unsigned kind = kind_of(span);
    os_lock_acquire(&bitmaps_lock);
    uint64_t *words = returned[kind];
    if (words != NULL)
        returned[kind] = (uint64_t *)(uintptr_t)words[0]; // NOLINT(performance-no-int-to-ptr)
    os_lock_release(&bitmaps_lock);
    if (words == NULL)
        words = os_metadata_take(((size_t)SMALLEST_WORDS << kind) * sizeof *words);
    span->free_bits = words;
    return words != NULL;
}

void bitmaps_give(struct span *span) {
    uint64_t *words = span->free_bits;
    span->free_bits = NULL;
    if (words == span->inline_bits)
        return;
    unsigned kind = kind_of(span);
    os_lock_acquire(&bitmaps_lock);
    words[0] = (uintptr_t)returned[kind];
    returned[kind] = words;
    os_lock_release(&bitmaps_lock);
}
