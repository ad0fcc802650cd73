/* How large bins are.
 *
 * Bins start at a few blocks and double at each miss, up to a size set by the
 * profile; all bins of a thread together stay within its share of the budget
 * (law 5). When the share is used up, bins that have not missed since the last
 * sweep shrink to make room.
 *
 * And a thread earns its share, by the square of what it has moved to and from slabs:
 * one that takes a hundred blocks and then sleeps may keep a few KiB, one that has
 * moved 1 MiB may keep half of that, and at 6 MiB the budget alone counts.
 *
 *   block size     up to 2 KiB       2 to 32 KiB (mid)      above (large)
 *   a bin holds    32 KiB            24 blocks              a block
 *                  or 511 blocks     or 32 KiB              or 32 KiB
 *   all of them                                             an eighth of the budget
 *
 * (in balanced). Blocks in bins are misses that do not happen again, and a miss costs the
 * same for a block of 16 bytes as for one of 16 KiB. But large blocks cost memory most, and
 * save least beside the time that it takes to write them.
 *
 * Foreign bins hold 4 KiB, and twice that while half of the budget is free; then 32 KiB if the
 * thread only gives: each batch waits for lines that the taker has written to.
 *
 * Who gives back much more than he takes has no use for what lies in his bins: they grow
 * only as far as makes a good batch, and while the heap shrinks (slab/shrink.c) they go
 * home and halve. */
#include "cache/bins.h"

#include <string.h>

#include "os/options.h"
#include "os/system.h"

enum {
    FIRST_CAPACITY = SLOT_ARRAY_MIN - 1,
    FIRST_BYTES = 2048,                  /* of a bin when it opens, or one block */
    FAIR_BINS = 32,                      /* each may have this part of the share at any rate */
    UNEARNED_BYTES = 4096,               /* of all bins, at first */
    EARNED_AT_BYTES = 2 * 1024 * 1024,   /* who has moved this may keep as much */
    INHERITED_BYTES = 1024 * 1024,       /* of what the last thread of a structure has moved */
    FOREIGN_BYTES = 8 * 1024,            /* of a bin of foreign blocks; half of it at first; */
    FOREIGN_GIVER_BYTES = 32 * 1024,     /* of one of a thread that only gives */
    AMPLE_SHARE = 2,                     /* of the budget, if free, lets foreign bins grow */
    SWEEP_BINS = 4,                      /* looked at in one sweep, for a small block: who is looked
                                          * at more often than he misses seems idle; */
    SWEEP_BINS_MID = 1,                  /* who moves few blocks has the time to sweep more often */
    MID_ABOVE_BYTES = 2 * 1024,          /* mid blocks are larger, */
    MID_BYTES = 32 * 1024,               /* and at most so large */
    LARGE_SHARE = 8,                     /* of the budget, to blocks larger than that */
    GIVER_BYTES = 512 * 1024,            /* who has given so much more than taken only gives */
    SURPLUS_MAX_BYTES = 2 * GIVER_BYTES, /* a taker again after half of this */
    GIVER_LEFT_BYTES = 16 * 1024,        /* to which his bins grow at most, and shrink */
    SMALL_BYTES = 8192,                  /* up to here idle bins go home when the heap grows */
    GROWTH_SLABS = 2,                    /* between two looks for idle small bins; */
    GROWING_MS = 100,                    /* a heap with more time between them does not grow */
    AT_ONCE_BYTES = 4096,                /* blocks up to this size get a bin at the first call */
    EARLY_MISSES = 8,                    /* larger ones after this many, */
    EARLY_BLOCKS = 8,                    /* large ones if no more is moved from each to the next */
    PARK_PERIOD_MS = 10,                 /* at least, between bins parked for guard sampling; */
    PARK_CREDIT_MS = 100,                /* of the time since, so much counts, */
    PARK_PER_MS = 1,                     /* and lets so many bins be parked */
};

/* --- own bins ------------------------------------------------------------------ */

