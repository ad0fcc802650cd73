/* The lists of a shard.
 *
 *   by_free[1] -> S -> S          fewest free slabs: filled first
 *   by_free[2] -> S
 *   ...
 *   by_free[32]                   as many as the profile keeps warm
 *
 *   dirty -> S -> S               with free slabs that have been used, oldest first
 *
 * A request that will use all of its pages takes free slabs that have been used, for
 * those are resident already: the lowest ones. So the same memory is used again and again while
 * the processor's caches have it, and what lies higher decays. Any other, and when there are none
 * (span.c:find_place asks the arena, too), takes what was never used, from the SuperSlab with the
 * fewest free slabs that holds it, and in it the lowest place. Either way some SuperSlabs drain,
 * become wholly free and go back to the arena, where any shard or a large block can have them. */
#include "span/shard.h"

#include "os/system.h"
#include "span/arena.h"

enum { DIRTY_LOOKS = 32 }; /* SuperSlabs that a search for used pages looks at */

struct span_shard span_shards[MAX_SHARDS + 1];

void shard_init(struct span_shard *shard) {
    for (unsigned f = 0; f <= SUPER_SLABS; f++)
        list_init(&shard->by_free[f]);
    list_init(&shard->dirty);
}

static void count_dirty(struct span_shard *shard, size_t change) {
    atomic_store_explicit(&shard->dirty_slabs, shard_dirty_slabs(shard) + change,
                          memory_order_relaxed);
}

static void unlist(struct span_shard *shard, struct super *super) {
    unsigned free = bit_count(super->free);
    if (free == 0)
        return;
    count_dirty(shard, -(size_t)bit_count(super->free & ~super->zero));
    shard->warm_count -= free == SUPER_SLABS;
    list_remove(&super->link);
    if (list_is_empty(&shard->by_free[free]))
        shard->occupied &= ~(UINT64_C(1) << free);
}

static void enlist(struct span_shard *shard, struct super *super) {
    unsigned free = bit_count(super->free);
    if (free == 0)
        return;
    count_dirty(shard, bit_count(super->free & ~super->zero));
    shard->warm_count += free == SUPER_SLABS;
    list_push_front(&shard->by_free[free], &super->link);
    shard->occupied |= UINT64_C(1) << free;
}

/* A SuperSlab that is wholly free and not on by_free leaves for the arena. */
static void leave(struct span_shard *shard, struct super *super, uint64_t now_ms) {
    list_remove(&super->dirty_link);
    shard->super_count--;
    arena_give(super, now_ms);
}

/* False: it has left for the arena. */
static bool place(struct span_shard *shard, struct super *super, uint64_t now_ms) {
    if (super->free == ALL_SLABS && shard->warm_count >= options_profile()->warm_supers) {
        leave(shard, super, now_ms);
        return false;
    }
    enlist(shard, super);
    return true;
}

static void note_dirty(struct span_shard *shard, struct super *super, uint64_t now_ms) {
    if (super_purgeable(super) != 0 && list_is_empty(&super->dirty_link)) {
        super->dirty_since_ms = now_ms;
        list_push_back(&shard->dirty, &super->dirty_link);
    }
}

void shard_settle(struct span_shard *shard, struct super *super, uint64_t now_ms) {
    if (place(shard, super, now_ms))
        note_dirty(shard, super, now_ms);
}

void shard_adopt(struct span_shard *shard, struct super *super) {
    atomic_store_explicit(&super->shard, (uint16_t)(shard - span_shards), memory_order_relaxed);
    /* Pairs with the acquire in span_lock_home. */
    atomic_store_explicit(&super->home, SUPER_IN_SHARD, memory_order_release);
    shard->super_count++;
}

void shard_add(struct span_shard *shard, struct super *super) {
    shard_adopt(shard, super);
    enlist(shard, super);
    note_dirty(shard, super, os_now_ms());
}

void shard_release_warm(struct span_shard *shard, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
        struct super *super = window_super(i);
        bool is_ours =
            super != NULL &&
            /* Pairs with the release in adopt: the shard's number is that of its home. */
            atomic_load_explicit(&super->home, memory_order_acquire) == SUPER_IN_SHARD &&
            &span_shards[atomic_load_explicit(&super->shard, memory_order_relaxed)] == shard;
        if (is_ours && super->free == ALL_SLABS) {
            unlist(shard, super);
            leave(shard, super, super->dirty_since_ms);
        }
    }
}

