/* The work of one thread at a time of soak: its tables of live blocks, its inbox, its
 * steps. soak.c says what they stand for, and drives them.
 *
 * Everything here belongs to one worker but the inbox, which the worker before
 * it fills. A worker outlives the threads that do its steps one after the other.
 */
#ifndef BENCH_SOAK_WORK_H
#define BENCH_SOAK_WORK_H

#include "support/driver.h"
#include "support/latency.h"
#include "support/random.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    SMALLEST_BYTES = 16,
    MIXED_LARGEST_BYTES = 1040,
    MIXED_MOST_BLOCKS = 10000000,
    SIZES = 4096, /* of the deck that sizes are drawn from */
    YOUNG = 512,
    MIDDLE = 4096,
    OLD = 65536,
    LARGE = 16,
    INBOX = 1024,
    LARGE_SMALLEST_LOG2 = 15, /* 32 KiB */
    LARGE_OCTAVES = 5,        /* up to 1 MiB */
    PAGE_BYTES = 4096,
    DRAIN_EVERY = 64, /* steps between two looks into the inbox */
};

struct slot {
    char *block;
    size_t size_bytes;
};

struct table {
    struct slot *slots;
    uint32_t count;
};

/* One thread puts blocks in, the next takes them out: a ring without a lock.
 * put and taken only grow; the difference is what lies in between. */
struct inbox {
    alignas(64) _Atomic uint64_t put;   /* released by the sender, acquired by the owner */
    alignas(64) _Atomic uint64_t taken; /* released by the owner, acquired by the sender */
    struct slot slots[INBOX];
};

/* What the measured steps of one worker took. */
struct window {
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t cpu_ns; /* of the time in between, on a processor; threads' births and ends are not */
    uint64_t minor_faults;
    uint64_t major_faults;
    uint64_t switches; /* involuntary: the processor was taken away */
};

struct worker {
    alignas(64) struct random random;
    struct table young;
    struct table middle;
    struct table old;
    struct table large;
    struct inbox *inbox;  /* NULL when there is one worker */
    struct inbox *outbox; /* the next worker's */
    uint64_t lead_left;   /* steps of this epoch */
    uint64_t steps_left;  /* the measured ones, after the lead; 0 between epochs */
    uint64_t checksum;
    uint64_t ops;
    int64_t live_bytes; /* taken less given back by this worker: may be negative */
    struct latency_histogram *taking;
    struct latency_histogram *giving;
    struct window window;
};

static uint32_t sizes[SIZES]; /* the deck: written before the threads start */

/* Four dice make a bell curve: the logarithm of a size is 6.5 (90 bytes) give or take 2.3. */
static void make_sizes(void) {
    enum { MEAN = 510, LOG2_UNITS = 64, LOG2_MEDIAN = 416 };
    struct random random = RANDOM_SEED;
    for (int i = 0; i < SIZES; ++i) {
        uint64_t bits = random_next(&random);
        int dice =
            (int)((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24 & 255));
        int log2 = LOG2_MEDIAN + dice - MEAN;
        log2 = log2 < 4 * LOG2_UNITS ? 4 * LOG2_UNITS : log2;
        uint32_t whole = (uint32_t)log2 / LOG2_UNITS;
        uint32_t part = (uint32_t)log2 % LOG2_UNITS; /* straight between two powers of two */
        sizes[i] = (LOG2_UNITS + part) << whole >> 6;
    }
}

/* What is done, written before the threads start. */
static bool is_mixed;
static uint32_t mixed_blocks = OLD; /* of a worker */

static size_t mixed_size(uint64_t bits) {
    return SMALLEST_BYTES +
           random_scale(random_low(bits), MIXED_LARGEST_BYTES - SMALLEST_BYTES + 1);
}

static size_t ordinary_size(uint64_t bits) { return sizes[(bits >> 12) % SIZES]; }

static size_t large_size(uint64_t bits) {
    uint32_t octave = random_scale(random_high(bits), LARGE_OCTAVES);
    size_t base_bytes = (size_t)1 << (LARGE_SMALLEST_LOG2 + octave);
    return base_bytes + random_scale(random_low(bits), (uint32_t)base_bytes);
}

/* One call in 64 is timed, chosen by bits that decide nothing else. */
static bool is_timed(uint64_t bits) { return (bits >> 24 & 63) == 0; }

/* The tag in the first and the last word; a word in each page between them. */
static void fill(char *block, size_t size_bytes, uint64_t tag) {
    for (size_t at = PAGE_BYTES; at < size_bytes; at += PAGE_BYTES) {
        block[at] = (char)tag;
    }
    driver_touch(block, size_bytes, tag);
}

static void check(const struct slot *slot) {
    uint64_t last = driver_last_word(slot->block, slot->size_bytes);
    if (__builtin_expect(last != driver_first_word(slot->block), 0)) {
        driver_fail("a block lost its contents");
    }
}

