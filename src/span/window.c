/* Finding a place for the window.
 *
 * First choice: 1 TiB of addresses at a random place that programs leave alone.
 * Nothing is reserved there beforehand, so VIRT stays small; the arena reserves
 * ranges as it grows and steps over what others have mapped in between.
 *
 * Where the kernel (39-bit address spaces), a sanitizer or Valgrind refuses
 * such addresses, the kernel chooses the place, and the window is as large a
 * reservation as can be had, down to 64 MiB; then all of it is ours at once.
 *
 * The tables are mapped read-only and made writable piece by piece: an
 * untouched read-only page costs neither memory nor commit charge. */
#include "span/window.h"

#include "os/frozen.h"

#define PLACE_LOW (32 * TIB)
#define PLACE_HIGH (80 * TIB)
#define LARGEST_RESERVATION (64 * GIB)
#define SMALLEST_RESERVATION (64 * MIB)

enum {
    PLACE_TRIES = 8,
    PROBE_BYTES = 16 * SUPER_BYTES,

    /* Where the class map begins in its first page. Slabs begin on a page, and so do the blocks
     * that a small program writes to most. Many processors let a load wait for an earlier store
     * whose address is the same but for the page, and free looks into the map just after its
     * caller has written to the block (docs/decisions/0066). */
    MAP_START_BYTES = 3072 + 32,
};

/* What free reads lies on one cache line: 32 bytes, all that this file has in a section, which
 * is aligned as a whole, for compilers order variables as they like. */
__asm__(".pushsection " HAK_FROZEN_SECTION ", \"aw\", %progbits\n.p2align 5\n.popsection");
hak_frozen uintptr_t window_first_slab;
hak_frozen size_t window_slab_count;
hak_frozen _Atomic uint16_t *window_map;
hak_frozen struct super *_Atomic *window_supers;

/* All of the window, where the kernel put it; NULL: it lies where nothing is reserved yet. Kept
 * when the start fails: who starts again would reserve another, and in the end there were no
 * addresses left. */
static char *reserved;
static size_t reserved_bytes;

static uint64_t next_random(uint64_t *state) {
    /* splitmix64: Steele, Lea and Flood, OOPSLA 2014. */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static char *random_place(size_t bytes, uint64_t seed) {
    for (int try = 0; try < PLACE_TRIES; try++) {
        size_t places = (PLACE_HIGH - PLACE_LOW - bytes) / SUPER_BYTES;
        uintptr_t address = PLACE_LOW + next_random(&seed) % places * SUPER_BYTES;
        char *place = (char *)address; // NOLINT(performance-no-int-to-ptr)
        if (os_reserve_at(place, PROBE_BYTES) == OS_RESERVED) {
            os_unmap(place, PROBE_BYTES);
            return place;
        }
    }
    return NULL;
}

static bool reserve_place(size_t bytes) {
    size_t size = hak_min(bytes, LARGEST_RESERVATION);
    for (; size >= SMALLEST_RESERVATION / 2; size /= 2) {
        /* A SuperSlab more than asked for, to align the start. */
        char *start = os_reserve(size + SUPER_BYTES);
        if (start != NULL) {
            reserved_bytes = align_down(size, SUPER_BYTES);
            // NOLINTNEXTLINE(performance-no-int-to-ptr)
            reserved = (char *)align_up((uintptr_t)start, SUPER_BYTES);
            return true;
        }
    }
    return false;
}

bool window_init(size_t bytes, uint64_t seed) {
    if (window_slab_count != 0)
        return true; /* by a start that failed later */
    bytes = align_down(bytes, SUPER_BYTES);
    bool may_choose = reserved == NULL && os_may_choose_addresses();
    char *place = may_choose ? random_place(bytes, seed) : NULL;
    if (place == NULL) {
        if (reserved == NULL && !reserve_place(bytes))
            return false;
        place = reserved;
        bytes = reserved_bytes;
    }
    size_t slabs = bytes / SLAB_BYTES;
    size_t page = os_page_size();
    size_t map_bytes = align_up(MAP_START_BYTES + slabs * sizeof *window_map, page);
    size_t super_bytes = align_up(slabs / SUPER_SLABS * sizeof *window_supers, page);
    char *tables = os_map_table(map_bytes + super_bytes);
    if (tables == NULL)
        return false;
    window_map = (_Atomic uint16_t *)(void *)(tables + MAP_START_BYTES);
    window_supers = (struct super * _Atomic *)(void *)(tables + map_bytes);
    window_first_slab = (uintptr_t)place >> SLAB_SHIFT;
    window_slab_count = slabs;
    return true;
}

/* Makes whole pages writable around [first, first + count) entries of a table. */
static bool open_table(void *table, size_t entry_bytes, size_t first, size_t count) {
    char *low = (char *)table + first * entry_bytes;
    char *high = low + count * entry_bytes;
    size_t page = os_page_size();
    low -= (uintptr_t)low % page;
    return os_table_make_writable(low, align_up((size_t)(high - low), page));
}

/* How many entries of a table lie below the end of the page that the entry before end is on. */
static size_t entries_to_page_end(void *table, size_t entry_bytes, size_t end) {
    uintptr_t start = (uintptr_t)table;
    return (align_up(start + end * entry_bytes, os_page_size()) - start) / entry_bytes;
}

/* Both tables are open below these; the arena opens them in ascending order
 * under its lock. */
static size_t map_open_slabs;
static size_t supers_open;

bool window_open(size_t first, size_t count) {
    size_t slabs_end = (first + count) * SUPER_SLABS;
    if (slabs_end > map_open_slabs) {
        if (!open_table(window_map, sizeof *window_map, map_open_slabs, slabs_end - map_open_slabs))
            return false;
        map_open_slabs = hak_min(entries_to_page_end(window_map, sizeof *window_map, slabs_end),
                                 window_slab_count);
    }
    if (first + count > supers_open) {
        if (!open_table(window_supers, sizeof *window_supers, supers_open,
                        first + count - supers_open))
            return false;
        supers_open =
            hak_min(entries_to_page_end(window_supers, sizeof *window_supers, first + count),
                    window_super_count());
    }
    return true;
}

bool window_open_apart(size_t first, size_t count) {
    return open_table(window_map, sizeof *window_map, first * SUPER_SLABS, count * SUPER_SLABS) &&
           open_table(window_supers, sizeof *window_supers, first, count);
}

enum os_reserved window_reserve(size_t first, size_t count) {
    if (reserved != NULL)
        return OS_RESERVED;
    return os_reserve_at(window_super_address(first), count * SUPER_BYTES);
}
