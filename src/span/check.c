/* Does the span layer agree with itself?
 *
 *   SuperSlab   each slab is free, or in one span, and never both
 *               | span     | free | span | free        |
 *   its shard   has it on the lists that its free slabs ask for, and in its sums
 *   the arena   has those that no shard has, all of their slabs free
 *   class map   a slab that is free or of a large or guarded block leads to no bin of a size
 *               class
 *
 * Other threads go on meanwhile, and none of what they do may look like a fault. So each
 * shard is looked at under its own lock, then the arena under its own; and purge_lock is
 * held throughout, for slabs that are being purged are neither free nor in a span. What
 * threads hold between two locks is not looked at:
 *
 *   a SuperSlab on its way     SUPER_IN_RUN, and in no span
 *   a fresh span's map entries its taker writes them without a lock; until then they are of
 *                              large blocks that have been, or 0
 *   the heap's bytes           charged before slabs are taken, discharged after
 *
 * but for a thread that is alone. */
#include "os/lock.h"
#include "span/arena.h"
#include "span/large.h"
#include "span/limits.h"
#include "span/shard.h"

struct check {
    struct finding *finding;
    bool is_alone;
    size_t used_slabs; /* seen so far: in use, or dirty */
};

/* What a shard should have noted, counted out. */
struct sums {
    size_t supers, dirty_slabs, large_count, large_slabs;
    size_t listed[SUPER_SLABS + 1]; /* by free slabs */
    size_t dirty_listed;
    size_t run_end; /* a span that began in an earlier SuperSlab covers the slabs below */
};

static unsigned number_of(const struct span_shard *shard) {
    return (unsigned)(shard - span_shards);
}

/* Pairs with the release in shard_adopt: the number is that of its home. */
static bool is_in(const struct span_shard *shard, const struct super *super) {
    return atomic_load_explicit(&super->home, memory_order_acquire) == SUPER_IN_SHARD &&
           atomic_load_explicit(&super->shard, memory_order_relaxed) == number_of(shard);
}

static char *slab_address(const struct super *super, unsigned slab) {
    return super->start + (size_t)slab * SLAB_BYTES;
}

/* --- the class map ------------------------------------------------------------- */

/* Of slabs in a row that hold no small blocks: what large blocks have left, or bin. */
static bool check_entries(struct check *check, const char *start, size_t slabs, unsigned bin,
                          const char *what) {
    size_t first = window_slab_index(start);
    for (size_t i = 0; i < slabs; i++) {
        uint16_t entry = atomic_load_explicit(&window_map[first + i], memory_order_relaxed);
        if (entry != 0 && entry != entry_make(0, BIN_LARGE) && entry != entry_make(0, bin))
            return finding_note(
                check->finding, "slab %p is %s, but its map entry says row %u, bin %u",
                (const void *)(start + i * SLAB_BYTES), what, entry_row(entry), entry_bin(entry));
    }
    return true;
}

static bool check_large_entries(struct check *check, const struct span *span) {
    if (!check_entries(check, span->start, span->slabs, BIN_LARGE, "a large block's"))
        return false;
    size_t first = window_slab_index(span->start);
    for (size_t i = 0; check->is_alone && i < span->slabs; i++) {
        unsigned bin =
            entry_bin(atomic_load_explicit(&window_map[first + i], memory_order_relaxed));
        if (bin != (i == 0 ? BIN_LARGE : BIN_NONE))
            return finding_note(
                check->finding,
                "slab %p is number %zu of large block %p, but its map entry says %s",
                (void *)(span->start + i * SLAB_BYTES), i, (void *)span->start,
                bin == BIN_NONE ? "that no block starts there" : "that one does");
    }
    return true;
}

static bool check_free_entries(struct check *check, const struct super *super) {
    for (uint32_t free = super->free; free != 0; free &= free - 1) {
        if (!check_entries(check, slab_address(super, bit_lowest(free)), 1, BIN_NONE, "free"))
            return false;
    }
    return true;
}

/* --- spans; the shard's lock is held ---------------------------------------------- */

