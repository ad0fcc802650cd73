/* random_mixed SLOTS [STEPS [WARM]]: a table of SLOTS live blocks of 16 to 1,040 bytes; each
 * step replaces one at random by a block of a random size. See mixed.h.
 *
 * Small tables (256, 400) live in the caches of a thread: every size class is in
 * use at once and no two steps in a row want the same one. Large ones (65,536
 * and a million) are what a big program's heap looks like after an hour: the
 * block given back is cold, and so may be what the allocator knows about it.
 */
#include "mixed.h"

#include <stdio.h>

enum { SMALLEST_BYTES = 16, LARGEST_BYTES = 1040 };

static inline void *take(uint64_t bits) {
    size_t size_bytes =
        SMALLEST_BYTES + random_scale(random_low(bits), LARGEST_BYTES - SMALLEST_BYTES + 1);
    void *block = driver_check(malloc(size_bytes));
    driver_touch(block, size_bytes, bits);
    return block;
}

/* Some tenths of a second under an average allocator. */
static uint64_t steps_for(uint32_t slots) {
    if (slots <= 4096) {
        return 20000000;
    }
    return slots <= 65536 ? 8000000 : 3000000;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 4) {
        driver_fail("usage: random_mixed SLOTS [STEPS [WARM]]");
    }
    uint32_t slots = (uint32_t)driver_number(argv[1], 1, 100000000);
    uint64_t steps = driver_optional(argc, argv, 2, steps_for(slots), 1, 1000000000000);
    /* A heap just filled in order is not what its life will be: replace as much of it first. */
    uint64_t warm_steps = slots > steps / 20 ? slots : steps / 20;
    char name[32];
    snprintf(name, sizeof name, "random_mixed_%u", slots);
    struct mixed mixed = {
        .name = name,
        .slots = slots,
        .warm_steps = driver_optional(argc, argv, 3, warm_steps, 0, 1000000000000),
        .steps = steps,
    };
    return mixed_main(&mixed, take);
}
