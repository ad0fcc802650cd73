/* stress_mixed [STEPS]: eight threads, all sizes, blocks that change hands, load that comes and
 * goes.
 *
 * After the stress test of mimalloc (Leijen, Zorn and de Moura, "Mimalloc: Free
 * List Sharding in Action", APLAS 2019): nobody's common case, everybody's problem
 * at once. Each thread replaces blocks of 16 bytes to 256 KiB in a table of its
 * own; every fourth step it swaps one with a table that all share and gives back
 * what another thread had put there. The share of the own table that is in use
 * changes from phase to phase, so memory must flow from size to size and from
 * thread to thread. Judged by time and by peak memory.
 *
 * Each block is given back exactly once, by whom is chance; so the sum over all is
 * fixed. STEPS is the number of replacements of each thread, and one operation is
 * one of them.
 */
#include "support/blocks.h"
#include "support/team.h"

#include <stdatomic.h>

enum { THREADS = 8, OWN_SLOTS = 4096, SHARED_SLOTS = 4096, STEPS = 500000 };

/* How many slots of its own a thread uses in each phase. */
static const uint32_t phases[] = {OWN_SLOTS, OWN_SLOTS / 8, OWN_SLOTS / 2, OWN_SLOTS / 8,
                                  OWN_SLOTS};
enum { PHASES = sizeof phases / sizeof *phases };

struct work {
    /* Release when a block is put here and acquire when it is taken: whoever takes it sees what
     * was written into it. */
    _Atomic(void *) *shared;
    void **own;
    uint64_t steps_a_phase;
};

static uint64_t give_if_any(void *block) { return block == NULL ? 0 : blocks_give(block); }

static uint64_t run(void *context, uint32_t member) {
    struct work *work = context;
    void **own = work->own + (size_t)member * OWN_SLOTS;
    struct random random = random_of(member);
    uint64_t sum = 0;
    for (uint32_t phase = 0; phase < PHASES; ++phase) {
        uint32_t used = phases[phase];
        for (uint32_t i = used; i < OWN_SLOTS; ++i) {
            sum += give_if_any(own[i]);
            own[i] = NULL;
        }
        for (uint64_t step = 0; step < work->steps_a_phase; ++step) {
            uint64_t bits = random_next(&random);
            uint64_t where = random_next(&random);
            void *block = blocks_take(blocks_mixed_size(bits), bits);
            if ((where & 3) == 0) {
                uint32_t slot = random_scale(random_high(where), SHARED_SLOTS);
                block = atomic_exchange_explicit(&work->shared[slot], block, memory_order_acq_rel);
            } else {
                void **slot = &own[random_scale(random_high(where), used)];
                void *old = *slot;
                *slot = block;
                block = old;
            }
            sum += give_if_any(block);
        }
    }
    for (uint32_t i = 0; i < OWN_SLOTS; ++i) {
        sum += give_if_any(own[i]);
    }
    return sum;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        driver_fail("usage: stress_mixed [STEPS]");
    }
    size_t steps = driver_optional(argc, argv, 1, STEPS, PHASES, SIZE_MAX / 2 / THREADS);
    struct work work = {
        .shared = driver_table(SHARED_SLOTS * sizeof *work.shared),
        .own = driver_table((size_t)THREADS * OWN_SLOTS * sizeof *work.own),
        .steps_a_phase = steps / PHASES,
    };
    struct driver_result result = {
        .benchmark = "stress_mixed",
        .ops = work.steps_a_phase * PHASES * THREADS,
    };
    struct team team = {.members = THREADS, .context = &work, .run = run};
    team_measure(&team, &result);
    for (uint32_t i = 0; i < SHARED_SLOTS; ++i) {
        result.checksum += give_if_any(atomic_load_explicit(&work.shared[i], memory_order_relaxed));
    }
    driver_print(&result);
    return 0;
}
