/* Refill, flush, and how large bins are.
 *
 * A refill takes half of a bin's capacity in one go, a flush gives the older
 * half home in one go: a thread that frees and allocates in turns stays away
 * from both ends. The blocks of a refill are stacked so that they are handed out
 * in ascending order of address.
 *
 * Bins start at a few blocks and double at each miss, up to a size set by the
 * profile; all bins of a thread together stay within its share of the budget
 * (law 5). When the share is used up, bins that have not missed since the last
 * sweep shrink to make room.
 *
 * No lock here: a cache is its thread's own. slab_take and slab_give lock. */
#include "cache/cache.h"

#include <string.h>

#include "os/metadata.h"
#include "os/options.h"
#include "os/system.h"

enum {
    FIRST_CAPACITY = SLOT_ARRAY_MIN - 1,
    FOREIGN_CAPACITY = 31,
    FOREIGN_KIND = 2,         /* arrays of 32 slots */
    FOREIGN_BYTES = 4 * 1024, /* of a bin of foreign blocks */
    FLUSH_MAX = SLOT_ARRAY_MAX / 2,
    SWEEP_BINS = 16, /* looked at in one sweep */
    TICK_PERIOD = 4, /* slow calls between looks at the clock */
    SMALL_BYTES = 8192,
    GROWTH_SLABS = 2,     /* between two looks for idle small bins */
    AGE_MIN_MS = 10,      /* a thread's bins are looked through at most this often */
    AT_ONCE_BYTES = 4096, /* blocks up to this size get a bin at the first call */
    EARLY_MISSES = 8,     /* larger ones after this many */
    SLOT_CHUNK_BYTES = 4096,
};
_Static_assert(SLOT_ARRAY_MIN << FOREIGN_KIND == FOREIGN_CAPACITY + 1, "a NULL and the blocks");
_Static_assert(SLOT_ARRAY_MAX * sizeof(void *) <= SLOT_CHUNK_BYTES, "a chunk holds any array");

void *const cache_no_block[1] = {NULL};

const struct row cache_closed_row = {
    .bins = {[0 ... BIN_COUNT - 1] = {.top = (void **)cache_no_block}},
};

/* --- slots ----------------------------------------------------------------- */

static unsigned array_kind(unsigned slots) {
    unsigned kind = 0;
    while ((unsigned)SLOT_ARRAY_MIN << kind < slots)
        kind++;
    return kind;
}

/* An array of a kind, its first slot NULL; NULL when out of memory. */
static void **slots_take(struct thread *thread, unsigned kind) {
    void **array = thread->free_arrays[kind];
    if (array != NULL) {
        thread->free_arrays[kind] = array[0];
    } else {
        size_t slots = (size_t)SLOT_ARRAY_MIN << kind;
        if ((size_t)(thread->bump_end - thread->bump) < slots) {
            void **chunk = os_metadata_take(SLOT_CHUNK_BYTES);
            if (chunk == NULL)
                return NULL;
            thread->bump = chunk;
            thread->bump_end = chunk + SLOT_CHUNK_BYTES / sizeof *chunk;
        }
        array = thread->bump;
        thread->bump += slots;
    }
    array[0] = NULL;
    return array;
}

static void slots_give(struct thread *thread, void **array, unsigned kind) {
    array[0] = thread->free_arrays[kind];
    thread->free_arrays[kind] = array;
}

/* --- sending blocks home ------------------------------------------------------ */

/* Gives the oldest count blocks of a bin home, those just above its base. The
 * bin is shown empty while its blocks move, and they leave it before their bits
 * are set: should another thread fork now, the child's copy of the bin never
 * holds a block twice. */
static void flush_oldest(struct bin *bin, void **base, unsigned class, unsigned count) {
    while (count != 0) {
        void *batch[FLUSH_MAX];
        unsigned part = hak_min(count, (unsigned)FLUSH_MAX);
        size_t rest = (size_t)(bin_top(bin) - base) - part;
        bin_set_top(bin, base);
        /* atomic: warm, correctness; its partner is a fork in another thread. */
        atomic_thread_fence(memory_order_release);
        memcpy(batch, base + 1, part * sizeof *batch);
        memmove(base + 1, base + 1 + part, rest * sizeof *base);
        atomic_store_explicit(&bin->top, base + rest, memory_order_release);
        slab_give(class, batch, part);
        count -= part;
    }
}

static void flush_own(struct thread *thread, unsigned class) {
    struct bin *bin = &thread->own->bins[class];
    void **base = thread->infos[class].base;
    flush_oldest(bin, base, class, (unsigned)(bin_top(bin) - base));
}