/* The SuperSlabs that a span reaches into behind its first. */
static bool check_run(struct check *check, const struct span_shard *shard, struct sums *sums,
                      const struct span *span) {
    size_t first = window_super_index(span->start);
    sums->run_end = window_slab_index(span->start) + span->slabs;
    if (sums->run_end > window_slab_count)
        return finding_note(check->finding, "span %p of %u slabs ends outside the window",
                            (void *)span->start, span->slabs);
    for (size_t i = 1; i * SUPER_SLABS < span->slabs; i++) {
        struct super *super = window_super(first + i);
        uint32_t mask =
            slab_mask(0, (unsigned)hak_min(span->slabs - i * SUPER_SLABS, (size_t)SUPER_SLABS));
        bool is_run = super != NULL &&
                      atomic_load_explicit(&super->home, memory_order_relaxed) == SUPER_IN_RUN;
        if (super == NULL || (!is_run && !is_in(shard, super)) || (super->free & mask) != 0 ||
            (is_run && mask != ALL_SLABS))
            return finding_note(check->finding,
                                "span %p of %u slabs (shard %u) reaches into SuperSlab %p, which "
                                "is not its own",
                                (void *)span->start, span->slabs, number_of(shard),
                                (void *)window_super_address(first + i));
        if (!is_run)
            continue;
        if (atomic_load_explicit(&super->heads, memory_order_relaxed) != 0 || super->zero != 0)
            return finding_note(check->finding,
                                "SuperSlab %p is inside span %p, but has spans or free slabs",
                                (void *)super->start, (void *)span->start);
        check->used_slabs += SUPER_SLABS;
    }
    return true;
}

/* One that starts at a slab of super. *covered: slabs of super in spans so far. */
static bool check_span(struct check *check, const struct span_shard *shard, struct sums *sums,
                       const struct super *super, unsigned first, uint32_t *covered) {
    const struct span *span = &super->spans[first];
    bool is_long = first + span->slabs > SUPER_SLABS;
    if (span->start != slab_address(super, first) || span->slabs == 0 || (is_long && first != 0) ||
        span->state > SPAN_GUARDED)
        return finding_note(check->finding,
                            "the span at slab %p is said to start at %p, to have %u slabs and to "
                            "be in state %u",
                            (void *)slab_address(super, first), (void *)span->start, span->slabs,
                            span->state);
    uint32_t own = is_long ? ALL_SLABS : slab_mask(first, span->slabs);
    if ((*covered & own) != 0)
        return finding_note(check->finding, "span %p of %u slabs overlaps the span before it",
                            (void *)span->start, span->slabs);
    *covered |= own;
    if (is_long && !check_run(check, shard, sums, span))
        return false;
    if (span->state == SPAN_GUARDED)
        return check_entries(check, span->start, span->slabs, BIN_GUARD, "a guarded block's");
    if (span->state != SPAN_LARGE)
        return true;
    sums->large_count++;
    sums->large_slabs += span->slabs;
    return check_large_entries(check, span);
}

/* Every slab is in one span, or free. */
static bool check_slabs(struct check *check, const struct span_shard *shard, struct sums *sums,
                        const struct super *super) {
    size_t index = window_super_index(super->start);
    uint32_t heads = atomic_load_explicit(&super->heads, memory_order_relaxed);
    uint32_t covered = 0;
    if (sums->run_end > index * SUPER_SLABS)
        covered = slab_mask(
            0, (unsigned)hak_min(sums->run_end - index * SUPER_SLABS, (size_t)SUPER_SLABS));
    for (unsigned i = 0; i < SUPER_SLABS; i++) {
        bool is_head = (heads >> i & 1) != 0;
        if (is_head != (super->spans[i].state != SPAN_FREE))
            return finding_note(check->finding,
                                "slab %p: its span is in state %u, but its head bit is %d",
                                (void *)slab_address(super, i), super->spans[i].state, is_head);
        if (is_head && !check_span(check, shard, sums, super, i, &covered))
            return false;
    }
    uint32_t wrong = ~(covered ^ super->free);
    if (wrong != 0)
        return finding_note(check->finding, "slab %p (shard %u) is %s",
                            (void *)slab_address(super, bit_lowest(wrong)), number_of(shard),
                            (super->free & wrong & -wrong) != 0 ? "free and in a span"
                                                                : "neither free nor in a span");
    return check_free_entries(check, super);
}

/* --- a shard; its lock is held ------------------------------------------------------- */