static bool is_mid(size_t bytes) { return bytes > MID_ABOVE_BYTES && bytes <= MID_BYTES; }
static bool is_large(size_t bytes) { return bytes > MID_BYTES; }

static unsigned own_capacity_max(unsigned class) {
    const struct hak_profile *profile = options_profile();
    size_t bytes = class_size(class);
    /* A quotient without a division: exact, for bins hold no more bytes than a slab
     * (tests/unit/test_classes.c). Less a byte, for an array has a slot more than it holds blocks:
     * of a power of two it would be twice as long. */
    unsigned blocks = class_index(&size_classes[class], profile->cache_class_bytes - 1);
    unsigned least = is_mid(bytes) ? profile->cache_mid_blocks : 1;
    return hak_max(hak_min(blocks, profile->cache_class_blocks - 1), least);
}

static size_t earned_bytes(const struct thread *thread) {
    size_t moved = hak_min(thread->moved_bytes, (size_t)UINT32_MAX);
    return UNEARNED_BYTES + moved * moved / EARNED_AT_BYTES;
}

/* Bytes of a budget that a thread's bins may still promise, own or foreign ones of blocks so
 * large: own ones leave a quarter of it to foreign ones, whose blocks would otherwise go home
 * one by one. */
static size_t room(const struct thread *thread, size_t budget, bool is_own, size_t block_bytes) {
    budget = hak_min(budget, earned_bytes(thread));
    budget -= is_own ? budget / 4 : 0;
    budget /= is_own && is_large(block_bytes) ? LARGE_SHARE : 1;
    return thread->limit_bytes < budget ? budget - thread->limit_bytes : 0;
}

static void change_limit(struct thread *thread, size_t change) {
    thread->limit_bytes += change;
    registry_promise(thread, thread->limit_bytes);
}

static void set_capacity(struct thread *thread, unsigned class, unsigned capacity) {
    struct bin_info *info = &thread->infos[class];
    change_limit(thread, ((size_t)capacity - info->capacity) * class_size(class));
    info->capacity = (uint16_t)capacity;
    bin_set_limit(&thread->own->bins[class], info->base + capacity);
}

/* Makes an own bin smaller; without room for a block it is closed. */
static void shrink(struct thread *thread, unsigned class, unsigned capacity) {
    bin_unpark(thread, class);
    struct bin *bin = &thread->own->bins[class];
    struct bin_info *info = &thread->infos[class];
    unsigned held = (unsigned)(bin_top(bin) - info->base);
    if (held > capacity)
        bin_flush_oldest(bin, info->base, class, held - capacity);
    set_capacity(thread, class, capacity);
    if (capacity != 0)
        return;
    bin_set_limit(bin, NULL);
    bin_set_top(bin, (void **)cache_no_block);
    slots_give(thread, info->base, info->kind);
    *info = (struct bin_info){0};
}

/* Halves an own bin that has not missed since the last sweep, or may hold more than so much. */
static void shrink_if_idle(struct thread *thread, unsigned class, size_t most_bytes) {
    struct bin_info *info = &thread->infos[class];
    if (info->base == NULL)
        return;
    if (info->was_used && info->capacity * class_size(class) <= most_bytes)
        info->was_used = false;
    else
        shrink(thread, class, info->capacity / 2);
}

/* Tries to make room for more_bytes of a class at the expense of idle bins of this and
 * larger classes; returns what room there is then. Not of smaller ones: a large enough
 * bin of a busy small class hardly ever misses, which looks like idleness, and a block
 * of 64 KiB is not worth a thousand of 64 bytes. But up to its fair part each class comes
 * before what any other has over that: else those that came first would have large bins,
 * and the others none, so that each of their calls is slow. */
