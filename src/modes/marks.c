/* In-use marks: out of reach of the program, asked at each free.
 *
 *   pieces[SuperSlab] --> piece: a bit for each 16 bytes of 2 MiB; 16 KiB
 *
 *   SuperSlab   | block     | block     | block     |
 *   in_use        1 0 0 0     0 0 0 0     1 0 0 0       the second is in a bin, or free
 *
 * The slabs' own bitmaps (slab/slab.c) do not tell blocks in bins from those with the program,
 * and are changed under a lock. Here a bit belongs to an address: that it is set proves that a
 * block of the program starts there, whatever class its slab has, with no division. Freeing a
 * block is clearing its bit; of two threads that free it at once one finds it clear.
 *
 * A piece is had when the first block starts in its SuperSlab, and stays. Of two threads that
 * have one at the same moment one forgets its own, of which no page has been touched.
 *
 * Cuts (hardened=2) tell whether what a freed block was filled with can still be there. A slab's
 * word holds how often it has changed its use, and the use:
 *
 *   | changes | 1 + class, and which slab of its span it is |
 *
 * It is written by whoever gets a block there, so before the block is used. While anyone holds
 * a block of a slab, the slab keeps its use, and all who write its word write the same: a
 * plain store will do. */
#include "modes/marks.h"

#include "modes/history.h"
#include "os/frozen.h"
#include "os/memory.h"
#include "os/metadata.h"

hak_frozen struct marks_piece *_Atomic *marks_pieces;

bool marks_start(void) {
    size_t bytes = window_slab_count / SUPER_SLABS * sizeof *marks_pieces;
    if (marks_pieces == NULL)
        marks_pieces = os_map_aligned(align_up(bytes, os_page_size()), 1);
    return marks_pieces != NULL;
}

hak_cold struct marks_piece *marks_make_piece(size_t super) {
    size_t notes = history_is_on() ? MARKS_OF_SUPER : 0;
    size_t bytes = sizeof(struct marks_piece) + notes * sizeof(uint64_t);
    struct marks_piece *made = os_metadata_take_sparse(bytes, os_page_size());
    struct marks_piece *there = NULL;
    if (made == NULL)
        return NULL;
    /* atomic: cold, correctness; pairs with the acquire in marks_piece_at, and here. */
    if (atomic_compare_exchange_strong_explicit(&marks_pieces[super], &there, made,
                                                memory_order_acq_rel, memory_order_acquire))
        return made;
    return there;
}

/* --- cuts ------------------------------------------------------------------------ */

/* NULL where no block has ever started, so that nothing has been filled. */
static _Atomic uint64_t *cut_of(size_t slab) {
    struct marks_piece *piece = marks_piece_at(slab / SUPER_SLABS);
    return piece == NULL ? NULL : &piece->cuts[slab % SUPER_SLABS];
}

/* Where the span of a block starts: in its own slab, unless spans of the class are longer. */
static size_t span_slab(const void *block, unsigned class) {
    if (size_classes[class].slabs == 1)
        return window_slab_index(block);
    return window_slab_index(span_of(block)->start);
}

void marks_note_cut_of(const void *block, size_t first_slab, size_t last_slab, unsigned bin) {
    bool is_large = bin == BIN_LARGE; /* alone in its slabs, and each time anew */
    size_t span = is_large ? first_slab : span_slab(block, bin);
    for (size_t slab = first_slab; slab <= last_slab; slab++) {
        _Atomic uint64_t *cut = cut_of(slab);
        if (cut == NULL)
            continue;
        uint64_t was = atomic_load_explicit(cut, memory_order_relaxed);
        uint64_t use = 1 + bin + (slab - span) * BIN_COUNT;
        if (is_large || (was & bits_low(MARKS_USE_BITS)) != use)
            atomic_store_explicit(cut, ((was >> MARKS_USE_BITS) + 1) << MARKS_USE_BITS | use,
                                  memory_order_relaxed);
    }
}

uint64_t marks_cuts_of(size_t first_slab, size_t last_slab) {
    uint64_t sum = 0;
    for (size_t slab = first_slab; slab <= last_slab; slab++) {
        _Atomic uint64_t *cut = cut_of(slab);
        if (cut != NULL)
            sum += atomic_load_explicit(cut, memory_order_relaxed) >> MARKS_USE_BITS;
    }
    return sum;
}
