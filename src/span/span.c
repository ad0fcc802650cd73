/* Spans of slabs inside the SuperSlabs of a shard (shard.c says which free ones are
 * taken first).
 *
 * Requests of more than a SuperSlab take a run of whole ones from the arena;
 * what the last of them has left serves the shard.
 *
 * Locks: the shard's lock protects its lists and its SuperSlabs' free, zero and
 * heads; the arena's may be taken inside it. Commit and purge run unlocked. */
#include "span/span.h"

#include "os/clear.h"
#include "os/memory.h"
#include "os/system.h"
#include "span/arena.h"
#include "span/limits.h"
#include "span/purge.h"
#include "span/shard.h"

enum { HUGE_FROM_SUPERS = 32 }; /* of a shard; the next may be a huge page from the start */

unsigned span_shards_used;

void span_init(unsigned count) {
    limits_init();
    span_shards_used = count + 1;
    for (unsigned s = 0; s < span_shards_used; s++)
        shard_init(&span_shards[s]);
}

/* Makes slab `first` of super the head of a span; its slabs are taken. */
static struct span *begin_span(struct span_shard *shard, struct super *super, unsigned first,
                               size_t slabs, enum span_state state) {
    struct span *span = &super->spans[first];
    span->start = super->start + (size_t)first * SLAB_BYTES;
    span->slabs = (uint16_t)slabs;
    span->state = (uint8_t)state;
    if (state == SPAN_LARGE) {
        shard->large_count++;
        shard->large_taken++;
        shard->large_bytes += span_bytes(span);
    }
    /* atomic: warm, correctness; pairs with the acquire in span_of, which then sees
     * the head's fields. */
    atomic_fetch_or_explicit(&super->heads, slab_mask(first, 1), memory_order_release);
    return span;
}

/* --- taking ---------------------------------------------------------------- */

static size_t untouched_bytes(const struct super *super, uint32_t slabs) {
    return bit_count(super->zero & slabs) * (size_t)SLAB_BYTES;
}

/* Free slabs are about to be used: the untouched ones count from now on. */
static bool charge(const struct super *super, uint32_t slabs) {
    return limits_charge(untouched_bytes(super, slabs));
}

/* A long block is seldom touched all over. Where few pages of a SuperSlab are in memory they go
 * back: writing zeros would bring in the others. */
static void clear_whole(struct super *super) {
    char *start = super->start;
    bool has_few = !super->is_written &&
                   os_resident_pages(start, SUPER_BYTES) * os_page_size() < SUPER_BYTES / 2;
    if (has_few && os_purge(start, SUPER_BYTES)) {
        atomic_store_explicit(&super->is_collapsed, false, memory_order_relaxed);
        return;
    }
    os_clear(start, SUPER_BYTES, true);
    super->is_written = true;
}

/* Clears those of a SuperSlab's slabs that have been used, as far as they lie below end. */
static void clear_used(struct super *super, uint32_t used, const char *end) {
    if (used == ALL_SLABS && end - super->start >= SUPER_BYTES) {
        clear_whole(super);
        return;
    }
    while (used != 0) {
        unsigned first = bit_lowest(used);
        unsigned count = bit_lowest(~((uint64_t)used >> first));
        char *start = super->start + (size_t)first * SLAB_BYTES;
        if (start < end)
            os_clear(start, hak_min((size_t)(end - start), (size_t)count * SLAB_BYTES), false);
        used &= ~slab_mask(first, count);
    }
}

/* What the pages of a span were when it was taken. */
struct taken_pages {
    bool are_zero;      /* all read as zero */
    size_t grown_bytes; /* none had been touched: by so many the heap grows */
};

/* Takes a place of a shard's, charged already; the shard's lock is held, and released. */
static struct span *take_place(struct span_shard *shard, struct place place,
                               const struct span_request *request, struct taken_pages *pages) {
    struct super *super = place.super;
    uint32_t mask = slab_mask(place.first, place.slabs);
    uint32_t used = mask & ~super_reads_zero(super);
    bool is_untouched = (mask & ~super->zero) == 0;
    *pages = (struct taken_pages){used == 0, is_untouched ? place.slabs * (size_t)SLAB_BYTES : 0};
    shard_take(shard, super, mask);
    super->is_written &= request->state == SPAN_LARGE; /* of others single pages may go */
    struct span *span = begin_span(shard, super, place.first, place.slabs, request->state);
    os_lock_release(&shard->lock);
    clear_used(super, used, span->start + request->zero_bytes);
    return span;
}