static size_t make_room(struct thread *thread, size_t budget, unsigned class, size_t more_bytes) {
    size_t block_bytes = class_size(class);
    size_t there = room(thread, budget, true, block_bytes);
    unsigned bins = block_bytes > MID_ABOVE_BYTES ? SWEEP_BINS_MID : SWEEP_BINS;
    size_t fair_bytes = budget / FAIR_BINS;
    bool is_fair = thread->infos[class].capacity * block_bytes + more_bytes <= fair_bytes;
    size_t most_bytes = is_fair ? fair_bytes : SIZE_MAX;
    unsigned from = is_fair ? 1 : class;
    for (unsigned i = 0; i < bins && there < more_bytes; i++) {
        bool is_in_range = thread->sweep >= from && thread->sweep < CLASS_COUNT - 1;
        thread->sweep = is_in_range ? thread->sweep + 1 : from;
        size_t before = thread->limit_bytes;
        shrink_if_idle(thread, thread->sweep, most_bytes);
        there += before - thread->limit_bytes;
    }
    return there;
}

/* Whether a class was missed not long ago, as the thread moves blocks. A large one that waits for
 * longer has left the processor's caches, and who comes next had better have its pages than others
 * that have left them, too. */
static bool comes_again(const struct thread *thread, struct bin_info *info, unsigned class) {
    size_t moved = thread->moved_bytes >> bit_highest(class_size(class));
    uint8_t passed = (uint8_t)(moved - info->level);
    info->level = (uint8_t)moved;
    return passed <= EARLY_BLOCKS;
}

/* A program that needs a large buffer once, of one class today and another
 * tomorrow, should not keep one block of each: so larger blocks go straight home,
 * and their pages to whatever class needs them next, until a class is seen to
 * come again. So does any class for a while after it found no room. */
static bool is_worth_a_bin(const struct thread *thread, struct bin_info *info, unsigned class) {
    size_t bytes = class_size(class);
    bool at_once = bytes <= AT_ONCE_BYTES && !info->was_refused;
    if (is_large(bytes) && !comes_again(thread, info, class))
        info->misses = 0;
    if (at_once || info->misses >= EARLY_MISSES)
        return true;
    info->misses++;
    return false;
}

/* Opens a bin if the class is worth one, as large as the budget has room for. */
void bin_open_own(struct thread *thread, unsigned class) {
    struct bin_info *info = &thread->infos[class];
    if (!is_worth_a_bin(thread, info, class))
        return;
    size_t block_bytes = class_size(class);
    size_t most = hak_min((unsigned)FIRST_CAPACITY, own_capacity_max(class));
    size_t wanted = hak_clamp(FIRST_BYTES / block_bytes, (size_t)1, most);
    size_t budget = registry_budget_bytes(thread);
    size_t fitting = make_room(thread, budget, class, wanted * block_bytes) / block_bytes;
    void **base = fitting == 0 ? NULL : slots_take(thread, 0);
    if (base == NULL) {
        *info = (struct bin_info){.was_refused = true};
        return;
    }
    *info = (struct bin_info){.base = base, .was_used = true, .was_used_lately = true};
    bin_set_top(&thread->own->bins[class], base);
    set_capacity(thread, class, (unsigned)hak_min(wanted, fitting));
}

void bins_note_moved(struct thread *thread, unsigned class, unsigned taken, unsigned given) {
    size_t taken_bytes = taken * class_size(class);
    size_t given_bytes = given * class_size(class);
    thread->until_guard -= taken;
    thread->moved_bytes += taken_bytes + given_bytes;
    thread->surplus_bytes = hak_min(thread->surplus_bytes + given_bytes, (size_t)SURPLUS_MAX_BYTES);
    thread->surplus_bytes -= hak_min(thread->surplus_bytes, taken_bytes);
}

static bool only_gives(const struct thread *thread) { return thread->surplus_bytes >= GIVER_BYTES; }

/* After a miss: doubles the bin if its class and the budget allow; halves it, in
 * the end closes it, if the budget has become smaller than what the thread has. */
