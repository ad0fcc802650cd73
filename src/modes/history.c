/* Pointer tracking: the last events of each address.
 *
 *   note     beside the mark of each block (marks.h): its last event
 *   ring     the last N events of all blocks (history=N)
 *
 *   event    | order | block | size | origin |
 *   origin   | stack 32 | reached 1 | thread 29 | kind 2 |
 *
 * The note of a live block tells where it comes from, however long ago that was: leaks are
 * told by it. That of a freed one tells who freed it. What came before is in the ring, as long
 * as that has room.
 *
 * A place of the ring is not valid while it is written: its order is 0 then. Whoever reads is a
 * report, which would rather miss an event than wait. A thread that is a whole ring behind may
 * mix its event with another's; so the ring is for people, and decides nothing. */
#include "modes/history.h"

#include "modes/marks.h"
#include "modes/stacks.h"
#include "os/memory.h"
#include "os/metadata.h"

enum {
    SHOWN = 4, /* events of a block in a report */
    KIND_BITS = 2,
    THREAD_BITS = 29, /* the kernel's numbers of threads are below 2^22 */
    REACHED_SHIFT = KIND_BITS + THREAD_BITS,
    STACK_SHIFT = 32,
};

struct event {
    _Atomic uint64_t order; /* 1 is the first; 0: none here */
    _Atomic uintptr_t block;
    _Atomic size_t size;
    _Atomic uint64_t origin;
};

/* Written once, by history_start. */
static struct event *ring;

static _Atomic uint64_t event_count;

static void switch_off(const char *why) {
    hak_warn("options history, leaks: %s; nothing is kept", why);
    hak_options.history = hak_options.leaks = 0;
}

void history_start(void) {
    if (!history_is_on())
        return;
    if (hak_options.hardened == 0) {
        switch_off("they need hardened=1 or 2");
        return;
    }
    size_t bytes = hak_options.history * sizeof *ring;
    if (bytes != 0)
        ring = os_metadata_take_sparse(bytes, os_page_size());
    if (!stacks_start() || (bytes != 0 && ring == NULL))
        switch_off("there is no memory for them");
    else
        hak_panic_with(history_print_caller);
}

/* --- origins --------------------------------------------------------------------- */

static uint64_t origin_make(enum history_kind kind) {
    struct os_stack stack;
    os_stack_capture(&stack);
    uint64_t thread = stack.thread & bits_low(THREAD_BITS);
    return (uint64_t)stacks_keep(&stack) << STACK_SHIFT | thread << KIND_BITS | kind;
}

static enum history_kind origin_kind(uint64_t origin) {
    return (enum history_kind)(origin & bits_low(KIND_BITS));
}

static void origin_stack(uint64_t origin, struct os_stack *stack) {
    stacks_get((uint32_t)(origin >> STACK_SHIFT), stack);
    stack->thread = (uint32_t)(origin >> KIND_BITS & bits_low(THREAD_BITS));
}

/* --- notes ----------------------------------------------------------------------- */

/* NULL: outside the window, or no block has ever started near. */
static _Atomic uint64_t *note_of(const void *block) {
    struct marks_piece *piece = marks_piece_of(block);
    return piece == NULL ? NULL : &piece->notes[marks_place(block)];
}

static uint64_t note_read(const void *block) {
    const _Atomic uint64_t *note = note_of(block);
    return note == NULL ? 0 : atomic_load_explicit(note, memory_order_relaxed);
}

static void note_write(const void *block, uint64_t origin) {
    _Atomic uint64_t *note = note_of(block);
    if (note != NULL)
        atomic_store_explicit(note, origin, memory_order_relaxed);
}

bool history_is_reached(const void *block) { return note_read(block) >> REACHED_SHIFT & 1; }

bool history_reach(const void *block) {
    if (history_is_reached(block))
        return false;
    note_write(block, note_read(block) | UINT64_C(1) << REACHED_SHIFT);
    return true;
}

/* --- events ---------------------------------------------------------------------- */

static void ring_add(const void *block, size_t size, uint64_t origin) {
    /* atomic: cold, telemetry; each event gets a place of its own. */
    uint64_t order = atomic_fetch_add_explicit(&event_count, 1, memory_order_relaxed);
    struct event *event = &ring[order % hak_options.history];
    atomic_store_explicit(&event->order, 0, memory_order_relaxed);
    atomic_store_explicit(&event->block, (uintptr_t)block, memory_order_release);
    atomic_store_explicit(&event->size, size, memory_order_release);
    atomic_store_explicit(&event->origin, origin, memory_order_release);
    atomic_store_explicit(&event->order, order + 1, memory_order_release);
}

hak_cold void history_add(enum history_kind kind, const void *block, size_t size) {
    uint64_t origin = origin_make(kind);
    note_write(block, origin);
    if (hak_options.history != 0)
        ring_add(block, size, origin);
}

struct copy {
    uint64_t order;
    size_t size;
    uint64_t origin;
};

/* Inserts an event among the newest, which stand newest first. */
static void keep_newest(struct copy *newest, struct copy copy) {
    for (size_t i = 0; i < SHOWN; i++) {
        if (copy.order <= newest[i].order)
            continue;
        struct copy older = newest[i];
        newest[i] = copy;
        copy = older;
    }
}

static void find_newest(const void *block, struct copy *newest) {
    for (size_t i = 0; i < hak_options.history; i++) {
        struct event *event = &ring[i];
        struct copy copy = {.order = atomic_load_explicit(&event->order, memory_order_acquire)};
        if (copy.order == 0 ||
            atomic_load_explicit(&event->block, memory_order_acquire) != (uintptr_t)block)
            continue;
        copy.size = atomic_load_explicit(&event->size, memory_order_acquire);
        copy.origin = atomic_load_explicit(&event->origin, memory_order_acquire);
        if (atomic_load_explicit(&event->order, memory_order_relaxed) == copy.order)
            keep_newest(newest, copy);
    }
}

/* --- for people -------------------------------------------------------------------- */

void history_print_caller(void) {
    if (!history_is_on())
        return;
    struct os_stack stack;
    os_stack_capture(&stack);
    os_stack_print("called", &stack);
}

static const char *name_of(uint64_t origin) {
    static const char *const names[] = {[HISTORY_NOTHING] = "seen",
                                        [HISTORY_TAKEN] = "allocated",
                                        [HISTORY_FREED] = "freed",
                                        [HISTORY_RESIZED] = "resized"};
    return names[origin_kind(origin)];
}

static void print_origin(const char *title, uint64_t origin) {
    struct os_stack stack;
    origin_stack(origin, &stack);
    os_stack_print(title, &stack);
}

static void print_event(const struct copy *event) {
    char text[64];
    struct format_buffer title = format_begin(text, sizeof text - 1);
    format_add(&title, "%s, %zu bytes,", name_of(event->origin), event->size);
    text[title.length] = '\0';
    print_origin(text, event->origin);
}

void history_print(const void *block) {
    if (!history_is_on())
        return;
    struct copy newest[SHOWN] = {{0}};
    find_newest(block, newest);
    uint64_t note = note_read(block);
    if (newest[0].order == 0 && note != 0)
        print_origin(name_of(note), note);
    for (size_t i = 0; i < SHOWN && newest[i].order != 0; i++)
        print_event(&newest[i]);
}

uint32_t history_stack_of(const void *block) {
    uint64_t origin = note_read(block);
    if (origin == 0) { /* of a huge block */
        struct copy newest[SHOWN] = {{0}};
        find_newest(block, newest);
        origin = newest[0].origin;
    }
    return (uint32_t)(origin >> STACK_SHIFT);
}
