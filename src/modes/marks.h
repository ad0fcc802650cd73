/* Which blocks are with the program: a bit for each place where one may start. See marks.c,
 * which has what is seldom needed: the rest is inlined into each malloc and free. */
#ifndef HAK_MODES_MARKS_H
#define HAK_MODES_MARKS_H

#include "slab/slab.h"

enum { MARK_BYTES = CLASS_STEP, MARKS_OF_SUPER = SUPER_BYTES / MARK_BYTES };

struct marks_piece {
    _Atomic uint64_t in_use[MARKS_OF_SUPER / WORD_BITS];
    _Atomic uint64_t cuts[SUPER_SLABS];
    _Atomic uint64_t notes[]; /* history.c's, one a mark; only where history is kept */
};
hak_global struct marks_piece *_Atomic *marks_pieces; /* as many as the window has SuperSlabs */

/* Once, when the window is there; false: no memory. */
bool marks_start(void);

/* Of a SuperSlab that has none yet; NULL: no memory. */
struct marks_piece *marks_make_piece(size_t super);

hak_inline struct marks_piece *marks_piece_at(size_t super) {
    /* Pairs with the release in marks_make_piece: it is zero. */
    return atomic_load_explicit(&marks_pieces[super], memory_order_acquire);
}

hak_inline size_t marks_place(const void *pointer) {
    return (uintptr_t)pointer % SUPER_BYTES / MARK_BYTES;
}

/* The word and the bit of an address. */
hak_inline _Atomic uint64_t *marks_word(struct marks_piece *piece, const void *pointer,
                                        uint64_t *bit) {
    size_t place = marks_place(pointer);
    *bit = UINT64_C(1) << place % WORD_BITS;
    return &piece->in_use[place / WORD_BITS];
}

/* Of a block in the window. */
enum marks_result { MARKS_SET, MARKS_WAS_SET, MARKS_NO_MEMORY };
hak_inline enum marks_result marks_set(const void *block) {
    size_t super = window_super_index(block);
    struct marks_piece *piece = marks_piece_at(super);
    if (hak_unlikely(piece == NULL) && (piece = marks_make_piece(super)) == NULL)
        return MARKS_NO_MEMORY;
    uint64_t bit;
    _Atomic uint64_t *word = marks_word(piece, block, &bit);
    /* atomic: warm, correctness; its partner is that of marks_clear: one of them comes first.
     * The blocks around are other threads'. */
    uint64_t before = atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    return (before & bit) == 0 ? MARKS_SET : MARKS_WAS_SET;
}

/* NULL: no block has ever started near here, or none can. */
hak_inline struct marks_piece *marks_piece_of(const void *pointer) {
    bool may_start_block = window_contains(pointer) && is_aligned((uintptr_t)pointer, MARK_BYTES);
    return may_start_block ? marks_piece_at(window_super_index(pointer)) : NULL;
}

/* Of any pointer. True for one caller alone: the block was the program's till now. */
hak_inline bool marks_clear(const void *pointer) {
    struct marks_piece *piece = marks_piece_of(pointer);
    if (hak_unlikely(piece == NULL))
        return false;
    uint64_t bit;
    _Atomic uint64_t *word = marks_word(piece, pointer, &bit);
    /* atomic: warm, correctness; its partner is itself: of two frees one finds the bit set. */
    return (atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed) & bit) != 0;
}

/* False for every pointer but that of a block with the program. */
hak_inline bool marks_has(const void *pointer) {
    struct marks_piece *piece = marks_piece_of(pointer);
    if (piece == NULL)
        return false;
    uint64_t bit;
    _Atomic uint64_t *word = marks_word(piece, pointer, &bit);
    return (atomic_load_explicit(word, memory_order_relaxed) & bit) != 0;
}

/* --- cuts: what uses slabs have served ------------------------------------------- */

enum { MARKS_USE_BITS = 32 };

/* Of several slabs; of any use. */
uint64_t marks_cuts_of(size_t first_slab, size_t last_slab);
void marks_note_cut_of(const void *block, size_t first_slab, size_t last_slab, unsigned bin);

hak_inline size_t marks_last_slab(const void *block, size_t room) {
    return window_slab_index((const char *)block + room - 1);
}

hak_inline uint64_t marks_cut(size_t slab) {
    struct marks_piece *piece = marks_piece_at(slab / SUPER_SLABS);
    return atomic_load_explicit(&piece->cuts[slab % SUPER_SLABS], memory_order_relaxed);
}

/* How many times the slabs that hold [block, block + room), which has had a mark, have been cut
 * up for another use, added up: the same only as long as no byte there has been part of another
 * block. */
hak_inline uint64_t marks_cuts(const void *block, size_t room) {
    size_t first = window_slab_index(block);
    size_t last = marks_last_slab(block, room);
    if (hak_likely(first == last))
        return marks_cut(first) >> MARKS_USE_BITS;
    return marks_cuts_of(first, last);
}

/* Whoever gets a block of a bin (a size class, or BIN_LARGE) notes it, before it is used. */
hak_inline void marks_note_cut(const void *block, size_t room, unsigned bin) {
    size_t first = window_slab_index(block);
    size_t last = marks_last_slab(block, room);
    bool is_known = first == last && bin < CLASS_COUNT && size_classes[bin].slabs == 1 &&
                    (uint32_t)marks_cut(first) == 1 + bin;
    if (hak_unlikely(!is_known))
        marks_note_cut_of(block, first, last, bin);
}

#endif
