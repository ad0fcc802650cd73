/* A program calls malloc from few places, a million times each.
 *
 *   table    | 7 |   |   | 12 |   | ...     numbers, at the place that a hash of the frames says
 *                                           or behind it; 0 is empty
 *   stacks   [0: none] [1] ... [7] ...      frames; in the order in which they came
 *
 * Nothing is ever taken out or changed, so there is no lock: a stack is written whole, and then
 * put into the table by one exchange. Of two threads that come with the same stack at the same
 * moment one wastes a number. */
#include "modes/stacks.h"

#include <string.h>

#include "os/memory.h"
#include "os/metadata.h"

enum {
    TABLE_SIZE = 4 * STACKS_MAX, /* a power of two */
    TRIES = 32,                  /* places looked at */
};

struct kept {
    uint32_t hash, depth;
    uintptr_t frames[OS_STACK_FRAMES];
};

/* Written once, by stacks_start. */
static _Atomic uint32_t *table;
static struct kept *stacks;

static _Atomic uint32_t next_number = 1;

bool stacks_start(void) {
    size_t page = os_page_size();
    table = os_metadata_take_sparse(TABLE_SIZE * sizeof *table, page);
    stacks = os_metadata_take_sparse(STACKS_MAX * sizeof *stacks, page);
    return table != NULL && stacks != NULL;
}

static size_t frames_bytes(const struct os_stack *stack) {
    return stack->depth * sizeof stack->frames[0];
}

/* FNV-1a, by words. */
static uint32_t hash_of(const struct os_stack *stack) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < stack->depth; i++)
        hash = (hash ^ stack->frames[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool is_same(const struct kept *kept, uint32_t hash, const struct os_stack *stack) {
    return kept->hash == hash && kept->depth == stack->depth &&
           memcmp(kept->frames, stack->frames, frames_bytes(stack)) == 0;
}

/* A number with the stack behind it; 0: all are used. */
static uint32_t add(uint32_t hash, const struct os_stack *stack) {
    if (atomic_load_explicit(&next_number, memory_order_relaxed) >= STACKS_MAX)
        return 0;
    /* atomic: cold, correctness; no partner: each thread gets a number of its own. */
    uint32_t number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed);
    if (number >= STACKS_MAX)
        return 0;
    stacks[number].hash = hash;
    stacks[number].depth = stack->depth;
    memcpy(stacks[number].frames, stack->frames, frames_bytes(stack));
    return number;
}

uint32_t stacks_keep(const struct os_stack *stack) {
    if (stack->depth == 0)
        return 0;
    uint32_t hash = hash_of(stack);
    uint32_t added = 0;
    for (uint32_t i = 0; i < TRIES; i++) {
        _Atomic uint32_t *place = &table[(hash + i) % TABLE_SIZE];
        /* Pairs with the release below: the frames. */
        uint32_t number = atomic_load_explicit(place, memory_order_acquire);
        if (number == 0 && added == 0 && (added = add(hash, stack)) == 0)
            return 0;
        /* atomic: cold, correctness; pairs with the acquire above, and its own. */
        if (number == 0 && atomic_compare_exchange_strong_explicit(
                               place, &number, added, memory_order_acq_rel, memory_order_acquire))
            return added;
        if (is_same(&stacks[number], hash, stack))
            return number;
    }
    return 0;
}

void stacks_get(uint32_t number, struct os_stack *stack) {
    *stack = (struct os_stack){0};
    if (number == 0 || number >= STACKS_MAX)
        return;
    stack->depth = hak_min(stacks[number].depth, (uint32_t)OS_STACK_FRAMES);
    memcpy(stack->frames, stacks[number].frames, frames_bytes(stack));
}