static bool check_super(struct check *check, const struct span_shard *shard, struct sums *sums,
                        const struct super *super) {
    if ((super->blank & ~(super->free & ~super->zero)) != 0)
        return finding_note(
            check->finding,
            "SuperSlab %p (shard %u): slabs 0x%x are blank, of 0x%x that are free and used",
            (void *)super->start, number_of(shard), super->blank, super->free & ~super->zero);
    if (!super->committed || (super->zero & ~super->free) != 0)
        return finding_note(
            check->finding,
            "SuperSlab %p (shard %u): slabs 0x%x are untouched, of 0x%x that are free%s",
            (void *)super->start, number_of(shard), super->zero, super->free,
            super->committed ? "" : ", without memory");
    unsigned free = bit_count(super->free);
    bool is_dirty = !list_is_empty(&super->dirty_link);
    if ((free == 0) != list_is_empty(&super->link) || (is_dirty && super_purgeable(super) == 0))
        return finding_note(check->finding,
                            "SuperSlab %p (shard %u) with %u free slabs, %u of them dirty, is on "
                            "the wrong lists",
                            (void *)super->start, number_of(shard), free,
                            bit_count(super->free & ~super->zero));
    sums->supers++;
    sums->listed[free] += free != 0;
    sums->dirty_listed += is_dirty;
    sums->dirty_slabs += bit_count(super->free & ~super->zero);
    check->used_slabs += bit_count(~super->zero);
    return check_slabs(check, shard, sums, super);
}

/* All members are where their number of free slabs says: each list has as many as there
 * are, and none that belongs elsewhere. */
static bool check_lists(struct check *check, const struct span_shard *shard,
                        const struct sums *sums) {
    size_t count;
    for (unsigned f = 0; f <= SUPER_SLABS; f++) {
        const struct list *head = &shard->by_free[f];
        bool is_occupied = (shard->occupied >> f & 1) != 0;
        if (!list_count_sound(head, sums->listed[f], &count) || count != sums->listed[f] ||
            is_occupied != (count != 0))
            return finding_note(check->finding,
                                "shard %u: the list of SuperSlabs with %u free slabs does not "
                                "hold the %zu that there are",
                                number_of(shard), f, sums->listed[f]);
        list_for_each(link, head) {
            const struct super *super = container_of(link, struct super, link);
            if (!is_in(shard, super) || bit_count(super->free) != f)
                return finding_note(check->finding,
                                    "shard %u: SuperSlab %p is on the list for %u free slabs",
                                    number_of(shard), (void *)super->start, f);
        }
    }
    if (!list_count_sound(&shard->dirty, sums->dirty_listed, &count) || count != sums->dirty_listed)
        return finding_note(check->finding,
                            "shard %u: the list of dirty SuperSlabs does not hold the %zu that "
                            "there are",
                            number_of(shard), sums->dirty_listed);
    return true;
}

static bool check_sums(struct check *check, const struct span_shard *shard,
                       const struct sums *sums) {
    const struct {
        const char *name;
        size_t noted, counted;
    } figures[] = {
        {"SuperSlabs", shard->super_count, sums->supers},
        {"free SuperSlabs", shard->warm_count, sums->listed[SUPER_SLABS]},
        {"dirty slabs", shard_dirty_slabs(shard), sums->dirty_slabs},
        {"large blocks", shard->large_count, sums->large_count},
        {"large blocks given back", (size_t)shard->large_given,
         (size_t)shard->large_taken - sums->large_count},
        {"bytes of large blocks", shard->large_bytes, sums->large_slabs * SLAB_BYTES},
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (figures[i].noted != figures[i].counted)
            return finding_note(check->finding, "shard %u: %zu %s noted, but there are %zu",
                                number_of(shard), figures[i].noted, figures[i].name,
                                figures[i].counted);
    }
    return true;
}

static bool check_shard(struct check *check, const struct span_shard *shard) {
    struct sums sums = {0};
    /* The shard gets no other SuperSlab meanwhile. */
    for (size_t i = arena_known(0); i < window_super_count(); i = arena_known(i + 1)) {
        const struct super *super = window_super(i);
        if (super != NULL && is_in(shard, super) && !check_super(check, shard, &sums, super))
            return false;
    }
    return check_lists(check, shard, &sums) && check_sums(check, shard, &sums);
}

/* --- the arena; its lock is held --------------------------------------------------------- */

/* SuperSlabs, by what the arena should know of them. */
struct census {
    size_t reserved, taken, committed, in_run, dirty_listed;
};

