/* Whole SuperSlabs.
 *
 *   window: |..... known ......|-> frontier   never reserved yet   ceiling <-|known|
 *   free    1 1 0 0 1 0 1 1 1 0                                               0 0 1
 *
 * A request takes the smallest run of free SuperSlabs that holds it (best fit,
 * lowest address first); if there is none, the frontier moves up by a range of
 * at least 32 MiB, less where address space is short.
 *
 * What is to be written all over, a long block or slabs, comes from where most has been used, and
 * of such places from the one that was used last: it is resident, and the processor's caches may
 * still have it. Else a heap that has shrunk and grows again would fault in fresh ones and give
 * used ones back for them, round after round.
 *
 * Guarded blocks, few and kept long, would be in the way of long blocks wherever they lie among
 * others. They have the other end of the window, for which the ceiling moves down.
 *
 * Lock: arena_lock protects everything here; commits and purges run unlocked,
 * on SuperSlabs that have been taken off the free set for the purpose. */
#include "span/arena.h"

#include "os/huge_pages.h"
#include "os/memory.h"
#include "os/metadata.h"
#include "os/options.h"
#include "span/limits.h"
#include "span/move.h"

enum {
    MAX_SUPERS = 1 << 19, /* 1 TiB */
    RANGE_SUPERS = 16,    /* 32 MiB */
    NOT_FOUND = MAX_SUPERS,
    MAX_STEPS_OVER = 4096, /* 128 GiB of other people's mappings in a row */
    MOST_LOOKS = 256,      /* at free SuperSlabs, for used ones */
};

struct os_lock arena_lock;
struct arena_hints arena_hints;

static uint64_t free_set[MAX_SUPERS / WORD_BITS];
static size_t frontier; /* SuperSlabs below it have been tried, */
static size_t ceiling;  /* and so have those from here on; what is tried and not ours is not free */
static size_t reserved_count;
static size_t committed_count;
static struct list dirty_list; /* oldest first */
static uint64_t came_count;    /* SuperSlabs that came into the arena, used */

void arena_init(void) {
    list_init(&dirty_list);
    ceiling = window_super_count();
}

static size_t known(size_t index) { return index >= frontier && index < ceiling ? ceiling : index; }

/* The first free index >= from, or the end of the window. */
static size_t next_free(size_t from) {
    size_t end = window_super_count();
    for (size_t at = known(from); at < end; at = known(align_down(at, WORD_BITS) + WORD_BITS)) {
        uint64_t bits = free_set[at / WORD_BITS] & ~bits_low(at % WORD_BITS);
        if (bits != 0)
            return align_down(at, WORD_BITS) + bit_lowest(bits);
    }
    return end;
}

/* The first index > from, a free one, that is not; or the end of the window. */
static size_t free_end(size_t from) {
    size_t end = window_super_count();
    for (size_t at = from; at < end; at = align_down(at, WORD_BITS) + WORD_BITS) {
        uint64_t bits = ~free_set[at / WORD_BITS] & ~bits_low(at % WORD_BITS);
        if (bits != 0)
            return hak_min(align_down(at, WORD_BITS) + bit_lowest(bits), end);
    }
    return end;
}

/* Whether its memory has been used, and not given back since. */
static bool is_used(size_t index) {
    const struct super *super = window_super(index);
    return super != NULL && super->committed && super->zero != ALL_SLABS;
}

/* Where a run begins that holds count, aligned: the smallest one. */
static size_t best_fit(size_t count, size_t alignment) {
    size_t first_address = window_first_slab / SUPER_SLABS;
    size_t best = NOT_FOUND;
    size_t best_length = SIZE_MAX;
    size_t end;
    for (size_t start = next_free(0); start < window_super_count(); start = next_free(end)) {
        end = free_end(start);
        size_t at = align_up(first_address + start, alignment) - first_address;
        if (at < end && end - at >= count && end - start < best_length) {
            best = at;
            best_length = end - start;
            if (best_length == count)
                break;
        }
    }
    return best;
}