/* Whether the next SuperSlab may be a huge page: in memory as a whole, used or not, it is to be a
 * small part of what the shard has. */
static bool may_be_huge(const struct span_shard *shard, const struct span_request *request) {
    return request->grows && shard->super_count >= HUGE_FROM_SUPERS;
}

/* In what the shard has, or has of the arena's from now on. Single pages that were never touched
 * are left to others, if a huge page costs not much more. */
static struct place find_place(struct span_shard *shard, const struct span_request *request) {
    struct place place = shard_find(shard, request);
    bool would_grow = place.super != NULL &&
                      untouched_bytes(place.super, slab_mask(place.first, place.slabs)) != 0;
    bool looks_further = would_grow && request->pages == SPAN_USED_ANYWHERE;
    struct super *used = looks_further ? arena_take_used() : NULL;
    if (used == NULL && would_grow && may_be_huge(shard, request) && span_collapse_is_worth_it())
        place.super = NULL;
    if (used == NULL)
        return place;
    shard_add(shard, used);
    unsigned at = shard_find_run(~used->zero, request->slabs, request->alignment);
    return (struct place){used, at < SUPER_SLABS ? at : 0, (unsigned)request->slabs};
}

/* What a shard has. *is_there: it has room; NULL all the same, that would pass the hard limit. */
static struct span *take_own(struct span_shard *shard, const struct span_request *request,
                             bool *is_there, struct taken_pages *pages) {
    os_lock_acquire(&shard->lock);
    struct place place = find_place(shard, request);
    *is_there = place.super != NULL;
    if (*is_there && charge(place.super, slab_mask(place.first, place.slabs)))
        return take_place(shard, place, request, pages);
    os_lock_release(&shard->lock);
    return NULL;
}

static struct super *take_super(const struct span_request *request) {
    if (request->state == SPAN_GUARDED)
        return arena_take_apart(1);
    struct super *used = request->pages != SPAN_UNTOUCHED ? arena_take_used() : NULL;
    return used != NULL ? used : arena_take(1, 1);
}

static struct span *take_within(struct span_shard *shard, const struct span_request *request,
                                struct taken_pages *pages) {
    bool is_there;
    struct span *span = take_own(shard, request, &is_there, pages);
    if (is_there)
        return span;
    struct super *fresh = take_super(request);
    if (fresh == NULL)
        return NULL;
    struct place place = {fresh, 0, (unsigned)request->slabs};
    os_lock_acquire(&shard->lock);
    bool huge = may_be_huge(shard, request);
    os_lock_release(&shard->lock);
    /* Traded before what it grew by is there to be traded. */
    if (huge && span_collapse_fresh(fresh))
        span_trade((unsigned)(shard - span_shards), SUPER_BYTES);
    if (!charge(fresh, slab_mask(0, place.slabs))) {
        arena_give(fresh, os_now_ms());
        return NULL;
    }
    os_lock_acquire(&shard->lock);
    shard_add(shard, fresh);
    return take_place(shard, place, request, pages);
}

/* There is no address left, or no memory: then what other shards have is looked through too, for
 * as few slabs as will do, and the purger has none in hand meanwhile. */
static struct span *take_anywhere(struct span_shard *home, const struct span_request *request,
                                  struct taken_pages *pages) {
    struct span_request least = *request;
    least.slabs = request->slabs_least;
    least.grows = false;
    least.is_last = true;
    os_lock_acquire(&purge_lock);
    struct span *span = take_within(home, &least, pages);
    bool is_there;
    for (unsigned s = 0; s < span_shards_used && span == NULL; s++)
        span = take_own(&span_shards[s], &least, &is_there, pages);
    os_lock_release(&purge_lock);
    return span;
}

/* How a long span lies on its SuperSlabs: whole ones, then some slabs of one more. */
static size_t whole_supers(size_t slabs) { return slabs / SUPER_SLABS; }
static unsigned last_slabs(size_t slabs) { return (unsigned)(slabs % SUPER_SLABS); }

