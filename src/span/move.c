/* realloc of a large block moves page-table entries: no byte is copied, and at no
 * moment are both copies resident.
 *
 * The price is mappings. Pages that have been moved remember where they come
 * from, so the kernel cannot join their mapping with its neighbours:
 *
 *   before   | one mapping of a whole range                 |
 *   after    | ...             | moved pages | ...          |    two more
 *
 * A process may have 65,530 of them. So slabs that hold moved pages are marked
 * and counted, and there is a limit on their number. When such slabs are purged,
 * a fresh mapping takes their place, which joins its neighbours again. */
#include "span/move.h"

enum { MOVED_SLABS_MAX = 16384 };

/* Bits set in the moved masks of all SuperSlabs. */
static _Atomic uint32_t moved_slabs;

static void count_moved(uint32_t before, uint32_t after) {
    uint32_t change = bit_count(after) - bit_count(before);
    if (change != 0)
        /* atomic: cold, correctness; no partner: a count, read in move_pages. */
        atomic_fetch_add_explicit(&moved_slabs, change, memory_order_relaxed);
}

/* Marks the slabs that hold bytes from start. */
static void mark(const char *start, size_t bytes) {
    size_t first = window_slab_index(start);
    size_t last = window_slab_index(start + bytes - 1);
    for (size_t slab = first; slab <= last; slab++) {
        struct super *super = window_super(slab / SUPER_SLABS);
        uint32_t bit = slab_mask(slab % SUPER_SLABS, 1);
        /* atomic: cold, correctness; no partner: a bit, cleared in move_out by the
         * span's next owner. */
        uint32_t before = atomic_fetch_or_explicit(&super->moved, bit, memory_order_relaxed);
        count_moved(before, before | bit);
    }
}

/* Copying into pages that are there costs less than moving, and takes no memory;
 * into pages that are not, it would fault each of them in. */
static bool is_warm(void *start, size_t bytes) {
    size_t pages = hak_min(bytes / os_page_size(), (size_t)OS_RESIDENT_MAX_PAGES);
    return os_resident_pages(start, bytes) >= pages / 2;
}

bool move_pages(void *from, void *to, size_t bytes) {
    size_t page = os_page_size();
    bool possible = bytes >= MOVE_MIN_BYTES && window_contains(from) && window_contains(to) &&
                    is_aligned((uintptr_t)from | (uintptr_t)to, page);
    if (!possible || atomic_load_explicit(&moved_slabs, memory_order_relaxed) >= MOVED_SLABS_MAX ||
        is_warm(to, bytes) || !os_move_pages(from, to, align_up(bytes, page)))
        return false;
    mark(to, bytes);
    return true;
}

bool move_out(struct super *super, uint32_t slabs) {
    bool all_zero = true;
    while (slabs != 0) {
        unsigned first = bit_lowest(slabs);
        unsigned count = bit_lowest(~((uint64_t)slabs >> first));
        uint32_t run = slab_mask(first, count);
        char *start = super->start + (size_t)first * SLAB_BYTES;
        size_t bytes = (size_t)count * SLAB_BYTES;
        uint32_t moved = atomic_load_explicit(&super->moved, memory_order_relaxed);
        if ((moved & run) != 0 && os_commit(start, bytes)) {
            /* atomic: cold, correctness; no partner: other spans' bits change too. */
            moved = atomic_fetch_and_explicit(&super->moved, ~run, memory_order_relaxed);
            count_moved(moved, moved & ~run);
        } else {
            all_zero &= os_purge(start, bytes);
        }
        slabs &= ~run;
    }
    return all_zero;
}