static unsigned used_slabs(size_t index) {
    return is_used(index) ? bit_count(~window_super(index)->zero) : 0;
}

/* A place for some SuperSlabs and how good it is. */
struct used_place {
    size_t index;  /* NOT_FOUND: none */
    size_t slabs;  /* that are used */
    uint64_t came; /* of the first SuperSlab; 0: it is not used */
};

/* Looks through the places of count, aligned, in [start, end) for one better than the best. */
static void look_for_used(struct used_place *best, size_t start, size_t end, size_t count,
                          size_t alignment) {
    size_t first_address = window_first_slab / SUPER_SLABS;
    size_t slabs = 0;
    for (size_t i = start; i < end; i++) {
        slabs += used_slabs(i);
        if (i + 1 < start + count)
            continue;
        size_t at = i + 1 - count;
        uint64_t came = is_used(at) ? window_super(at)->came : 0;
        bool is_better = slabs > best->slabs || (slabs == best->slabs && came > best->came);
        if (is_better && (first_address + at) % alignment == 0)
            *best = (struct used_place){at, slabs, came};
        slabs -= used_slabs(at);
    }
}

/* The place with most used slabs, among the first free SuperSlabs. A single one is the first used
 * one of a run: between others it would be in the way of a long block. */
static size_t used_fit(size_t count, size_t alignment) {
    struct used_place best = {NOT_FOUND, 0, 0};
    size_t looks = 0;
    size_t end;
    for (size_t start = next_free(0); start < window_super_count() && looks < MOST_LOOKS;
         start = next_free(end)) {
        end = free_end(start);
        size_t from = start;
        size_t to = hak_min(end, start + MOST_LOOKS - looks);
        if (count == 1) {
            while (from + 1 < to && !is_used(from))
                from++;
            to = from + 1;
        }
        look_for_used(&best, from, to, count, alignment);
        looks += to - start;
    }
    return best.index;
}

static void set_free(size_t index, size_t count, bool is_free) {
    for (size_t i = index; i < index + count; i++) {
        if (is_free)
            bitmap_set(free_set, i);
        else
            bitmap_clear(free_set, i);
    }
}

/* Moves the frontier over count SuperSlabs at index, which become ours. */
static enum os_reserved grow_at(size_t index, size_t count) {
    if (count > ceiling - index || !window_open(index, count))
        return OS_REFUSED;
    enum os_reserved outcome = window_reserve(index, count);
    if (outcome == OS_RESERVED) {
        set_free(index, count, true);
        frontier = index + count;
        reserved_count += count;
    }
    return outcome;
}

/* The calls into the kernel that this makes hold arena_lock: one mmap and now and then an
 * mprotect for 32 MiB of heap, of addresses alone, a few microseconds. Unlocked, two threads
 * would both move the frontier, or wait for each other in some other way.
 *
 * Reserves more, so that a run of count exists: a whole range, with what an alignment
 * skips, which other requests can use; or just what is needed where address space is
 * short. Steps over places that others hold. */
static bool grow(size_t count, size_t alignment) {
    size_t first_address = window_first_slab / SUPER_SLABS;
    size_t index = align_up(first_address + frontier, alignment) - first_address;
    size_t step = hak_max(alignment, (size_t)RANGE_SUPERS);
    size_t whole = index - frontier + align_up(count, RANGE_SUPERS);
    if (index != frontier && frontier + whole <= ceiling && grow_at(frontier, whole) == OS_RESERVED)
        return true;
    for (int try = 0; try < MAX_STEPS_OVER && index + count <= ceiling; try++) {
        enum os_reserved outcome = grow_at(index, align_up(count, RANGE_SUPERS));
        if (outcome != OS_RESERVED)
            outcome = grow_at(index, count);
        if (outcome != OS_OCCUPIED)
            return outcome == OS_RESERVED;
        index += step;
    }
    return false;
}

