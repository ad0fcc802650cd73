/* Hardened mode: every call is seen, every block sealed and marked.
 *
 *   malloc   bin --> block --> another of the bin by chance --> marked --> sealed
 *   free     mark cleared --> seal and redzone looked at --> (filled --> quarantine) --> bin
 *
 * All threads are watched (watch.c), so no block passes the fast path; threads without a cache
 * come here too. A mark (marks.c) says that a block of the program starts at an address. It is
 * asked before anything else is believed or read, so a bad pointer is told at the call that
 * brings it: freed already, in whichever thread; inside a block; never ours. The seal (seal.c)
 * tells what was asked for, and that nothing has written beyond it. Huge blocks have no mark:
 * their table (span/huge.c) is asked under its lock.
 *
 * What is written before a block breaks the seal of the one before it. Where none is, at the start
 * of a slab, a block is kept from all (slab_keeps_first), and belongs to its neighbour: sealed
 * when that is taken, and looked at with it.
 *
 * What no mark protects is the time between two frees of a huge block in two threads: the one
 * that comes second may find its memory unmapped. */
#include "modes/hardened.h"

#include "modes/fault.h"
#include "modes/fill.h"
#include "modes/history.h"
#include "modes/marks.h"
#include "modes/watch.h"
#include "os/system.h"
#include "span/large.h"

static void reclaim_block(void *block) {
    unsigned bin = entry_bin(window_entry(block));
    if (bin != BIN_NONE && bin < CLASS_COUNT && !marks_has(block))
        slab_reclaim(bin, &block, 1);
}

static void reclaim(struct thread *thread) {
    if (watch_is_on(thread))
        quarantine_visit(&watch_hardened(thread)->quarantine, reclaim_block);
}

bool hardened_start(void) {
    history_start();
    if (!hardened_is_on())
        return true;
    cache_reclaim_held = reclaim;
    seal_start();
    return marks_start();
}

static bool watches_freed(void) { return hak_options.hardened >= 2; }
static bool fills_freed(void) { return watches_freed() || hak_options.zero_on_free != 0; }

/* --- a thread's state ------------------------------------------------------------ */

void hardened_begin_thread(struct hardened_thread *state) {
    os_random_fill(&state->random, sizeof state->random);
}

/* splitmix64, the upper half of its words. */
static uint32_t next_random(struct hardened_thread *state) {
    uint64_t word = state->random += UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(word >> 32);
}

/* --- taking --------------------------------------------------------------------- */

static size_t room_of(const void *block, unsigned bin, const char *operation) {
    return hak_likely(bin < CLASS_COUNT) ? class_size(bin) : large_usable_bytes(block, operation);
}

static void give_home(struct thread *thread, void *block) {
    uint16_t entry = window_entry(block);
    unsigned bin = entry_bin(entry);
    if (bin == BIN_NONE || bin == BIN_LARGE)
        large_give(block);
    else if (thread != NULL)
        cache_give(thread, entry, block);
    else
        slab_give(bin, &block, 1);
}

/* Before a block is sealed anew: has anybody written to it since it was freed? */
static void check_fill(const void *block, size_t room) {
    size_t damage = fill_damage(block, room);
    if (hak_likely(damage == FILL_INTACT))
        return;
    struct fault_block found;
    fault_find(block, &found);
    fault_report(HAK_USE_AFTER_FREE, "malloc", block, &found,
                 " was written to at byte %zu after it was freed", damage);
}

/* Whether the slab may keep a block before this one, which it does before the first that it hands
 * out. */
hak_inline bool may_follow_kept(const void *block, size_t room) {
    return hak_unlikely(is_aligned((uintptr_t)block - room, SLAB_BYTES));
}

/* That block; NULL: before this one lies somebody else's. */
static void *kept_before(const void *block, size_t room) {
    struct span *span = slab_keeps_first(room) ? span_of(block) : NULL;
    return span != NULL && span->start + room == block ? span->start : NULL;
}

static hak_cold void seal_kept(const void *block, size_t room) {
    void *kept = kept_before(block, room);
    if (kept != NULL)
        seal_close(kept, room, 0, SEAL_IN_USE);
}

/* Takes a block out of reach of checks on free memory, and puts its own behind it. */
static void seal(void *block, unsigned bin, size_t size, bool is_zero) {
    size_t room = room_of(block, bin, "malloc");
    if (watches_freed() && window_contains(block)) {
        if (!is_zero)
            check_fill(block, room);
        marks_note_cut(block, room, bin);
    }
    seal_guard(block, room, size);
    if (may_follow_kept(block, room))
        seal_kept(block, room);
}

bool hardened_take(struct thread *thread, unsigned bin, void **block, size_t size, bool is_zero) {
    if (thread != NULL && bin < CLASS_COUNT && !is_zero)
        *block = cache_exchange(thread, bin, *block, next_random(watch_hardened(thread)));
    if (window_contains(*block)) {
        enum marks_result result = marks_set(*block);
        if (hak_unlikely(result == MARKS_WAS_SET))
            return false;
        if (hak_unlikely(result == MARKS_NO_MEMORY)) {
            give_home(thread, *block);
            *block = NULL;
            return false;
        }
    }
    seal(*block, bin, size, is_zero);
    history_note(HISTORY_TAKEN, *block, size);
    return true;
}

/* What is not there or not well goes the long way, which sees to it. */
void *hardened_take_cached(struct thread *thread, unsigned class, size_t size) {
    void *block = cache_pop(thread, class);
    if (hak_unlikely(block == NULL))
        return NULL;
    block = cache_exchange(thread, class, block, next_random(watch_hardened(thread)));
    enum marks_result result = marks_set(block);
    if (hak_unlikely(result != MARKS_SET)) {
        if (result == MARKS_NO_MEMORY)
            give_home(thread, block);
        return NULL;
    }
    seal(block, class, size, false);
    history_note(HISTORY_TAKEN, block, size);
    return block;
}