/* The slabs that a span of so many has in the i-th of its SuperSlabs. */
static uint32_t run_mask(size_t slabs, size_t i) {
    return slab_mask(0, (unsigned)hak_min(slabs - i * SUPER_SLABS, (size_t)SUPER_SLABS));
}

/* Of the SuperSlabs [from, to) of a run that begins at first and is to have so many slabs. */
static size_t untouched_run_bytes(size_t first, size_t slabs, size_t from, size_t to) {
    size_t bytes = 0;
    for (size_t i = from; i < to; i++)
        bytes += untouched_bytes(window_super(first + i), run_mask(slabs, i));
    return bytes;
}

static void give_supers(size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        arena_give(window_super(i), os_now_ms());
}

static struct span *take_run(struct span_shard *shard, const struct span_request *request,
                             struct taken_pages *pages) {
    size_t slabs = request->slabs;
    size_t count = divide_up(slabs, SUPER_SLABS);
    struct super *head =
        request->state == SPAN_GUARDED
            ? arena_take_apart(count)
            : arena_take(count, hak_max(request->alignment / SUPER_SLABS, (size_t)1));
    if (head == NULL)
        return NULL;
    size_t first = window_super_index(head->start);
    if (!limits_charge(untouched_run_bytes(first, slabs, 0, count))) {
        give_supers(first, count);
        return NULL;
    }
    *pages = (struct taken_pages){true, slabs * SLAB_BYTES};
    for (size_t i = 0; i < count; i++) { /* nobody else's, so no lock is held meanwhile */
        struct super *super = window_super(first + i);
        uint32_t used = run_mask(slabs, i) & ~super_reads_zero(super);
        pages->are_zero &= used == 0;
        if ((run_mask(slabs, i) & ~super->zero) != 0)
            pages->grown_bytes = 0;
        clear_used(super, used, head->start + request->zero_bytes);
    }
    os_lock_acquire(&shard->lock);
    for (size_t i = 0; i < count; i++) {
        struct super *super = window_super(first + i);
        uint32_t mask = run_mask(slabs, i);
        super->free &= ~mask;
        super->zero &= ~mask;
        super->blank &= ~mask;
        if (super == head || super->free != 0) {
            shard_adopt(shard, super);
            shard_settle(shard, super, os_now_ms());
        }
    }
    struct span *span = begin_span(shard, head, 0, slabs, request->state);
    os_lock_release(&shard->lock);
    return span;
}

struct span *span_take(unsigned shard, const struct span_request *request, bool *is_zero) {
    struct span_shard *home = &span_shards[shard];
    limits_expect(request->slabs * SLAB_BYTES);
    bool fits = request->slabs <= SUPER_SLABS && request->alignment <= SUPER_SLABS;
    struct taken_pages pages = {0};
    struct span *span = fits ? take_within(home, request, &pages) : take_run(home, request, &pages);
    /* Guarded blocks can be done without. */
    if (hak_unlikely(span == NULL) && fits && request->state != SPAN_GUARDED)
        span = take_anywhere(home, request, &pages);
    /* Of a guarded block's span no more than a page or two will ever be touched. */
    if (span != NULL && pages.grown_bytes != 0 && request->state != SPAN_GUARDED)
        span_trade(shard, pages.grown_bytes);
    *is_zero = pages.are_zero || request->zero_bytes != 0;
    return span;
}

void span_release_warm(unsigned shard) {
    os_lock_acquire(&span_shards[shard].lock);
    shard_release_all_warm(&span_shards[shard]);
    os_lock_release(&span_shards[shard].lock);
}

/* --- giving ---------------------------------------------------------------- */

static struct super *super_of(const struct span *span) {
    return window_super(window_super_index(span->start));
}

/* Locks the shard that a span's SuperSlab belongs to; NULL when the SuperSlab is
 * in the arena, and so holds no span in use. */
static struct span_shard *span_lock_home(struct span *span) {
    struct super *super = super_of(span);
    for (;;) {
        unsigned index = atomic_load_explicit(&super->shard, memory_order_relaxed);
        struct span_shard *shard = &span_shards[index];
        os_lock_acquire(&shard->lock);
        /* Pairs with the release in adopt: a SuperSlab that has gone from this shard to
         * another by way of the arena is seen with that one's number. */
        if (atomic_load_explicit(&super->home, memory_order_acquire) != SUPER_IN_SHARD) {
            os_lock_release(&shard->lock);
            return NULL;
        }
        if (atomic_load_explicit(&super->shard, memory_order_relaxed) == index)
            return shard;
        os_lock_release(&shard->lock);
    }
}