/* Moves the ceiling down until a run of count lies behind it that is ours. */
static bool grow_down(size_t count) {
    for (int try = 0; try < MAX_STEPS_OVER && frontier + count <= ceiling; try++) {
        size_t index = ceiling - count;
        if (!window_open_apart(index, count))
            return false;
        enum os_reserved outcome = window_reserve(index, count);
        if (outcome == OS_REFUSED)
            return false;
        ceiling = index;
        if (outcome == OS_RESERVED) {
            set_free(index, count, true);
            reserved_count += count;
            return true;
        }
    }
    return false;
}

/* The first free run of count from the ceiling on. */
static size_t first_fit_behind(size_t count) {
    size_t end;
    for (size_t start = next_free(ceiling); start < window_super_count(); start = next_free(end)) {
        end = free_end(start);
        if (end - start >= count)
            return start;
    }
    return NOT_FOUND;
}

/* A descriptor for SuperSlab index, if it has none yet. */
static struct super *describe(size_t index) {
    struct super *super = window_super(index);
    if (super != NULL)
        return super;
    super = os_metadata_take(sizeof *super);
    if (super == NULL)
        return NULL;
    super->start = window_super_address(index);
    super->free = ALL_SLABS;
    list_init(&super->link);
    list_init(&super->dirty_link);
    window_super_set(index, super);
    return super;
}

static void count_taken(size_t change) {
    atomic_store_explicit(&arena_hints.taken, arena_taken() + change, memory_order_relaxed);
}

/* Takes [index, index + count) off the free set; their descriptors exist. */
static bool claim(size_t index, size_t count) {
    for (size_t i = index; i < index + count; i++) {
        if (describe(i) == NULL)
            return false;
    }
    for (size_t i = index; i < index + count; i++) {
        struct super *super = window_super(i);
        list_remove(&super->dirty_link);
        atomic_store_explicit(&super->home, SUPER_IN_RUN, memory_order_relaxed);
    }
    set_free(index, count, false);
    count_taken(count);
    return true;
}

static void give_back(size_t index, size_t count) {
    set_free(index, count, true);
    count_taken(-count);
}

static void note_dirty(struct super *super) {
    list_push_back(&dirty_list, &super->dirty_link);
    atomic_store_explicit(&arena_hints.looks_dirty, true, memory_order_relaxed);
}

/* Gives claimed ones back untouched. */
static void unclaim(size_t index, size_t count) {
    os_lock_acquire(&arena_lock);
    for (size_t i = index; i < index + count; i++) {
        struct super *super = window_super(i);
        atomic_store_explicit(&super->home, SUPER_IN_ARENA, memory_order_relaxed);
        if (super->zero != ALL_SLABS && super->committed)
            note_dirty(super);
    }
    give_back(index, count);
    os_lock_release(&arena_lock);
}

/* The largest page to ask for in a SuperSlab that is committed now; 0: nothing is asked.
 * What the kernel gives is looked up once, when the heap is large enough. */
static uint32_t huge_page_bytes_for(size_t heap_bytes) {
    enum { UNKNOWN = 1 };
    static _Atomic uint32_t known = UNKNOWN;
    const struct hak_profile *profile = options_profile();
    if (profile->thp != OS_THP_ALWAYS || heap_bytes <= profile->thp_from_bytes)
        return 0;
    uint32_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes == UNKNOWN) {
        bytes = (uint32_t)os_huge_page_bytes(SUPER_BYTES);
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}

/* SuperSlabs [first, end) have memory now. */
static void note_committed(size_t first, size_t end) {
    os_lock_acquire(&arena_lock);
    committed_count += end - first;
    size_t heap_bytes = committed_count * SUPER_BYTES;
    os_lock_release(&arena_lock);
    uint32_t huge_page_bytes = huge_page_bytes_for(heap_bytes);
    if (huge_page_bytes != 0)
        os_ask_huge_pages(window_super_address(first), (end - first) * SUPER_BYTES);
    for (size_t i = first; i < end; i++) {
        struct super *super = window_super(i);
        super->committed = true;
        super->zero = ALL_SLABS;
        super->wants_huge = huge_page_bytes != 0;
        super->goes_whole = huge_page_bytes > SLAB_BYTES;
    }
}