void bin_adapt(struct thread *thread, unsigned class) {
    struct bin_info *info = &thread->infos[class];
    info->was_used = true;
    info->was_used_lately = true;
    size_t budget = registry_budget_bytes(thread);
    if (thread->limit_bytes > budget) {
        shrink(thread, class, info->capacity / 2);
        return;
    }
    if (info->was_emptied) {
        info->was_emptied = false;
        return;
    }
    unsigned capacity = hak_min(info->capacity * 2u + 1, own_capacity_max(class));
    if (only_gives(thread))
        capacity = hak_min(capacity, (unsigned)(GIVER_LEFT_BYTES / class_size(class)));
    if (capacity <= info->capacity)
        return;
    size_t more_bytes = (capacity - info->capacity) * class_size(class);
    if (make_room(thread, budget, class, more_bytes) < more_bytes)
        return;
    unsigned kind = slots_kind(capacity + 1);
    if (kind > info->kind) {
        void **base = slots_take(thread, kind);
        if (base == NULL)
            return;
        struct bin *bin = &thread->own->bins[class];
        size_t held = (size_t)(bin_top(bin) - info->base);
        memcpy(base + 1, info->base + 1, held * sizeof *base);
        slots_give(thread, info->base, info->kind);
        info->base = base;
        info->kind = (uint8_t)kind;
        bin_set_top(bin, base + held);
    }
    set_capacity(thread, class, capacity);
}

/* Guard sampling sees the blocks that leave a refill. But what a program does may come back to
 * where it was with each step, so that no bin ever is empty or full. So now and then a few bins are
 * parked: shown empty and full, their blocks where they are.
 *
 *   as it was    | NULL | p1 | p2 | p3 | ....... |
 *                                     ^ top     ^ limit
 *   parked       | NULL | p1 | p2 | p3 | ....... |     limit: NULL
 *                   ^ top
 *
 * The next call of that size is slow, and unparks the bin: its blocks count as if they had just
 * left a refill; of an empty one, the block that a free brings. Nothing moves, so nothing else
 * changes by it. Only its own thread can park a bin, and only in a slow call: the parked ones are
 * what leads to the next one, those seldom used, later. A free cannot be given a guarded block: if
 * it is time for one then, its bin is parked again, until the malloc that gets it (guard_owe of
 * modes/guard.c). */
bool cache_park(struct thread *thread, unsigned class) {
    struct bin *bin = &thread->own->bins[class];
    struct bin_info *info = &thread->infos[class];
    if (info->base == NULL || bin_limit(bin) == NULL)
        return false;
    atomic_store_explicit(&info->parked, (uint16_t)(bin_top(bin) - info->base),
                          memory_order_relaxed);
    /* Release: partner is a fork in another thread, whose child believes the one where the other
     * says nothing; likewise below. */
    atomic_store_explicit(&bin->top, info->base, memory_order_release);
    bin_set_limit(bin, NULL);
    return true;
}

bool bin_unpark(struct thread *thread, unsigned class) {
    struct bin_info *info = &thread->infos[class];
    unsigned held = bin_parked(info);
    if (held == 0)
        return false;
    struct bin *bin = &thread->own->bins[class];
    bin_set_top(bin, info->base + held);
    bin_set_limit(bin, info->base + info->capacity);
    atomic_store_explicit(&info->parked, 0, memory_order_release);
    return true;
}

void bin_count_for_guard(struct thread *thread, unsigned class, unsigned blocks) {
    thread->has_unparked = true;
    if (class == thread->owed_class) /* they have counted */
        return;
    thread->until_guard -= blocks;
    /* atomic: cold, telemetry; no partner: a sum. */
    atomic_fetch_add_explicit(&cache_unparked[class], blocks, memory_order_relaxed);
}

bool bin_unpark_for_call(struct thread *thread, unsigned class) {
    unsigned held = bin_parked(&thread->infos[class]);
    if (held != 0)
        bin_count_for_guard(thread, class, held);
    return bin_unpark(thread, class);
}