/* Foreign bins keep no note of their base: it is where the NULL lies. */
static void **foreign_base(const struct bin *bin) {
    void **at = bin_top(bin);
    while (*at != NULL)
        at--;
    return at;
}

static void flush_foreign(struct bin *bin, unsigned class) {
    void **base = foreign_base(bin);
    flush_oldest(bin, base, class, (unsigned)(bin_top(bin) - base));
}

/* Calls visit for each open foreign bin. */
static void for_each_foreign(struct thread *thread,
                             void (*visit)(struct thread *, struct bin *, unsigned class)) {
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        if ((thread->foreign_rows >> row & 1) == 0)
            continue;
        for (unsigned class = 1; class < CLASS_COUNT; ++class) {
            struct bin *bin = &thread->cache.rows[row].bins[class];
            if (bin_top(bin) != NULL)
                visit(thread, bin, class);
        }
    }
}

static void visit_flush(struct thread *thread, struct bin *bin, unsigned class) {
    (void)thread;
    flush_foreign(bin, class);
}

void cache_flush(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        if (thread->infos[class].base != NULL)
            flush_own(thread, class);
    }
    for_each_foreign(thread, visit_flush);
}

/* A bin as the child of a fork finds it was copied while its owner worked on it,
 * page by page: its parts may stem from different moments. So nothing of it is
 * believed that cannot be checked; what is doubtful stays taken for ever. */
static void reclaim_bin(struct bin *bin, void **base, unsigned class, size_t capacity) {
    void **top = bin_top(bin);
    size_t held = (size_t)(top - base);
    if (top < base || held > capacity)
        return;
    for (size_t done = 0; done < held; done += FLUSH_MAX) {
        void *batch[FLUSH_MAX];
        size_t part = hak_min(held - done, (size_t)FLUSH_MAX);
        memcpy(batch, base + 1 + done, part * sizeof *batch);
        slab_reclaim(class, batch, (unsigned)part);
    }
}

static void visit_reclaim(struct thread *thread, struct bin *bin, unsigned class) {
    (void)thread;
    void **base = bin_top(bin);
    unsigned held = 0;
    for (; *base != NULL && held <= FOREIGN_CAPACITY; base--)
        held++;
    reclaim_bin(bin, base, class, FOREIGN_CAPACITY);
}

void cache_reclaim(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        const struct bin_info *info = &thread->infos[class];
        if (info->base != NULL)
            reclaim_bin(&thread->own->bins[class], info->base, class, info->capacity);
    }
    for_each_foreign(thread, visit_reclaim);
}

/* --- how large bins are ------------------------------------------------------- */

static unsigned capacity_max(unsigned class, unsigned most) {
    size_t blocks = options_profile()->cache_class_bytes / class_size(class);
    return (unsigned)hak_clamp(blocks, (size_t)1, (size_t)most);
}

static unsigned own_capacity_max(unsigned class) {
    return capacity_max(class, options_profile()->cache_class_blocks - 1);
}

/* Bytes that a thread's bins may still promise: own ones leave a quarter of the budget
 * to foreign ones, whose blocks would otherwise go home one by one. */
static size_t room(const struct thread *thread, bool is_own) {
    size_t budget = registry_budget_bytes();
    budget -= is_own ? budget / 4 : 0;
    return thread->limit_bytes < budget ? budget - thread->limit_bytes : 0;
}

static void set_capacity(struct thread *thread, unsigned class, unsigned capacity) {
    struct bin_info *info = &thread->infos[class];
    thread->limit_bytes += ((size_t)capacity - info->capacity) * class_size(class);
    info->capacity = (uint16_t)capacity;
    bin_set_limit(&thread->own->bins[class], info->base + capacity);
}

/* Makes an own bin smaller; without room for a block it is closed. */
static void shrink(struct thread *thread, unsigned class, unsigned capacity) {
    struct bin *bin = &thread->own->bins[class];
    struct bin_info *info = &thread->infos[class];
    unsigned held = (unsigned)(bin_top(bin) - info->base);
    if (held > capacity)
        flush_oldest(bin, info->base, class, held - capacity);
    set_capacity(thread, class, capacity);
    if (capacity != 0)
        return;
    bin_set_limit(bin, NULL);
    bin_set_top(bin, (void **)cache_no_block);
    slots_give(thread, info->base, info->kind);
    *info = (struct bin_info){0};
}

/* Halves an own bin that has not missed since the last sweep. */
static void shrink_if_idle(struct thread *thread, unsigned class) {
    struct bin_info *info = &thread->infos[class];
    if (info->base == NULL)
        return;
    if (info->was_used)
        info->was_used = false;
    else
        shrink(thread, class, info->capacity / 2);
}