static void take(struct worker *worker, struct slot *slot, size_t size_bytes, uint64_t bits) {
    if (__builtin_expect(is_timed(bits), 0)) {
        uint64_t begin = latency_begin();
        slot->block = malloc(size_bytes);
        latency_note(worker->taking, begin, latency_end());
    } else {
        slot->block = malloc(size_bytes);
    }
    driver_check(slot->block);
    slot->size_bytes = size_bytes;
    fill(slot->block, size_bytes, bits);
    worker->live_bytes += (int64_t)size_bytes;
    ++worker->ops;
}

static void give(struct worker *worker, const struct slot *slot) {
    check(slot);
    uint64_t tag = driver_first_word(slot->block);
    worker->checksum += tag + slot->size_bytes;
    worker->live_bytes -= (int64_t)slot->size_bytes;
    /* Other bits than at its malloc: the blocks whose malloc was timed are not special. */
    if (__builtin_expect((tag >> 32 & 63) == 0, 0)) {
        uint64_t begin = latency_begin();
        free(slot->block);
        latency_note(worker->giving, begin, latency_end());
    } else {
        free(slot->block);
    }
}

static void resize(struct worker *worker, struct slot *slot, size_t size_bytes, uint64_t bits) {
    check(slot);
    uint64_t tag = driver_first_word(slot->block);
    slot->block = driver_check(realloc(slot->block, size_bytes));
    if (driver_first_word(slot->block) != tag) {
        driver_fail("realloc did not keep the contents");
    }
    worker->checksum += tag + slot->size_bytes;
    worker->live_bytes += (int64_t)size_bytes - (int64_t)slot->size_bytes;
    slot->size_bytes = size_bytes;
    fill(slot->block, size_bytes, bits);
    ++worker->ops;
}

/* False when the inbox is full: the sender then gives the block back itself and never waits. */
static bool hand_over(struct worker *worker, const struct slot *slot) {
    struct inbox *to = worker->outbox;
    uint64_t put = atomic_load_explicit(&to->put, memory_order_relaxed);
    if (put - atomic_load_explicit(&to->taken, memory_order_acquire) == INBOX) {
        return false;
    }
    to->slots[put % INBOX] = *slot;
    atomic_store_explicit(&to->put, put + 1, memory_order_release);
    return true;
}

static void drain_inbox(struct worker *worker) {
    struct inbox *inbox = worker->inbox;
    if (inbox == NULL) {
        return;
    }
    uint64_t put = atomic_load_explicit(&inbox->put, memory_order_acquire);
    uint64_t taken = atomic_load_explicit(&inbox->taken, memory_order_relaxed);
    for (; taken != put; ++taken) {
        give(worker, &inbox->slots[taken % INBOX]);
    }
    atomic_store_explicit(&inbox->taken, taken, memory_order_release);
}

static void replace_young(struct worker *worker, uint64_t bits, bool for_another) {
    struct slot *slot = &worker->young.slots[random_scale(random_high(bits), YOUNG)];
    if (!for_another || worker->outbox == NULL || !hand_over(worker, slot)) {
        give(worker, slot);
    }
    take(worker, slot, ordinary_size(bits), bits);
}

/* Two blocks trade sizes; one pair in four by realloc. */
static void exchange(struct worker *worker, const struct table *table, uint64_t bits) {
    uint64_t more = random_next(&worker->random);
    struct slot *first = &table->slots[random_scale(random_high(bits), table->count)];
    struct slot *second = &table->slots[random_scale(random_high(more), table->count)];
    size_t first_bytes = first->size_bytes;
    size_t second_bytes = second->size_bytes;
    if (random_low(bits) >> 30 == 0) {
        resize(worker, first, second_bytes, bits);
        resize(worker, second, first_bytes, more);
        return;
    }
    give(worker, first);
    take(worker, first, second_bytes, bits);
    give(worker, second);
    take(worker, second, first_bytes, more);
}

static void step(struct worker *worker) {
    uint64_t bits = random_next(&worker->random);
    uint32_t choice = random_low(bits) & 4095;
    if (choice >= 256) {
        replace_young(worker, bits, choice < 512);
    } else if (choice > 16) {
        exchange(worker, &worker->middle, bits);
    } else if (choice > 0) {
        exchange(worker, &worker->old, bits);
    } else {
        exchange(worker, &worker->large, bits);
    }
}

/* One block at random by one of a random size, as random_mixed does it. */
static void step_mixed(struct worker *worker) {
    uint64_t bits = random_next(&worker->random);
    struct slot *slot = &worker->old.slots[random_scale(random_high(bits), worker->old.count)];
    give(worker, slot);
    take(worker, slot, mixed_size(bits), bits);
}

static void run_steps(struct worker *worker, uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) {
        if (i % DRAIN_EVERY == 0) {
            drain_inbox(worker);
        }
        if (is_mixed) {
            step_mixed(worker);
        } else {
            step(worker);
        }
    }
}

#endif