/* --- checking ------------------------------------------------------------------- */

/* Of a live block whose start this is, of a map entry. */
static size_t live_room(const void *block, uint16_t entry, const char *operation) {
    unsigned bin = entry_bin(entry);
    return room_of(block, bin == BIN_NONE ? (unsigned)BIN_LARGE : bin, operation);
}

_Noreturn static hak_cold void report_overflow(const void *block, const char *operation,
                                               size_t damage) {
    struct fault_block found;
    fault_find(block, &found);
    if (damage != SEAL_BROKEN)
        fault_report(HAK_HEAP_OVERFLOW, operation, block, &found,
                     " was written to behind its end, at byte %zu", damage);
    fault_report(HAK_HEAP_OVERFLOW, operation, block, &found,
                 " was written to behind its end, or before its successor: its seal is broken");
}

/* Has anybody written before the first block that a slab hands out? */
static hak_cold void check_kept(const void *block, size_t room, const char *operation) {
    const void *kept = kept_before(block, room);
    if (kept == NULL || seal_size(kept, room, SEAL_IN_USE) == 0)
        return;
    struct fault_block found;
    fault_find(block, &found);
    fault_report(HAK_HEAP_OVERFLOW, operation, block, &found, " was written to before its start");
}

hak_inline size_t checked_size(const void *block, size_t room, const char *operation) {
    size_t size = seal_size(block, room, SEAL_IN_USE);
    if (hak_unlikely(size == SEAL_BROKEN))
        report_overflow(block, operation, SEAL_BROKEN);
    size_t damage = seal_damage(block, room, size);
    if (hak_unlikely(damage != SEAL_INTACT))
        report_overflow(block, operation, damage);
    if (may_follow_kept(block, room))
        check_kept(block, room, operation);
    return size;
}

size_t hardened_size(const void *block, const char *operation, size_t *room) {
    bool is_live = window_contains(block) ? marks_has(block) : huge_usable_bytes(block) != 0;
    if (!is_live)
        fault_report_no_block(block, operation);
    *room = live_room(block, window_entry(block), operation);
    return checked_size(block, *room, operation);
}

void hardened_shrink(void *block, size_t room, size_t bytes) {
    size_t kept = align_up(bytes, SLAB_BYTES);
    if (kept < room && window_contains(block))
        fill_tail(block, room, kept);
}

void hardened_reseal(void *block, size_t size) {
    size_t room = live_room(block, window_entry(block), "realloc");
    if (watches_freed() && room > CLASS_SIZE_MAX && window_contains(block))
        marks_note_cut(block, room, BIN_LARGE); /* it may have grown over others' slabs */
    seal_guard(block, room, size);
    history_note(HISTORY_RESIZED, block, size);
}

/* --- giving --------------------------------------------------------------------- */

/* What the caller says of a block is not so. */
_Noreturn static hak_cold void report_told(const void *block, size_t size, size_t told_size,
                                           size_t told_alignment) {
    struct fault_block found;
    fault_find(block, &found);
    if (told_size != SIZE_MAX && told_size != size)
        fault_report(HAK_SIZE_MISMATCH, "free", block, &found, " is given back as one of %zu",
                     told_size);
    fault_report(HAK_MISALIGNED_POINTER, "free", block, &found,
                 " is given back as a multiple of %zu", told_alignment);
}

/* To its bin; false: that took the long way, which upkeep goes with. */
static bool give(struct thread *thread, uint16_t entry, void *block) {
    if (hak_likely(thread != NULL && cache_push(thread, entry, block)))
        return true;
    give_home(thread, block);
    return false;
}

/* In quarantine; as give. The thread may have been asked for all that it holds: cache_tick
 * answers for the bins. */
static bool detain(struct thread *thread, void *block, size_t room) {
    struct hardened_thread *state = watch_hardened(thread);
    bool was_quick = true;
    if (hak_unlikely(atomic_load_explicit(&thread->is_asked_to_flush, memory_order_relaxed)))
        hardened_flush(thread);
    while (quarantine_is_full(&state->quarantine, room)) {
        void *oldest = quarantine_pop(&state->quarantine);
        was_quick &= give(thread, window_entry(oldest), oldest);
    }
    quarantine_push(&state->quarantine, block, room, next_random(state));
    return was_quick;
}

bool hardened_give(struct thread *thread, uint16_t entry, void *block, size_t told_size,
                   size_t told_alignment) {
    bool is_huge = !window_contains(block);
    bool was_live = is_huge ? huge_usable_bytes(block) != 0 : marks_clear(block);
    if (hak_unlikely(!was_live))
        fault_report_no_block(block, "free");
    size_t room = live_room(block, entry, "free");
    size_t size = checked_size(block, room, "free");
    if (hak_unlikely((told_size != SIZE_MAX && told_size != size) ||
                     !is_aligned((uintptr_t)block, told_alignment)))
        report_told(block, size, told_size, told_alignment);
    history_note(HISTORY_FREED, block, size);
    if (fills_freed() && !is_huge)
        fill_freed(block, room, size);
    if (watches_freed() && thread != NULL && room <= QUARANTINE_ROOM_MAX)
        return detain(thread, block, room);
    return give(thread, entry, block);
}

void hardened_flush(struct thread *thread) {
    void *block;
    while ((block = quarantine_pop(&watch_hardened(thread)->quarantine)) != NULL)
        give_home(thread, block);
}