/* Commits those of a claimed run that are not, a call for each run of them. */
static bool commit(size_t index, size_t count) {
    size_t end = index + count;
    for (size_t at = index; at < end;) {
        size_t stop = at;
        while (stop < end && !window_super(stop)->committed)
            stop++;
        if (stop == at) {
            at++;
            continue;
        }
        if (!os_commit(window_super_address(at), (stop - at) * SUPER_BYTES))
            return false;
        note_committed(at, stop);
        at = stop;
    }
    return true;
}

/* The first aligned run of count free SuperSlabs that have memory already, for when
 * the kernel refuses more: a limit on data counts committed ones, used or not. */
static size_t committed_fit(size_t count, size_t alignment) {
    size_t first_address = window_first_slab / SUPER_SLABS;
    size_t length = 0;
    size_t after = 0; /* the last one looked at */
    for (size_t i = next_free(0); i < window_super_count(); i = next_free(after)) {
        const struct super *super = window_super(i);
        length = super == NULL || !super->committed ? 0 : i == after ? length + 1 : 1;
        after = i + 1;
        if (length >= count && (first_address + after - count) % alignment == 0)
            return after - count;
    }
    return NOT_FOUND;
}

static struct super *take_committed(size_t count, size_t alignment) {
    os_lock_acquire(&arena_lock);
    size_t index = committed_fit(count, alignment);
    bool claimed = index != NOT_FOUND && claim(index, count);
    os_lock_release(&arena_lock);
    return claimed ? window_super(index) : NULL;
}

/* Commits a run that was claimed, if one was. */
static struct super *finish_take(size_t index, size_t count, size_t alignment, bool claimed) {
    if (claimed && commit(index, count))
        return window_super(index);
    if (claimed)
        unclaim(index, count);
    /* No memory, or none to describe it with: only what has both will do. */
    return take_committed(count, alignment);
}

struct super *arena_take(size_t count, size_t alignment) {
    os_lock_acquire(&arena_lock);
    size_t index = NOT_FOUND;
    if (count <= window_super_count()) {
        index = count > 1 ? used_fit(count, alignment) : NOT_FOUND;
        index = index == NOT_FOUND ? best_fit(count, alignment) : index;
        if (index == NOT_FOUND && grow(count, alignment))
            index = best_fit(count, alignment);
    }
    bool claimed = index != NOT_FOUND && claim(index, count);
    os_lock_release(&arena_lock);
    return finish_take(index, count, alignment, claimed);
}

struct super *arena_take_apart(size_t count) {
    os_lock_acquire(&arena_lock);
    size_t index = first_fit_behind(count);
    if (index == NOT_FOUND && grow_down(count))
        index = ceiling;
    bool claimed = index != NOT_FOUND && claim(index, count);
    os_lock_release(&arena_lock);
    return claimed ? finish_take(index, count, 1, true) : arena_take(count, 1);
}

struct super *arena_take_used(void) {
    if (!arena_looks_dirty())
        return NULL;
    os_lock_acquire(&arena_lock);
    size_t index = used_fit(1, 1);
    bool claimed = index != NOT_FOUND && claim(index, 1);
    os_lock_release(&arena_lock);
    return claimed ? window_super(index) : NULL;
}

bool arena_has_used(size_t count) {
    size_t length = 0;
    size_t after = 0; /* the last one looked at */
    os_lock_acquire(&arena_lock);
    for (unsigned looks = 0; looks < MOST_LOOKS && length < count; looks++) {
        size_t i = next_free(after);
        if (i == window_super_count())
            break;
        length = is_used(i) ? (i == after ? length + 1 : 1) : 0;
        after = i + 1;
    }
    bool has_more = next_free(after) < window_super_count();
    os_lock_release(&arena_lock);
    return length >= count || has_more;
}