/* Tries to make room for more_bytes of a class at the expense of idle bins of this and
 * larger classes; returns what room there is then. Not of smaller ones: a large enough
 * bin of a busy small class hardly ever misses, which looks like idleness, and a block
 * of 64 KiB is not worth a thousand of 64 bytes. */
static size_t make_room(struct thread *thread, unsigned class, size_t more_bytes) {
    size_t there = room(thread, true);
    for (unsigned i = 0; i < SWEEP_BINS && there < more_bytes; i++) {
        bool is_in_range = thread->sweep >= class && thread->sweep < CLASS_COUNT - 1;
        thread->sweep = is_in_range ? thread->sweep + 1 : class;
        size_t before = thread->limit_bytes;
        shrink_if_idle(thread, thread->sweep);
        there += before - thread->limit_bytes;
    }
    return there;
}

/* A program that needs a large buffer once, of one class today and another
 * tomorrow, should not keep one block of each: so larger blocks go straight home,
 * and their pages to whatever class needs them next, until a class is seen to
 * come again. So does any class for a while after it found no room. */
static bool is_worth_a_bin(struct bin_info *info, unsigned class) {
    bool at_once = class_size(class) <= AT_ONCE_BYTES && !info->was_refused;
    if (at_once || info->early_misses >= EARLY_MISSES)
        return true;
    info->early_misses++;
    return false;
}

/* Opens a bin if the class is worth one, as large as the budget has room for. */
static void open_own(struct thread *thread, unsigned class) {
    struct bin_info *info = &thread->infos[class];
    if (!is_worth_a_bin(info, class))
        return;
    size_t wanted = hak_min((unsigned)FIRST_CAPACITY, own_capacity_max(class));
    size_t fitting = make_room(thread, class, wanted * class_size(class)) / class_size(class);
    void **base = fitting == 0 ? NULL : slots_take(thread, 0);
    if (base == NULL) {
        *info = (struct bin_info){.was_refused = true};
        return;
    }
    *info = (struct bin_info){.base = base, .was_used = true, .was_used_lately = true};
    bin_set_top(&thread->own->bins[class], base);
    set_capacity(thread, class, (unsigned)hak_min(wanted, fitting));
}

/* After a miss: doubles the bin if its class and the budget allow; halves it, in
 * the end closes it, if the budget has become smaller than what the thread has. */