static bool check_at_rest(struct check *check, struct census *census, const struct super *super) {
    bool is_dirty = !list_is_empty(&super->dirty_link);
    bool may_be_dirty = super->committed && super->zero != ALL_SLABS;
    uint32_t heads = atomic_load_explicit(&super->heads, memory_order_relaxed);
    if (super->free != ALL_SLABS || heads != 0 || !list_is_empty(&super->link))
        return finding_note(
            check->finding,
            "SuperSlab %p is in the arena, but not all of its slabs are free: 0x%x, "
            "heads 0x%x",
            (void *)super->start, super->free, heads);
    if ((is_dirty && !may_be_dirty) || (!super->committed && super->zero != 0))
        return finding_note(
            check->finding,
            "SuperSlab %p in the arena is %son the dirty list, slabs 0x%x untouched",
            (void *)super->start, is_dirty ? "" : "not ", super->zero);
    census->committed += super->committed;
    census->dirty_listed += is_dirty;
    check->used_slabs += super->committed ? bit_count(~super->zero) : 0;
    return check_free_entries(check, super);
}

static bool take_census(struct check *check, struct census *census,
                        const struct arena_view *arena) {
    for (size_t i = arena_view_known(arena, 0); i < window_super_count();
         i = arena_view_known(arena, i + 1)) {
        const struct super *super = window_super(i);
        bool is_free = bitmap_get(arena->free_set, i);
        census->reserved += is_free || super != NULL;
        if (super == NULL)
            continue;
        unsigned home = atomic_load_explicit(&super->home, memory_order_acquire);
        if (super->start != window_super_address(i) || home > SUPER_IN_RUN ||
            is_free != (home == SUPER_IN_ARENA))
            return finding_note(
                check->finding,
                "SuperSlab %p, said to start at %p, is at home in place %u and %sfree "
                "in the arena",
                (void *)window_super_address(i), (void *)super->start, home, is_free ? "" : "not ");
        census->taken += !is_free;
        census->in_run += home == SUPER_IN_RUN;
        census->committed += home == SUPER_IN_SHARD;
        if (is_free && !check_at_rest(check, census, super))
            return false;
    }
    return true;
}

/* Those on their way may have been committed, and counted as such, or not yet. */
static bool check_arena(struct check *check) {
    struct arena_view arena = arena_view();
    struct census census = {0};
    if (!take_census(check, &census, &arena))
        return false;
    bool is_counted =
        arena.committed >= census.committed && arena.committed <= census.committed + census.in_run;
    if (arena.reserved != census.reserved || arena_taken() != census.taken || !is_counted)
        return finding_note(check->finding,
                            "arena: %zu SuperSlabs reserved, %zu taken, %zu committed noted, but "
                            "there are %zu, %zu, %zu",
                            arena.reserved, arena_taken(), arena.committed, census.reserved,
                            census.taken, census.committed);
    size_t count;
    if (!list_count_sound(arena.dirty_list, census.dirty_listed, &count) ||
        count != census.dirty_listed || (count != 0 && !arena_looks_dirty()))
        return finding_note(check->finding,
                            "arena: the list of dirty SuperSlabs does not hold the %zu that there "
                            "are",
                            census.dirty_listed);
    return true;
}

/* --- all of it -------------------------------------------------------------------------- */

/* What is in use or dirty is what is charged, and huge blocks. */
static bool check_charge(struct check *check) {
    size_t charged = atomic_load_explicit(&limits_now.charged, memory_order_relaxed);
    size_t seen = check->used_slabs * SLAB_BYTES + huge_stats().bytes;
    return charged == seen ||
           finding_note(check->finding, "%zu bytes of heap are counted, but there are %zu", charged,
                        seen);
}

static bool check_shards_and_arena(struct check *check) {
    bool is_whole = true;
    for (unsigned s = 0; s < span_shard_count() && is_whole; s++) {
        os_lock_acquire(&span_shards[s].lock);
        is_whole = check_shard(check, &span_shards[s]);
        os_lock_release(&span_shards[s].lock);
    }
    if (is_whole) {
        os_lock_acquire(&arena_lock);
        is_whole = check_arena(check);
        os_lock_release(&arena_lock);
    }
    return is_whole;
}

bool span_check(struct finding *finding, bool is_alone) {
    struct check check = {.finding = finding, .is_alone = is_alone};
    os_lock_acquire(&purge_lock);
    bool is_whole = check_shards_and_arena(&check);
    os_lock_release(&purge_lock);
    return is_whole && huge_check(finding) && (!is_alone || check_charge(&check));
}