bool arena_take_at(size_t index, size_t count) {
    os_lock_acquire(&arena_lock);
    bool claimed = free_end(index) >= index + count && claim(index, count);
    os_lock_release(&arena_lock);
    if (!claimed)
        return false;
    if (!commit(index, count)) {
        unclaim(index, count);
        return false;
    }
    return true;
}

void arena_give(struct super *super, uint64_t now_ms) {
    hak_assert(super->free == ALL_SLABS);
    os_lock_acquire(&arena_lock);
    atomic_store_explicit(&super->home, SUPER_IN_ARENA, memory_order_relaxed);
    if (super->zero != ALL_SLABS) {
        super->dirty_since_ms = now_ms;
        super->came = ++came_count;
        note_dirty(super);
    }
    give_back(window_super_index(super->start), 1);
    os_lock_release(&arena_lock);
}

/* The oldest dirty SuperSlab, claimed, if it is old enough. */
static struct super *claim_oldest_dirty(struct purge *purge) {
    struct super *super = NULL;
    os_lock_acquire(&arena_lock);
    if (!list_is_empty(&dirty_list)) {
        super = container_of(dirty_list.next, struct super, dirty_link);
        bool is_young = super->dirty_since_ms > purge->before_ms;
        purge->left_some |= is_young;
        if (is_young || !claim(window_super_index(super->start), 1))
            super = NULL;
    } else {
        atomic_store_explicit(&arena_hints.looks_dirty, false, memory_order_relaxed);
    }
    os_lock_release(&arena_lock);
    return super;
}

void arena_purge(struct purge *purge) {
    struct super *super;
    while (purge->done_bytes < purge->most_bytes && (super = claim_oldest_dirty(purge)) != NULL) {
        if (move_out(super, ALL_SLABS)) {
            size_t bytes = bit_count(~super->zero) * (size_t)SLAB_BYTES;
            limits_discharge(bytes);
            super->zero = ALL_SLABS;
            super->blank = 0;
            super->is_written = false;
            purge->done_bytes += bytes;
        }
        os_lock_acquire(&arena_lock);
        atomic_store_explicit(&super->home, SUPER_IN_ARENA, memory_order_relaxed);
        give_back(window_super_index(super->start), 1);
        os_lock_release(&arena_lock);
    }
}

size_t arena_known(size_t index) {
    os_lock_acquire(&arena_lock);
    index = known(index);
    os_lock_release(&arena_lock);
    return index;
}

size_t arena_known_count(void) {
    os_lock_acquire(&arena_lock);
    size_t count = frontier + (window_super_count() - ceiling);
    os_lock_release(&arena_lock);
    return count;
}

struct arena_stats arena_stats(void) {
    struct arena_stats stats = {0};
    os_lock_acquire(&arena_lock);
    stats.reserved_bytes = reserved_count * SUPER_BYTES;
    stats.committed_bytes = committed_count * SUPER_BYTES;
    for (size_t i = next_free(0); i < window_super_count(); i = next_free(i + 1)) {
        struct super *super = window_super(i);
        if (super != NULL && super->committed)
            stats.free_bytes += SUPER_BYTES;
    }
    list_for_each(link, &dirty_list) {
        struct super *super = container_of(link, struct super, dirty_link);
        stats.dirty_bytes += bit_count(~super->zero) * (size_t)SLAB_BYTES;
    }
    os_lock_release(&arena_lock);
    return stats;
}

struct arena_view arena_view(void) {
    return (struct arena_view){
        .free_set = free_set,
        .frontier = frontier,
        .ceiling = ceiling,
        .reserved = reserved_count,
        .committed = committed_count,
        .dirty_list = &dirty_list,
    };
}