void bins_park(struct thread *thread, uint64_t now_ms) {
    uint64_t passed_ms = now_ms - thread->parked_ms;
    if (passed_ms < PARK_PERIOD_MS)
        return;
    thread->parked_ms = now_ms;
    thread->owed_parks = 0;
    uint64_t left = hak_min(passed_ms, (uint64_t)PARK_CREDIT_MS) * PARK_PER_MS;
    for (unsigned i = 1; i < CLASS_COUNT && left != 0; i++) {
        thread->parked_class = thread->parked_class % (CLASS_COUNT - 1) + 1;
        left -= cache_park(thread, thread->parked_class);
    }
}

/* A refill made the shard grow by fresh slabs: before it becomes larger than it need
 * be, small bins go home that have not missed since it last grew. Only small blocks
 * are many to a slab. Where growth is chance, of a class that has more blocks than ever, not a
 * heap's that will need larger bins, their next misses say nothing. */
void bins_note_growth(struct thread *thread, unsigned class, unsigned fresh) {
    if (class > class_of(SMALL_BYTES))
        return;
    thread->grown_slabs += fresh;
    if (thread->grown_slabs < GROWTH_SLABS)
        return;
    thread->grown_slabs = 0;
    uint64_t now_ms = os_now_ms();
    bool by_chance = now_ms - thread->grew_ms >= GROWING_MS;
    thread->grew_ms = now_ms;
    for (unsigned other = 1; other <= class_of(SMALL_BYTES); ++other) {
        struct bin_info *info = &thread->infos[other];
        bool goes_home = info->base != NULL && !info->was_used_lately;
        if (goes_home)
            bin_flush_own(thread, other);
        info->was_emptied = goes_home && by_chance;
        info->was_used_lately = false;
    }
}

void cache_flush_large(struct thread *thread) {
    for (unsigned class = class_of(MID_BYTES) + 1; class < CLASS_COUNT; ++class) {
        if (thread->infos[class].base != NULL)
            bin_flush_own(thread, class);
    }
}

void bins_note_shrinking(struct thread *thread) {
    if (!only_gives(thread))
        return;
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        const struct bin_info *info = &thread->infos[class];
        if (info->base == NULL)
            continue;
        bin_flush_own(thread, class);
        if (info->capacity * class_size(class) > GIVER_LEFT_BYTES)
            shrink(thread, class, info->capacity / 2);
    }
}

/* Whether a bin has not missed since the last look, and held as many blocks then and at the
 * look before as now: one just large enough never misses, but its level moves. */
static bool is_idle(const struct bin *bin, struct bin_info *info) {
    uint8_t level = (uint8_t)(bin_parked(info) + (bin_top(bin) - info->base));
    bool is_still = level == info->level && !info->was_used;
    bool was_still = info->was_still;
    info->was_used = false;
    info->was_still = is_still;
    info->level = level;
    return is_still && was_still;
}

/* An idle bin may hold blocks of many slabs, and keep them all from becoming empty: they go
 * home. If it is in use after all, that costs one refill. */
void bins_age(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        struct bin_info *info = &thread->infos[class];
        if (info->base == NULL || !is_idle(&thread->own->bins[class], info))
            continue;
        bin_flush_own(thread, class);
        shrink(thread, class, info->capacity / 2);
    }
    bins_flush_foreign(thread);
}

void bins_look_ahead(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        struct bin_info *info = &thread->infos[class];
        if (info->base == NULL || info->has_next_page)
            continue;
        info->has_next_page =
            !populate_wants_next(class) || slab_populate_next(thread->shard, class);
    }
}

/* --- foreign bins -------------------------------------------------------------- */

/* 0: they go home one by one, for a bin of one block saves nothing. */
unsigned foreign_capacity(unsigned class, enum foreign_size size) {
    size_t bytes = size == FOREIGN_GIVER ? FOREIGN_GIVER_BYTES : FOREIGN_BYTES;
    size_t most = hak_min(bytes / class_size(class), (size_t)FOREIGN_CAPACITY);
    if (most < 2)
        return 0;
    return (unsigned)(size == FOREIGN_FIRST ? most / 2 : most);
}

/* Blocks that an empty foreign bin has room for; 0: it is not open. */
static unsigned foreign_room(const struct bin *bin) {
    return (unsigned)(bin_limit(bin) - bin_top(bin));
}

