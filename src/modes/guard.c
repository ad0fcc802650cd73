/* Guard sampling: finds use after free and overflows in programs that run for real.
 *
 *   span    | inaccessible | slack |  block  | slack | inaccessible |
 *                          ^ page                    ^ page
 *
 * One in guard_rate blocks gets pages of its own. It lies at their left or their right end, by
 * chance, so that an access just before or just behind it faults at once; the slack on its
 * other side is filled with a pattern that is looked at when it is freed. Then its pages
 * become inaccessible, too, and stay so until their turn comes to serve another block: what
 * still touches it faults. The report has the stacks of all who had to do with it.
 *
 * Nothing is paid on the fast path: a refill counts the blocks that leave it, and in the call
 * in which the count runs out the caller gets a guarded block instead (front/slow.c). So that
 * blocks leave refills also where a program's bins serve it for long, a few bins are parked now
 * and then (bins_park of cache/bins.c, front/scavenger.c). Large blocks have no bins, and count
 * one by one. Threads are watched only where every call counts, for rates of up to CALLS_RATE. In
 * the map such a block names a bin that is always full, so that each free of one comes here.
 *
 *   record   unused -> live -> freed, a queue, the oldest first -> unused
 *
 * Lock: guard_lock protects the records' states, the lists and the counts. The other fields are
 * written by who has just taken a record, and by who has just turned it from live to freed.
 * Calls into the kernel are made without it. */
#include "modes/guard.h"

#include <string.h>

#include "modes/guarded.h"
#include "os/metadata.h"
#include "os/options.h"
#include "os/system.h"

enum {
    CALLS_RATE = 1000,               /* up to this rate all calls are seen */
    FREED_MAX = 16384,               /* freed blocks that stay inaccessible at guard_rate=1 */
    FIRST_BLOCKS = 4,                /* of each size class, in hardened=2, */
    FIRST_LARGEST_BYTES = 32 * 1024, /* up to this size */
    SPLIT_MAX = 8192,                /* blocks where each may split a mapping in three */
    WINDOW_SHARE = 8, /* of the window's slabs there are no more blocks, each with one or more */
    OWED_PARKS = 64, /* so many frees in a row are slow for it, and no more until bins are parked */
    BLOCK_ALIGNMENT = 16,
    SLACK_BYTE = 0xA7,
};
static const size_t block_max_bytes = GIB / 2;

struct os_lock guard_lock;

static struct list unused = {&unused, &unused};
static struct list freed = {&freed, &freed};
static size_t live_count, freed_count;
static uint64_t taken_count;
static uint64_t chance; /* state of the generator; 0: not begun */
static bool is_watching;

_Atomic uint32_t guard_first_left[CLASS_COUNT];
static size_t first_count; /* of all classes, at the start */

/* --- when ------------------------------------------------------------------------ */

/* xorshift64. The lock is held. */
static uint64_t random_next(void) {
    if (chance == 0)
        chance = os_random_seed() | 1;
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance;
}

/* Exponential, of mean 1, in 2^24ths: John von Neumann's way, which only compares. The lock is
 * held. */
static uint64_t random_exponential(void) {
    for (uint64_t whole = 0;; whole += UINT64_C(1) << 24) {
        uint64_t first = random_next() >> 40;
        uint64_t last = first;
        bool is_odd = false;
        for (uint64_t next = first; next <= last; next = random_next() >> 40) {
            last = next;
            is_odd = !is_odd;
        }
        if (is_odd)
            return whole + first;
    }
}

/* So many blocks are left alone before the next: on average one less than the rate, and each
 * block has the same chance, whatever was before it: also the first ones of a short-lived
 * program, and never in step with what a program does. The lock is held. */
static int64_t next_interval(void) {
    uint64_t rate = hak_options.guard_rate;
    /* Rounded down, one of a mean half less than the rate has the chance of 1 / rate, nearly. */
    return rate == 1 ? 0 : (int64_t)((random_exponential() * (2 * rate - 1)) >> 25);
}

bool guard_counts_calls(void) {
    return hak_options.guard_rate != 0 && hak_options.guard_rate <= CALLS_RATE;
}

static int64_t *countdown(struct thread *thread) {
    return guard_counts_calls() ? &thread->calls_until_guard : &thread->until_guard;
}