/* Frees slabs [from, to) of a span that starts at a SuperSlab's first slab. The
 * head's lock is held; the last SuperSlab belongs to the same shard. */
static void free_run(struct span_shard *shard, struct super *head, size_t from, size_t to) {
    size_t first = window_super_index(head->start);
    for (size_t i = whole_supers(from); i * SUPER_SLABS < to; i++) {
        struct super *super = window_super(first + i);
        size_t low = hak_max(from, i * SUPER_SLABS) - i * SUPER_SLABS;
        size_t high = hak_min(to - i * SUPER_SLABS, (size_t)SUPER_SLABS);
        if (atomic_load_explicit(&super->home, memory_order_relaxed) == SUPER_IN_RUN)
            shard_adopt(shard, super);
        shard_give(shard, super, slab_mask((unsigned)low, (unsigned)(high - low)));
    }
}

static void give_locked(struct span_shard *shard, struct span *span) {
    struct super *super = super_of(span);
    unsigned first = super_index_of_slab(super, span->start);
    if (span->state == SPAN_LARGE) {
        shard->large_count--;
        shard->large_given++;
        shard->large_bytes -= span_bytes(span);
    }
    span->state = SPAN_FREE;
    /* atomic: warm, correctness; pairs with the acquire in span_of. */
    atomic_fetch_and_explicit(&super->heads, ~slab_mask(first, 1), memory_order_release);
    if (first + span->slabs <= SUPER_SLABS)
        shard_give(shard, super, slab_mask(first, span->slabs));
    else
        free_run(shard, super, 0, span->slabs);
}

void span_give(struct span *span) {
    struct span_shard *shard = span_lock_home(span);
    hak_assert(shard != NULL);
    give_locked(shard, span);
    os_lock_release(&shard->lock);
}

bool span_give_large(struct span *span, const void *start) {
    struct span_shard *shard = span_lock_home(span);
    if (shard == NULL)
        return false;
    bool is_live = span->state == SPAN_LARGE && span->start == start;
    if (is_live)
        give_locked(shard, span);
    os_lock_release(&shard->lock);
    return is_live;
}

struct span *span_of_long(const void *pointer) {
    for (size_t index = window_super_index(pointer); index-- > 0;) {
        struct super *super = window_super(index);
        uint32_t heads =
            super == NULL ? 0 : atomic_load_explicit(&super->heads, memory_order_acquire);
        if (heads != 0)
            return span_up_to(&super->spans[bit_highest(heads)], pointer);
    }
    return NULL;
}

/* --- resizing in place ------------------------------------------------------- */

/* Takes the slabs behind a span inside its SuperSlab; how much of them is untouched. */
static bool extend_within(struct span_shard *shard, struct super *super, unsigned from, unsigned to,
                          size_t *untouched) {
    uint32_t mask = slab_mask(from, to - from);
    *untouched = untouched_bytes(super, mask);
    if ((super->free & mask) != mask || !limits_charge(*untouched))
        return false;
    shard_take(shard, super, mask);
    return true;
}

/* What a run grows into: some slabs of its last SuperSlab, then SuperSlabs behind it. */
struct growth {
    struct super *last;
    uint32_t rest;
    size_t first, count;
};

static struct growth growth_of(const struct super *head, size_t from, size_t to) {
    size_t first = window_super_index(head->start);
    size_t end = divide_up(from, SUPER_SLABS);
    size_t within = hak_min(to, end * SUPER_SLABS);
    bool is_whole = last_slabs(from) == 0;
    return (struct growth){
        .last = window_super(first + end - 1),
        .rest = is_whole ? 0 : slab_mask(last_slabs(from), (unsigned)(within - from)),
        .first = first + end,
        .count = divide_up(to, SUPER_SLABS) - end,
    };
}

/* The SuperSlabs of a growth, committed, from the arena: what the shard keeps warm of
 * them goes there first. The lock is released meanwhile, for committing is a call into
 * the kernel; the span is its owner's, and holds still. */
