/* Tells from the addresses of blocks, and from nothing else, how far an attack has got. All
 * in static memory: whoever judges an allocator does not allocate. */
#include "judge.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    TAKEN_MAX = 4096,
    PLACES_MAX = 16,
    HARVEST = 16,
    HARVEST_BYTES = 64 << 20, /* a block of more says nothing, and may take all memory */
    PRESS = 2048,
    PRESS_BYTES = 8 << 20,
};

struct range {
    uintptr_t start;
    size_t size;
};

static struct taken {
    struct range range;
    bool is_in_use;
} taken[TAKEN_MAX];
static size_t taken_count;

static struct range forbidden[PLACES_MAX];
static size_t forbidden_count;

static struct watched {
    const volatile word *place;
    word value;
} watched[PLACES_MAX];
static size_t watched_count;

static enum outcome best = NONE;

static void note(enum outcome outcome) {
    if (outcome < best)
        best = outcome;
}

static _Noreturn void give_up(const char *reason) {
    (void)!write(STDERR_FILENO, reason, strlen(reason));
    _exit(2);
}

static bool overlap(struct range a, struct range b) {
    return a.start < b.start + b.size && b.start < a.start + a.size;
}

/* A block is what its start says. */
static enum outcome compare(struct range block, struct range other) {
    if (block.start == other.start)
        return DUPLICATE;
    if (block.start > other.start && block.start < other.start + other.size)
        return INTERIOR;
    return overlap(block, other) ? OVERLAP : NONE;
}

static enum outcome compare_with_all(struct range block) {
    enum outcome outcome = NONE;
    for (size_t i = 0; i < taken_count; i++) {
        if (!taken[i].is_in_use)
            continue;
        enum outcome one = compare(block, taken[i].range);
        if (one == DUPLICATE || one == INTERIOR)
            return one;
        if (one < outcome)
            outcome = one;
    }
    return outcome;
}

static void *judged(void *block, size_t size) {
    if (block == NULL)
        return NULL;
    struct range range = {(uintptr_t)block, size};
    for (size_t i = 0; i < forbidden_count; i++) {
        if (overlap(range, forbidden[i]))
            note(OUTSIDE);
    }
    note(compare_with_all(range));
    if (taken_count == TAKEN_MAX)
        give_up("attacks: too many blocks\n");
    taken[taken_count++] = (struct taken){range, true};
    return block;
}

void *take(size_t size) { return judged(malloc(size), size); }

void *take_zeroed(size_t size) {
    char *block = judged(calloc(1, size), size);
    for (size_t i = 0; block != NULL && i < size; i++) {
        if (block[i] != 0)
            note(LEAK);
    }
    return block;
}

void give(void *pointer) {
    for (size_t i = 0; i < taken_count; i++) {
        if (taken[i].is_in_use && taken[i].range.start == (uintptr_t)pointer) {
            taken[i].is_in_use = false;
            break;
        }
    }
    free(pointer);
}

void give_stale(void *pointer) { free(pointer); }

void forbid(const void *start, size_t size) {
    if (forbidden_count == PLACES_MAX)
        give_up("attacks: too many forbidden places\n");
    forbidden[forbidden_count++] = (struct range){(uintptr_t)start, size};
}

void watch(const word *place) {
    if (watched_count == PLACES_MAX)
        give_up("attacks: too many watched words\n");
    watched[watched_count++] = (struct watched){place, *place};
}

void report_leak(void) { note(LEAK); }

static bool is_address(word value) {
    unsigned char resident;
    word page = value & ~((word)sysconf(_SC_PAGESIZE) - 1);
    return page != 0 && mincore((void *)page, 1, &resident) == 0;
}

word give_and_leak(void *block, size_t size) {
    volatile word *words = memset(block, 0, size);
    give(block);
    for (size_t i = 0; i < size / sizeof *words; i++) {
        word value = words[i];
        if (is_address(value)) {
            report_leak();
            return value;
        }
    }
    return 0;
}

enum outcome judge_outcome(void) {
    for (size_t i = 0; i < watched_count; i++) {
        if (*watched[i].place != watched[i].value)
            note(WRITE);
    }
    return best;
}

const char *outcome_name(enum outcome outcome) {
    static const char *const names[] = {"outside",   "write", "overlap", "interior",
                                        "duplicate", "leak",  "none"};
    return names[outcome];
}

/* Whether it is the first of its size among those that are taken, and small enough. */
static bool is_first_of_size(size_t index) {
    size_t size = taken[index].range.size;
    bool is_first = size <= HARVEST_BYTES;
    for (size_t i = 0; i < index && is_first; i++)
        is_first = taken[i].range.size != size;
    return is_first;
}

void judge_harvest(void) {
    size_t count = taken_count;
    for (size_t i = 0; i < count; i++) {
        bool is_first = is_first_of_size(i);
        for (size_t k = 0; k < HARVEST && is_first; k++)
            take(taken[i].range.size);
    }
}

/* Given, they push others out of where those wait; taken, so many, they are those others. */
static void press_out(size_t size) {
    static void *blocks[PRESS];
    size_t count = PRESS_BYTES / (size + 1);
    if (count > PRESS)
        count = PRESS;
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < count; i++)
            blocks[i] = malloc(size);
        for (size_t i = 0; i < count; i++)
            free(blocks[i]);
    }
}

void judge_press_out(void) {
    for (size_t i = 0; i < taken_count; i++) {
        if (is_first_of_size(i))
            press_out(taken[i].range.size);
    }
}

void judge_give_rest(void) {
    for (size_t i = 0; i < taken_count; i++) {
        if (taken[i].is_in_use)
            give((void *)taken[i].range.start);
    }
}

bool judge_blocks_are_near(void) {
    const uintptr_t window = (uintptr_t)1 << 40;
    for (size_t i = 0; i < taken_count; i++) {
        uintptr_t a = taken[0].range.start;
        uintptr_t b = taken[i].range.start;
        if ((a < b ? b - a : a - b) >= window && taken[i].range.size <= HARVEST_BYTES)
            return false;
    }
    return true;
}