/* Gives an empty foreign bin, open or not, room for so many blocks; 0 closes it. False when
 * out of memory: it stays as it was. */
static bool resize_foreign(struct thread *thread, struct bin *bin, unsigned class,
                           unsigned capacity) {
    void **old_base = bin_top(bin);
    unsigned old_capacity = foreign_room(bin);
    void **base = capacity == 0 ? NULL : slots_take(thread, slots_kind(capacity + 1));
    if (base == NULL && capacity != 0)
        return false;
    bin_set_top(bin, base);
    bin_set_limit(bin, capacity == 0 ? NULL : base + capacity);
    /* atomic: warm, correctness; its partner is a fork in another thread, whose child knows an
     * array's end by the NULL that slots_give overwrites. */
    atomic_thread_fence(memory_order_release);
    if (old_base != NULL)
        slots_give(thread, old_base, slots_kind(old_capacity + 1));
    change_limit(thread, ((size_t)capacity - old_capacity) * class_size(class));
    return true;
}

bool bin_open_foreign(struct thread *thread, struct bin *bin, unsigned row, unsigned class) {
    unsigned capacity = foreign_capacity(class, FOREIGN_FIRST);
    size_t bytes = capacity * class_size(class);
    if (bytes == 0 || room(thread, registry_budget_bytes(thread), false, class_size(class)) < bytes)
        return false;
    thread->foreign_rows |= (uint16_t)(1u << row);
    return resize_foreign(thread, bin, class, capacity);
}

void bin_adapt_foreign(struct thread *thread, struct bin *bin, unsigned class) {
    size_t budget = registry_budget_bytes(thread);
    enum foreign_size size = FOREIGN_FIRST;
    if (room(thread, budget, false, class_size(class)) >= budget / AMPLE_SHARE)
        size = only_gives(thread) ? FOREIGN_GIVER : FOREIGN_AMPLE;
    unsigned capacity = thread->limit_bytes > budget ? 0 : foreign_capacity(class, size);
    if (capacity != foreign_room(bin))
        resize_foreign(thread, bin, class, capacity);
}

static void close_foreign(struct thread *thread, struct bin *bin, unsigned class) {
    resize_foreign(thread, bin, class, 0);
}

static void close_empty_foreign(struct thread *thread) {
    bins_each_foreign(thread, close_foreign);
    thread->foreign_rows = 0;
}

void cache_close_foreign(struct thread *thread) {
    bins_flush_foreign(thread);
    close_empty_foreign(thread);
}

/* --- birth and death ------------------------------------------------------------ */

void cache_open(struct thread *thread, unsigned shard) {
    thread->shard = shard;
    thread->own = &thread->cache.rows[shard % ROW_COUNT];
    thread->cache.thread = thread;
    thread->aged_ms = os_now_ms();
    thread->looked_ahead_ms = thread->aged_ms;
    /* Threads of a program are often like those before them: short-lived ones would
     * never get anywhere. */
    thread->moved_bytes = hak_min(thread->moved_bytes, (size_t)INHERITED_BYTES);
    for (unsigned i = 0; i < BIN_COUNT; i++)
        bin_set_top(&thread->own->bins[i], (void **)cache_no_block);
    if (thread->bump == NULL) {
        thread->bump = thread->own->slots;
        thread->bump_end = thread->own->slots + ROW_SLOTS;
    }
}

void cache_close(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        struct bin_info *info = &thread->infos[class];
        if (info->base != NULL)
            slots_give(thread, info->base, info->kind);
        *info = (struct bin_info){0};
    }
    memset(thread->own->bins, 0, sizeof thread->own->bins);
    close_empty_foreign(thread);
    thread->surplus_bytes = 0;
    change_limit(thread, -thread->limit_bytes);
}

void cache_release(struct thread *thread) {
    slots_release(thread);
    thread->moved_bytes = 0;
    os_purge(thread->cache.rows, sizeof thread->cache.rows);
}