void guard_begin(struct thread *thread) {
    if (hak_options.guard_rate == 0 || guard_counts_calls())
        thread->until_guard = INT64_MAX;
    thread->wants_refills = guard_wants_refills();
    if (thread->until_guard != 0) /* a thread before it that had the structure left this */
        return;
    os_lock_acquire(&guard_lock);
    thread->until_guard = next_interval();
    os_lock_release(&guard_lock);
}

/* With its parent's countdown, all of a server's children would guard a block at the same place,
 * or, where they are short, none would ever. */
void guard_forked(struct thread *thread) {
    if (thread == NULL || hak_options.guard_rate == 0)
        return;
    os_lock_acquire(&guard_lock);
    random_next();
    chance ^= os_process_id() * UINT64_C(0x9e3779b97f4a7c15);
    *countdown(thread) = next_interval();
    thread->owed_class = 0;
    os_lock_release(&guard_lock);
}

void guard_owe(struct thread *thread, unsigned class) {
    if (thread->until_guard < 0 &&
        thread->owed_class == 0) { /* else the next of any class will do */
        os_lock_acquire(&guard_lock);
        thread->until_guard += 1 + next_interval();
        os_lock_release(&guard_lock);
        thread->owed_class = (uint16_t) class;
    }
    if (thread->owed_class != class || thread->owed_parks == OWED_PARKS)
        return;
    thread->owed_parks++;
    cache_park(thread, class);
}

bool guard_counts(struct thread *thread) {
    return guard_counts_calls() && --thread->calls_until_guard < 0;
}

void guard_start(void) {
    if (hak_options.hardened < 2 || hak_options.guard_rate == 0 || hak_options.leaks != 0)
        return;
    for (unsigned class = 1; class_size(class) <= FIRST_LARGEST_BYTES; ++class) {
        atomic_store_explicit(&guard_first_left[class], FIRST_BLOCKS, memory_order_relaxed);
        first_count += FIRST_BLOCKS;
    }
}

