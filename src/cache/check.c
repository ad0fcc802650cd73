/* Are the calling thread's bins whole, and those of a cache that rests?
 *
 *   own bin       | NULL | p1 | p2 | p3 | ....... |     its array, from slots of the thread's
 *                   base         ^ top     ^ base + capacity: its limit, or closed: NULL
 *                   ^ top, while it is parked (bins.c)
 *
 *   foreign bin   the same, but that only its NULL says where it begins
 *
 * Every pointer in a bin is a block of the bin's class that is neither free nor there twice
 * (slab/check.c). Its row need not be the bin's: a slab moves from shard to shard while its
 * blocks lie in bins. And what all bins promise to hold is what the budget knows of.
 *
 * Not of other threads: they pop and push as this goes on, without a lock, so that nothing could
 * be told of their bins. */
#include "cache/bins.h"

enum { ARRAYS_MAX = 1 << 16 }; /* more of one kind than a thread has slots for */

struct check {
    struct finding *finding;
    const struct thread *thread;
    size_t limit_bytes; /* of the bins so far */
};

static bool check_own(struct check *check, unsigned class) {
    const struct bin_info *info = &check->thread->infos[class];
    const struct bin *bin = &check->thread->own->bins[class];
    void **top = bin_top(bin);
    void **limit = bin_limit(bin);
    if (info->base == NULL) {
        bool is_closed = top == (void **)cache_no_block && limit == NULL && info->capacity == 0;
        return is_closed ||
               finding_note(check->finding, "bin of size class %zu: closed, but with blocks",
                            class_size(class));
    }
    size_t slots = (size_t)SLOT_ARRAY_MIN << info->kind;
    if (info->kind >= SLOT_ARRAY_KINDS || !slots_contain(check->thread, info->base, slots) ||
        info->capacity == 0 || info->capacity >= slots || info->base[0] != NULL)
        return finding_note(check->finding,
                            "bin of size class %zu for %u blocks: its array %p is none",
                            class_size(class), info->capacity, (void *)info->base);
    if (top < info->base || top > info->base + info->capacity ||
        (limit != NULL && limit != info->base + info->capacity))
        return finding_note(check->finding,
                            "bin of size class %zu for %u blocks at %p: its top is %p, its limit "
                            "%p",
                            class_size(class), info->capacity, (void *)info->base, (void *)top,
                            (void *)limit);
    if (bin_parked(info) != 0 &&
        (bin_parked(info) > info->capacity || top != info->base || limit != NULL))
        return finding_note(check->finding,
                            "bin of size class %zu: parked with %u blocks, but open",
                            class_size(class), bin_parked(info));
    check->limit_bytes += info->capacity * class_size(class);
    unsigned held = (unsigned)(top - info->base) + bin_parked(info);
    return slab_check_cached(check->finding, class, info->base + 1, held);
}

/* Where a foreign bin begins, or NULL. */
static void **foreign_base(const struct check *check, const struct bin *bin) {
    void **at = bin_top(bin);
    for (unsigned held = 0; held <= FOREIGN_CAPACITY; held++, at--) {
        if (!slots_contain(check->thread, at, 1))
            return NULL;
        if (*at == NULL)
            return at;
    }
    return NULL;
}

static bool is_foreign_capacity(unsigned class, size_t capacity) {
    return capacity != 0 && (capacity == foreign_capacity(class, FOREIGN_FIRST) ||
                             capacity == foreign_capacity(class, FOREIGN_AMPLE) ||
                             capacity == foreign_capacity(class, FOREIGN_GIVER));
}

static bool check_foreign(struct check *check, unsigned row, unsigned class) {
    const struct bin *bin = &check->thread->cache.rows[row].bins[class];
    void **top = bin_top(bin);
    void **limit = bin_limit(bin);
    bool is_row_open = (check->thread->foreign_rows >> row & 1) != 0;
    if (top == NULL && limit == NULL)
        return true;
    void **base = is_row_open ? foreign_base(check, bin) : NULL;
    size_t capacity = base == NULL || limit < top ? 0 : (size_t)(limit - base);
    if (!is_foreign_capacity(class, capacity) || !slots_contain(check->thread, base, capacity + 1))
        return finding_note(check->finding,
                            "bin of size class %zu in row %u: its top is %p, its limit %p",
                            class_size(class), row, (void *)top, (void *)limit);
    check->limit_bytes += capacity * class_size(class);
    return slab_check_cached(check->finding, class, base + 1, (unsigned)(top - base));
}

/* Bins that are none of a size class are always full. */
static bool check_other(struct check *check, unsigned row, unsigned bin) {
    void **limit = bin_limit(&check->thread->cache.rows[row].bins[bin]);
    return limit == NULL ||
           finding_note(check->finding, "bin %u in row %u is of no size class, but open", bin, row);
}

static bool check_row(struct check *check, unsigned row) {
    bool is_own = &check->thread->cache.rows[row] == check->thread->own;
    bool is_whole = true;
    for (unsigned bin = 0; bin < BIN_COUNT && is_whole; bin++) {
        if (bin == BIN_NONE || bin >= CLASS_COUNT)
            is_whole = check_other(check, row, bin);
        else
            is_whole = is_own ? check_own(check, bin) : check_foreign(check, row, bin);
    }
    return is_whole;
}

/* Arrays that wait for the next bin of their size. */
static bool check_free_arrays(struct check *check, unsigned kind) {
    unsigned count = 0;
    for (void **array = check->thread->free_arrays[kind]; array != NULL; array = array[0]) {
        size_t slots = (size_t)SLOT_ARRAY_MIN << kind;
        if (!slots_contain(check->thread, array, slots) || ++count == ARRAYS_MAX)
            return finding_note(check->finding, "free slots at %p are none of this thread's",
                                (void *)array);
    }
    return true;
}

bool cache_check(const struct thread *thread, struct finding *finding) {
    struct check check = {.finding = finding, .thread = thread};
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        if (!check_row(&check, row))
            return false;
    }
    for (unsigned kind = 0; kind < SLOT_ARRAY_KINDS; kind++) {
        if (!check_free_arrays(&check, kind))
            return false;
    }
    return check.limit_bytes == thread->limit_bytes ||
           finding_note(finding, "this thread's bins may hold %zu bytes, but there are %zu noted",
                        check.limit_bytes, thread->limit_bytes);
}
