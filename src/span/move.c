/* realloc of a large block moves page-table entries: no byte is copied, and at no
 * moment are both copies resident.
 *
 * The price is mappings. Pages that have been moved remember where they come
 * from, so the kernel cannot join their mapping with its neighbours:
 *
 *   before   | one mapping of a whole range                 |
 *   after    | ...             | moved pages | ...          |    two more
 *
 * A process may have 65,530 of them, and needs most for other things. So the ranges of
 * moved pages are counted, and there may be few: large ones most, for which copying
 * costs most. When slabs of such a range are purged, a fresh mapping takes their place,
 * which joins its neighbours again; what is left of the range may be two.
 *
 *   moved     . 1 1 1 1 . . 1 1 1 .
 *   heads     . 1 . 1 . . . 1 . . .      three ranges */
#include "span/move.h"

#include "span/span.h"

enum {
    RANGES_MAX = 1024,
    SMALL_RANGES_MAX = RANGES_MAX / 2, /* when more must be for large ones */
    LARGE_RANGE_BYTES = 1024 * 1024,
};

/* Bits set in the heads of all SuperSlabs. */
static _Atomic uint32_t range_count;

static void add_ranges(uint32_t change) {
    /* atomic: cold, correctness; no partner: a count, read in has_room. */
    atomic_fetch_add_explicit(&range_count, change, memory_order_relaxed);
}

static bool has_room(size_t bytes) {
    uint32_t most = bytes >= LARGE_RANGE_BYTES ? RANGES_MAX : SMALL_RANGES_MAX;
    return atomic_load_explicit(&range_count, memory_order_relaxed) < most;
}

/* Changes some bits of a set; returns those that were not so before. */
static uint32_t set_bits(_Atomic uint32_t *set, uint32_t bits, bool on) {
    uint32_t before = atomic_load_explicit(set, memory_order_relaxed);
    if ((on ? ~before & bits : before & bits) == 0)
        return 0;
    /* atomic: cold, correctness; no partner: other spans' bits change too. */
    before = on ? atomic_fetch_or_explicit(set, bits, memory_order_relaxed)
                : atomic_fetch_and_explicit(set, ~bits, memory_order_relaxed);
    return (on ? ~before : before) & bits;
}

static void set_heads(struct super *super, uint32_t bits, bool on) {
    uint32_t changed = bit_count(set_bits(&super->moved_heads, bits, on));
    if (changed != 0)
        add_ranges(on ? changed : -changed);
}

/* A range ends before a slab: what goes on there is another. */
static void end_range(size_t slab) {
    struct super *super = slab < window_slab_count ? window_super(slab / SUPER_SLABS) : NULL;
    uint32_t bit = slab_mask(slab % SUPER_SLABS, 1);
    if (super != NULL && (atomic_load_explicit(&super->moved, memory_order_relaxed) & bit) != 0)
        set_heads(super, bit, true);
}

/* The slabs that hold bytes from start are one range now. */
static void mark(const char *start, size_t bytes) {
    size_t first = window_slab_index(start);
    size_t last = window_slab_index(start + bytes - 1);
    for (size_t slab = first; slab <= last; slab++) {
        struct super *super = window_super(slab / SUPER_SLABS);
        uint32_t bit = slab_mask(slab % SUPER_SLABS, 1);
        set_bits(&super->moved, bit, true);
        set_heads(super, bit, slab == first);
    }
    end_range(last + 1);
}

/* Slabs of a SuperSlab in a row have a fresh mapping. */
static void unmark(struct super *super, unsigned first, unsigned count) {
    uint32_t run = slab_mask(first, count);
    set_bits(&super->moved, run, false);
    set_heads(super, run, false);
    end_range(window_slab_index(super->start) + first + count);
}

/* Copying into pages that are there costs less than moving, and takes no memory;
 * into pages that are not, it would fault each of them in. */
static bool is_warm(void *start, size_t bytes) {
    size_t pages = hak_min(bytes / os_page_size(), (size_t)OS_RESIDENT_MAX_PAGES);
    return os_resident_pages(start, bytes) >= pages / 2;
}

/* A fresh mapping lies under [start, start + bytes): it is to be like its neighbours. */
static void ask_again(char *start, size_t bytes) {
    char *end = start + bytes;
    while (start < end) {
        size_t index = window_super_index(start);
        char *stop = hak_min(window_super_address(index + 1), end);
        if (window_super(index)->wants_huge)
            os_ask_huge_pages(start, (size_t)(stop - start));
        start = stop;
    }
}

bool move_pages(void *from, void *to, size_t bytes) {
    size_t page = os_page_size();
    size_t whole_bytes = align_up(bytes, page);
    bool possible = bytes >= MOVE_MIN_BYTES && window_contains(from) && window_contains(to) &&
                    is_aligned((uintptr_t)from | (uintptr_t)to, page);
    if (!possible || !has_room(bytes) || is_warm(to, bytes))
        return false;
    span_split(from, whole_bytes);
    span_split(to, whole_bytes);
    if (!os_move_pages(from, to, whole_bytes))
        return false;
    ask_again(from, whole_bytes);
    mark(to, bytes);
    return true;
}

/* Of a SuperSlab that is all free nobody needs the bitmaps: whole pages of them go too. */
static void forget_bitmaps(struct super *super) {
    uintptr_t start = align_up((uintptr_t)super->short_bitmaps, os_page_size());
    uintptr_t end = align_down((uintptr_t)(super + 1), os_page_size());
    if (start < end && atomic_load_explicit(&super->has_bitmaps, memory_order_relaxed) &&
        os_purge((void *)start, end - start))
        atomic_store_explicit(&super->has_bitmaps, false, memory_order_relaxed);
}

bool move_out(struct super *super, uint32_t slabs) {
    bool all_zero = true;
    bool is_whole = slabs == ALL_SLABS;
    if (is_whole)
        forget_bitmaps(super);
    else
        span_split(super->start, SUPER_BYTES);
    while (slabs != 0) {
        unsigned first = bit_lowest(slabs);
        unsigned count = bit_lowest(~((uint64_t)slabs >> first));
        uint32_t run = slab_mask(first, count);
        char *start = super->start + (size_t)first * SLAB_BYTES;
        size_t bytes = (size_t)count * SLAB_BYTES;
        uint32_t moved = atomic_load_explicit(&super->moved, memory_order_relaxed);
        if ((moved & run) != 0 && os_commit(start, bytes)) {
            ask_again(start, bytes);
            unmark(super, first, count);
        } else {
            all_zero &= os_purge(start, bytes);
        }
        slabs &= ~run;
    }
    if (is_whole && all_zero)
        atomic_store_explicit(&super->is_collapsed, false, memory_order_relaxed);
    return all_zero;
}
