/* calloc_large: 8 live blocks of 64 KiB to 4 MiB of zeroes; each step replaces
 * one at random.
 *
 * Tables and images. The driver looks at a word of each page, which must be
 * zero, and writes it. An allocator that knows which memory the kernel has just
 * zeroed need not do it again. Sizes are spread evenly over their logarithm. One
 * operation is a calloc and a free.
 */
#include "support/driver.h"
#include "support/random.h"

#include <stdlib.h>

enum { SLOTS = 8, SMALLEST_BYTES = 64 << 10, DOUBLINGS = 6, PAGE_BYTES = 4096, STEPS = 4000 };

struct slot {
    char *data;
    size_t size_bytes;
};

/* One of the six octaves, then a place in it: 64 KiB up to 4 MiB. */
static size_t size_for(uint32_t bits) {
    size_t octave = (size_t)SMALLEST_BYTES << random_scale(bits, DOUBLINGS);
    return octave + ((octave * (bits & 0xff)) >> 8);
}

static uint64_t take(struct slot *slot, uint64_t bits) {
    uint64_t dirty = 0;
    slot->size_bytes = size_for(random_low(bits));
    slot->data = driver_check(calloc(slot->size_bytes / 64, 64));
    for (size_t at = 0; at < slot->size_bytes; at += PAGE_BYTES) {
        dirty |= driver_first_word(slot->data + at);
        *(volatile uint64_t *)(slot->data + at) = bits;
    }
    uint64_t *last = (uint64_t *)(void *)(slot->data + slot->size_bytes - sizeof *last);
    dirty |= driver_first_word(last);
    *last = bits;
    if (dirty != 0) {
        driver_fail("calloc gave memory that is not zero");
    }
    return slot->size_bytes;
}

static uint64_t run(struct slot *slots, struct random *random, uint64_t steps) {
    uint64_t sum = 0;
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t bits = random_next(random);
        struct slot *slot = &slots[random_scale(random_high(bits), SLOTS)];
        if (slot->data != NULL) {
            sum += driver_first_word(slot->data);
            free(slot->data);
        }
        sum += take(slot, bits);
    }
    return sum;
}

int main(void) {
    struct random random = RANDOM_SEED;
    struct slot *slots = driver_table(SLOTS * sizeof *slots);
    uint64_t sum = run(slots, &random, STEPS / 10);

    struct driver_result result = {.benchmark = "calloc_large", .ops = driver_steps(STEPS)};
    driver_start(&result);
    sum += run(slots, &random, result.ops);
    driver_stop(&result);

    for (uint32_t i = 0; i < SLOTS; i++) {
        free(slots[i].data);
    }
    result.checksum = sum;
    driver_print(&result);
    return 0;
}