bool guard_counts_first(unsigned bin, enum guard_side *side) {
    if (!guard_wants_first(bin))
        return false;
    uint32_t left = atomic_load_explicit(&guard_first_left[bin], memory_order_relaxed);
    /* atomic: cold, correctness; no partner: each of them is counted once. */
    while (left != 0 &&
           !atomic_compare_exchange_weak_explicit(&guard_first_left[bin], &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    *side = left % 2 == 0 ? GUARD_RIGHT : GUARD_LEFT;
    return left != 0;
}

bool guard_counts_large(struct thread *thread, size_t size) {
    if (size > block_max_bytes || hak_options.guard_rate == 0)
        return false;
    return guard_counts_calls() ? guard_counts(thread) : --thread->until_guard < 0;
}

bool guard_wants_refills(void) { return hak_options.guard_rate > CALLS_RATE; }

void guard_ask_for_refill(void) {
    os_lock_acquire(&guard_lock);
    uint64_t random = random_next();
    os_lock_release(&guard_lock);
    registry_close_bin(random);
}

/* --- records ---------------------------------------------------------------------- */

/* The lock is held. */
static bool is_full(void) {
    size_t most = window_slab_count / WINDOW_SHARE;
    if (os_guard_splits())
        most = hak_min(most, (size_t)SPLIT_MAX);
    if (hak_options.guard_rate != 1)
        most = hak_min(most, (size_t)hak_options.guard_slots + first_count);
    return live_count + freed_count >= most || freed_count >= FREED_MAX;
}

/* The lock is held. */
static struct guarded *pop(struct list *list) {
    if (list_is_empty(list))
        return NULL;
    struct guarded *record = container_of(list->next, struct guarded, link);
    list_remove(&record->link);
    return record;
}

/* The one that has been freed longest, or NULL. The lock is held. */
static struct guarded *pop_freed(void) {
    struct guarded *record = pop(&freed);
    if (record != NULL) {
        record->state = GUARDED_UNUSED;
        freed_count--;
    }
    return record;
}

static void write_entries(const struct span *span, uint16_t entry) {
    size_t first = window_slab_index(span->start);
    for (size_t i = 0; i < span->slabs; i++)
        window_entry_set(first + i, entry);
}

/* What an unused record still has serves others. */
static void give_span(struct guarded *record) {
    struct span *span = record->span;
    record->span = NULL;
    if (span == NULL)
        return;
    write_entries(span, 0);
    /* Refused, nobody can ever have it again. */
    if (os_unguard(span->start, span_bytes(span)))
        span_give(span);
}

/* The one that was due is here; the next one is in a while. The lock is held. */
static void settle(struct thread *thread) {
    int64_t *left = countdown(thread);
    if (*left < 0)
        *left += 1 + next_interval();
    else
        thread->owed_class = 0;
}

/* A record, counted as live; it may have a span still, all of it inaccessible. The first blocks of
 * a class, which are told their side, come beside those that are due. NULL: there is no room. */
static struct guarded *take_record(struct thread *thread, enum guard_side *side) {
    os_lock_acquire(&guard_lock);
    if (*side == GUARD_BY_CHANCE) {
        settle(thread);
        *side = random_next() >> 32 & 1 ? GUARD_RIGHT : GUARD_LEFT;
    }
    struct guarded *record = is_full() ? pop_freed() : pop(&unused);
    if (record == NULL && !is_full())
        record = os_metadata_take(sizeof *record);
    live_count += record != NULL;
    bool is_first = record != NULL && !is_watching;
    is_watching |= is_first;
    os_lock_release(&guard_lock);
    if (is_first)
        os_fault_watch(guarded_look);
    return record;
}

static void drop_record(struct guarded *record) {
    give_span(record);
    os_lock_acquire(&guard_lock);
    live_count--;
    list_push_front(&unused, &record->link);
    os_lock_release(&guard_lock);
}

struct guarded *guarded_of(const void *pointer) {
    if (entry_bin(window_entry(pointer)) != BIN_GUARD)
        return NULL;
    struct span *span = span_of(pointer);
    return span != NULL && span->state == SPAN_GUARDED ? span->guarded : NULL;
}

size_t guarded_class_bytes(const struct guarded *record) {
    size_t aligned = class_aligned_size(record->size, record->alignment);
    return aligned > CLASS_SIZE_MAX ? align_up(aligned, SLAB_BYTES) : class_size(class_of(aligned));
}

/* --- taking ------------------------------------------------------------------------ */

/* As a block of its size class would have it (slab/classes.h), or what was asked for if more. */
static size_t alignment_of(size_t size, size_t wanted) {
    size_t natural = hak_clamp(size & -size, (size_t)BLOCK_ALIGNMENT, (size_t)SLAB_BYTES);
    return hak_max(natural, wanted);
}

/* Where on its span the accessible pages of a block lie. */
struct layout {
    size_t before, pages_bytes;
};

static struct layout layout_of(size_t size, size_t alignment) {
    size_t page = os_page_size();
    return (struct layout){
        .before = hak_max(page, alignment),
        .pages_bytes = align_up(hak_max(size, (size_t)1), page),
    };
}

/* The pages of the block before, which lie just so: one call into the kernel. */
static bool reuse_pages(const struct guarded *record, struct layout layout) {
    return record->span != NULL && record->pages == record->span->start + layout.before &&
           record->pages_bytes == layout.pages_bytes &&
           os_unguard(record->pages, record->pages_bytes);
}

/* A span for a record that has none. False: out of memory, or pages cannot be guarded. */
static bool take_pages(struct guarded *record, struct layout layout) {
    size_t slabs = divide_up(layout.before + layout.pages_bytes + os_page_size(), SLAB_BYTES);
    struct span_request request = {
        .slabs = slabs,
        .slabs_least = slabs,
        .alignment = 1,
        .state = SPAN_GUARDED,
        .pages = SPAN_UNTOUCHED,
    };
    bool is_zero;
    struct span *span = span_take(span_guard_shard(), &request, &is_zero);
    if (span == NULL)
        return false;
    span->guarded = record;
    record->span = span;
    record->pages = span->start + layout.before;
    record->pages_bytes = layout.pages_bytes;
    char *behind = record->pages + record->pages_bytes;
    return os_guard(span->start, layout.before) &&
           os_guard(behind, (size_t)(span->start + span_bytes(span) - behind));
}

static bool place(struct guarded *record, size_t size, size_t alignment, enum guard_side side) {
    struct layout layout = layout_of(size, alignment);
    if (!reuse_pages(record, layout)) {
        give_span(record);
        if (!take_pages(record, layout))
            return false;
    }
    size_t most_right = align_down(record->pages_bytes - size, alignment);
    record->block = record->pages + (side == GUARD_RIGHT ? most_right : 0);
    record->size = size;
    record->alignment = alignment;
    return true;
}

static void fill_slack(const struct guarded *record) {
    char *end = record->block + record->size;
    memset(record->pages, SLACK_BYTE, (size_t)(record->block - record->pages));
    memset(end, SLACK_BYTE, (size_t)(record->pages + record->pages_bytes - end));
}

void *guard_take(struct thread *thread, size_t size, size_t alignment, size_t asked,
                 enum guard_side side) {
    struct guarded *record = size > block_max_bytes ? NULL : take_record(thread, &side);
    if (record == NULL)
        return NULL;
    if (!place(record, size, alignment_of(size, alignment), side)) {
        drop_record(record);
        return NULL;
    }
    record->asked = asked;
    fill_slack(record);
    os_stack_capture(&record->allocated);
    write_entries(record->span, entry_make(0, BIN_GUARD));
    os_lock_acquire(&guard_lock);
    record->state = GUARDED_LIVE;
    taken_count++;
    os_lock_release(&guard_lock);
    return record->block;
}

/* --- giving ------------------------------------------------------------------------ */

/* The record of a block that is in use, now in another state; else the process ends. */
static struct guarded *expect_live(const void *block, enum guarded_state state,
                                   const char *operation) {
    struct guarded none = {.state = GUARDED_UNUSED};
    os_lock_acquire(&guard_lock);
    struct guarded *record = guarded_of(block);
    bool is_live = record != NULL && record->state == GUARDED_LIVE && record->block == block;
    struct guarded copy = none;
    if (is_live)
        record->state = (uint8_t)state;
    else if (record != NULL)
        copy = *record;
    os_lock_release(&guard_lock);
    if (!is_live)
        guarded_report_pointer(&copy, block, operation);
    return record;
}

/* The first place from begin to end where something was written, or NULL. All bytes are equal if
 * each is like the one before it: libc compares fastest. */
static const char *find_written(const char *begin, const char *end) {
    if (begin == end || ((unsigned char)*begin == SLACK_BYTE &&
                         memcmp(begin, begin + 1, (size_t)(end - begin) - 1) == 0))
        return NULL;
    for (const char *at = begin; at < end; at++) {
        if ((unsigned char)*at != SLACK_BYTE)
            return at;
    }
    return NULL;
}

static void check_slack(const struct guarded *record) {
    const char *end = record->block + record->size;
    const char *place = find_written(end, record->pages + record->pages_bytes);
    if (place == NULL)
        place = find_written(record->pages, record->block);
    if (place != NULL)
        guarded_report_slack(record, place);
}

/* sdallocx may be told any size up to what nallocx says of the one that was asked for: in hardened
 * mode, that size. */
static bool is_true_of(const struct guarded *record, size_t told_size, size_t told_alignment) {
    size_t most = hak_options.hardened != 0 ? record->asked : guarded_class_bytes(record);
    bool is_sized = told_size == SIZE_MAX || (told_size >= record->asked && told_size <= most);
    return is_sized && is_aligned((uintptr_t)record->block, told_alignment);
}

void guard_give(void *block, size_t told_size, size_t told_alignment) {
    struct guarded *record = expect_live(block, GUARDED_FREED, "free");
    os_stack_capture(&record->freed);
    if (!is_true_of(record, told_size, told_alignment))
        guarded_report_told(record, told_size, told_alignment);
    check_slack(record);
    /* Refused, a use after free goes unseen. */
    os_guard(record->pages, record->pages_bytes);
    os_lock_acquire(&guard_lock);
    live_count--;
    freed_count++;
    list_push_back(&freed, &record->link);
    os_lock_release(&guard_lock);
}

size_t guard_usable_bytes(const void *block, const char *operation) {
    return expect_live(block, GUARDED_LIVE, operation)->size;
}

void *guard_reach(const void *pointer, size_t *bytes) {
    void *block = NULL;
    os_lock_acquire(&guard_lock);
    struct guarded *record = guarded_of(pointer);
    if (record != NULL && record->state == GUARDED_LIVE && !record->is_reached) {
        record->is_reached = true;
        block = record->block;
        *bytes = record->size;
    }
    os_lock_release(&guard_lock);
    return block;
}

void guard_release(void) {
    for (;;) {
        os_lock_acquire(&guard_lock);
        struct guarded *record = pop_freed();
        live_count += record != NULL;
        os_lock_release(&guard_lock);
        if (record == NULL)
            return;
        drop_record(record);
    }
}

struct guard_stats guard_stats(void) {
    os_lock_acquire(&guard_lock);
    struct guard_stats stats = {.taken = taken_count, .live = live_count, .freed = freed_count};
    os_lock_release(&guard_lock);
    return stats;
}