static void adapt(struct thread *thread, unsigned class) {
    struct bin_info *info = &thread->infos[class];
    info->was_used = true;
    info->was_used_lately = true;
    if (thread->limit_bytes > registry_budget_bytes()) {
        shrink(thread, class, info->capacity / 2);
        return;
    }
    unsigned capacity = hak_min(info->capacity * 2u + 1, own_capacity_max(class));
    if (capacity <= info->capacity)
        return;
    size_t more_bytes = (capacity - info->capacity) * class_size(class);
    if (make_room(thread, class, more_bytes) < more_bytes)
        return;
    unsigned kind = array_kind(capacity + 1);
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

/* A refill made the shard grow by fresh slabs: before it becomes larger than it need
 * be, small bins go home that have not missed since it last grew. Only small blocks
 * are many to a slab. */
static void note_growth(struct thread *thread, unsigned class, unsigned fresh) {
    if (class > class_of(SMALL_BYTES))
        return;
    thread->grown_slabs += fresh;
    if (thread->grown_slabs < GROWTH_SLABS)
        return;
    thread->grown_slabs = 0;
    for (unsigned other = 1; other <= class_of(SMALL_BYTES); ++other) {
        struct bin_info *info = &thread->infos[other];
        if (info->base != NULL && !info->was_used_lately)
            flush_own(thread, other);
        info->was_used_lately = false;
    }
}

/* --- the slow calls ------------------------------------------------------------ */

static void *pop(struct bin *bin) {
    void **top = bin_top(bin);
    bin_set_top(bin, top - 1);
    return *top;
}

static void push(struct bin *bin, void *block) {
    void **top = bin_top(bin) + 1;
    *top = block;
    bin_set_top(bin, top);
}

void *cache_take(struct thread *thread, unsigned class) {
    struct bin *bin = &thread->own->bins[class];
    if (*bin_top(bin) != NULL)
        return pop(bin);
    struct bin_info *info = &thread->infos[class];
    if (info->base != NULL)
        adapt(thread, class);
    else
        open_own(thread, class);
    if (info->base == NULL) {
        bool is_zero;
        return slab_take_one(thread->shard, class, &is_zero);
    }
    unsigned want = info->capacity / 2 + 1u;
    unsigned fresh = 0;
    unsigned got = slab_take(thread->shard, class, info->base + 1, want, &fresh);
    if (got == 0)
        return NULL;
    bin_set_top(bin, info->base + got);
    void *block = pop(bin);
    if (hak_unlikely(fresh != 0))
        note_growth(thread, class, fresh);
    return block;
}

void *cache_take_zeroed(struct thread *thread, unsigned class, bool *is_zero) {
    struct bin *bin = &thread->own->bins[class];
    *is_zero = false;
    if (*bin_top(bin) != NULL)
        return pop(bin);
    return slab_take_one(thread->shard, class, is_zero);
}

static void give_own(struct thread *thread, unsigned class, void *block) {
    struct bin *bin = &thread->own->bins[class];
    struct bin_info *info = &thread->infos[class];
    if (info->base == NULL)
        open_own(thread, class);
    else if (bin_top(bin) - info->base >= info->capacity)
        adapt(thread, class);
    if (info->base == NULL) {
        slab_give(class, &block, 1);
        return;
    }
    unsigned held = (unsigned)(bin_top(bin) - info->base);
    if (held >= info->capacity)
        flush_oldest(bin, info->base, class, (held + 1) / 2);
    /* Another thread may have closed the bin to get here. */
    bin_set_limit(bin, info->base + info->capacity);
    push(bin, block);
}

/* 0: blocks of this class go home one by one. */
static unsigned foreign_capacity(unsigned class) {
    return (unsigned)hak_min(FOREIGN_BYTES / class_size(class), (size_t)FOREIGN_CAPACITY);
}

static bool open_foreign(struct thread *thread, struct bin *bin, unsigned row, unsigned class) {
    size_t bytes = foreign_capacity(class) * class_size(class);
    if (bytes == 0 || room(thread, false) < bytes)
        return false;
    void **base = slots_take(thread, FOREIGN_KIND);
    if (base == NULL)
        return false;
    thread->foreign_rows |= (uint16_t)(1u << row);
    thread->limit_bytes += bytes;
    bin_set_top(bin, base);
    bin_set_limit(bin, base + foreign_capacity(class));
    return true;
}

/* Of an empty bin. */
static void close_foreign(struct thread *thread, struct bin *bin, unsigned class) {
    thread->limit_bytes -= foreign_capacity(class) * class_size(class);
    slots_give(thread, bin_top(bin), FOREIGN_KIND);
    bin_set_top(bin, NULL);
    bin_set_limit(bin, NULL);
}

static void give_foreign(struct thread *thread, unsigned row, unsigned class, void *block) {
    struct bin *bin = &thread->cache.rows[row].bins[class];
    if (bin_top(bin) != NULL && bin_top(bin) >= bin_limit(bin)) {
        flush_foreign(bin, class);
        bin_set_limit(bin, bin_top(bin) + foreign_capacity(class));
        if (thread->limit_bytes > registry_budget_bytes())
            close_foreign(thread, bin, class);
    }
    if (bin_top(bin) == NULL && !open_foreign(thread, bin, row, class)) {
        slab_give(class, &block, 1);
        return;
    }
    push(bin, block);
}

void cache_give(struct thread *thread, uint16_t entry, void *block) {
    unsigned row = entry_row(entry);
    unsigned class = entry_bin(entry);
    if (&thread->cache.rows[row] == thread->own)
        give_own(thread, class, block);
    else
        give_foreign(thread, row, class, block);
}

/* A bin that has not missed for a while may hold blocks of many slabs, and keep
 * them all from becoming empty: they go home. If it is in use after all, that
 * costs one refill. */
static void age_bins(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        struct bin_info *info = &thread->infos[class];
        if (info->base == NULL)
            continue;
        if (!info->was_used) {
            flush_own(thread, class);
            shrink(thread, class, info->capacity / 2);
        } else {
            info->was_used = false;
        }
    }
    for_each_foreign(thread, visit_flush);
}

bool cache_tick(struct thread *thread, bool at_once) {
    registry_reclaim();
    if (++thread->slow_calls % TICK_PERIOD != 0 && !at_once)
        return false;
    uint64_t now_ms = os_now_ms();
    if (now_ms - thread->aged_ms >= hak_max(options_profile()->decay_ms, (uint64_t)AGE_MIN_MS)) {
        thread->aged_ms = now_ms;
        age_bins(thread);
    }
    return span_decay(thread->shard, now_ms);
}

/* --- birth and death ------------------------------------------------------------ */

void cache_open(struct thread *thread, unsigned shard) {
    thread->shard = shard;
    thread->own = &thread->cache.rows[shard % ROW_COUNT];
    thread->cache.thread = thread;
    thread->aged_ms = os_now_ms();
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
    for_each_foreign(thread, close_foreign);
    thread->foreign_rows = 0;
    thread->limit_bytes = 0;
}