static bool take_behind(struct span_shard *shard, const struct growth *growth) {
    if (growth->count == 0)
        return true;
    if (growth->first + growth->count > window_super_count())
        return false;
    shard_release_warm(shard, growth->first, growth->count);
    os_lock_release(&shard->lock);
    bool taken = arena_take_at(growth->first, growth->count);
    os_lock_acquire(&shard->lock);
    return taken;
}

static bool rest_is_free(const struct growth *growth) {
    return (growth->last->free & growth->rest) == growth->rest;
}

static size_t untouched_growth_bytes(const struct growth *growth, size_t begin, size_t slabs) {
    size_t from = growth->first - begin;
    return untouched_bytes(growth->last, growth->rest) +
           untouched_run_bytes(begin, slabs, from, from + growth->count);
}

/* Lengthens a run: the rest of its last SuperSlab must be free, and so must as many
 * SuperSlabs behind it as it needs. */
static bool extend_run(struct span_shard *shard, struct super *head, size_t from, size_t to,
                       size_t *untouched) {
    struct growth growth = growth_of(head, from, to);
    if (!rest_is_free(&growth) || !take_behind(shard, &growth))
        return false;
    size_t begin = window_super_index(head->start);
    *untouched = untouched_growth_bytes(&growth, begin, to);
    if (!rest_is_free(&growth) || !limits_charge(*untouched)) {
        give_supers(growth.first, growth.count); /* another thread was quicker, or it is too much */
        return false;
    }
    if (growth.rest != 0)
        shard_take(shard, growth.last, growth.rest);
    for (size_t i = growth.first; i < growth.first + growth.count; i++) {
        struct super *super = window_super(i);
        super->free &= ~run_mask(to, i - begin);
        super->zero &= super->free;
        super->blank &= super->free;
        if (super->free != 0) {
            shard_adopt(shard, super);
            shard_settle(shard, super, os_now_ms());
        }
    }
    return true;
}

static bool extend(struct span_shard *shard, struct span *span, size_t slabs, size_t *untouched) {
    struct super *super = super_of(span);
    unsigned first = super_index_of_slab(super, span->start);
    if (first + slabs <= SUPER_SLABS)
        return extend_within(shard, super, first + span->slabs, first + (unsigned)slabs, untouched);
    return first == 0 && extend_run(shard, super, span->slabs, slabs, untouched);
}

bool span_resize(struct span *span, size_t slabs) {
    if (slabs > span->slabs)
        limits_expect((slabs - span->slabs) * SLAB_BYTES);
    struct span_shard *shard = span_lock_home(span);
    hak_assert(shard != NULL && slabs != 0);
    bool done = true;
    size_t untouched = 0;
    struct super *super = super_of(span);
    unsigned first = super_index_of_slab(super, span->start);
    if (slabs > span->slabs)
        done = extend(shard, span, slabs, &untouched);
    else if (slabs < span->slabs && first + span->slabs <= SUPER_SLABS)
        shard_give(shard, super, slab_mask(first + (unsigned)slabs, span->slabs - (unsigned)slabs));
    else if (slabs < span->slabs)
        free_run(shard, super, slabs, span->slabs);
    if (done) {
        shard->large_bytes += (slabs - span->slabs) * SLAB_BYTES;
        span->slabs = (uint16_t)slabs;
    }
    os_lock_release(&shard->lock);
    if (done && untouched != 0)
        span_trade((unsigned)(shard - span_shards), untouched);
    return done;
}

struct span_stats span_stats(void) {
    struct span_stats stats = {0};
    for (unsigned s = 0; s < span_shards_used; s++) {
        struct span_shard *shard = &span_shards[s];
        os_lock_acquire(&shard->lock);
        stats.super_count += shard->super_count;
        stats.large_count += shard->large_count;
        stats.large_bytes += shard->large_bytes;
        stats.large_taken += shard->large_taken;
        stats.large_given += shard->large_given;
        for (unsigned f = 1; f <= SUPER_SLABS; f++) {
            list_for_each(link, &shard->by_free[f]) {
                struct super *super = container_of(link, struct super, link);
                stats.free_bytes += (size_t)f * SLAB_BYTES;
                stats.dirty_bytes += bit_count(super->free & ~super->zero) * (size_t)SLAB_BYTES;
            }
        }
        os_lock_release(&shard->lock);
    }
    return stats;
}