void shard_release_all_warm(struct span_shard *shard) {
    struct list *warm = &shard->by_free[SUPER_SLABS];
    while (!list_is_empty(warm)) {
        struct super *super = container_of(warm->next, struct super, link);
        unlist(shard, super);
        leave(shard, super, super->dirty_since_ms);
    }
}

void shard_take(struct span_shard *shard, struct super *super, uint32_t slabs) {
    unlist(shard, super);
    super->free &= ~slabs;
    super->zero &= ~slabs;
    super->blank &= ~slabs;
    if (super_purgeable(super) == 0)
        list_remove(&super->dirty_link);
    enlist(shard, super);
}

void shard_give(struct span_shard *shard, struct super *super, uint32_t slabs) {
    unlist(shard, super);
    super->free |= slabs;
    shard_settle(shard, super, os_now_ms());
}

void shard_give_purged(struct span_shard *shard, struct super *super, uint32_t slabs,
                       uint32_t zero) {
    unlist(shard, super);
    super->free |= slabs;
    super->zero |= zero;
    super->is_written &= zero == 0;
    if (zero == slabs) {
        shard_settle(shard, super, os_now_ms());
    } else {
        list_remove(&super->dirty_link); /* locked memory: not tried again at once */
        place(shard, super, os_now_ms());
    }
}

void shard_break_up(struct span_shard *shard) {
    for (unsigned f = 1; f <= SUPER_SLABS; f++) {
        list_for_each(link, &shard->by_free[f]) {
            struct super *super = container_of(link, struct super, link);
            super->goes_whole = false;
            note_dirty(shard, super, os_now_ms());
        }
    }
}

unsigned shard_find_run(uint32_t slabs, size_t count, size_t alignment) {
    uint64_t starts = bits_runs(slabs, (unsigned)count);
    while (starts != 0) {
        unsigned at = bit_lowest(starts);
        if (at % alignment == 0)
            return at;
        starts &= starts - 1;
    }
    return SUPER_SLABS;
}

/* Who does not grow would be resident to the end of what it has of a huge page. */
static uint32_t may_have(const struct super *super, const struct span_request *request) {
    bool takes_blank = request->grows || request->is_last;
    return takes_blank ? super->free : super->free & ~super->blank;
}

/* All of it used pages, the lowest in the SuperSlabs that have had such for longest. */
static struct place find_used(struct span_shard *shard, const struct span_request *request,
                              size_t slabs) {
    struct place place = {NULL, 0, 0};
    unsigned looks = 0;
    list_for_each(link, &shard->dirty) {
        struct super *super = container_of(link, struct super, dirty_link);
        if (place.super == NULL || super->start < place.super->start) {
            uint32_t set = may_have(super, request) & ~super->zero;
            unsigned at = shard_find_run(set, slabs, request->alignment);
            if (at < SUPER_SLABS)
                place = (struct place){super, at, (unsigned)slabs};
        }
        if (++looks == DIRTY_LOOKS)
            break;
    }
    return place;
}

/* In the fullest SuperSlab with room; with untouched, room of untouched pages. */
static struct place find_fullest(struct span_shard *shard, const struct span_request *request,
                                 bool untouched) {
    size_t slabs = request->slabs;
    uint64_t ranks = shard->occupied & ~bits_low((unsigned)slabs);
    for (; ranks != 0; ranks &= ranks - 1) {
        list_for_each(link, &shard->by_free[bit_lowest(ranks)]) {
            struct super *super = container_of(link, struct super, link);
            uint32_t set = may_have(super, request) & (untouched ? super->zero : ALL_SLABS);
            unsigned at = shard_find_run(set, slabs, request->alignment);
            if (at < SUPER_SLABS)
                return (struct place){super, at, (unsigned)slabs};
        }
    }
    return (struct place){NULL, 0, 0};
}

struct place shard_find(struct span_shard *shard, const struct span_request *request) {
    struct place place = {NULL, 0, 0};
    if (request->pages == SPAN_UNTOUCHED) {
        place = find_fullest(shard, request, true);
    } else {
        place = find_used(shard, request, request->slabs);
        if (place.super == NULL && request->slabs_least < request->slabs)
            place = find_used(shard, request, request->slabs_least);
    }
    if (place.super == NULL)
        place = find_fullest(shard, request, false);
    return place;
}
