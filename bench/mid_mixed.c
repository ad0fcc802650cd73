/* mid_mixed: 256 live blocks of 2 to 32 KiB; each step replaces one at random.
 * See mixed.h.
 *
 * Sizes of buffers: pages, network packets, lines of text. Too large for simple
 * per-thread lists in many allocators, too small for the kernel.
 */
#include "mixed.h"

enum { SMALLEST_BYTES = 2048, LARGEST_BYTES = 32768 };

static inline void *take(uint64_t bits) {
    size_t size_bytes =
        SMALLEST_BYTES + random_scale(random_low(bits), LARGEST_BYTES - SMALLEST_BYTES + 1);
    void *block = driver_check(malloc(size_bytes));
    driver_touch(block, size_bytes, bits);
    return block;
}

int main(void) {
    struct mixed mixed = {
        .name = "mid_mixed", .slots = 256, .warm_steps = 400000, .steps = 8000000};
    return mixed_main(&mixed, take);
}
