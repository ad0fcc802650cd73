/* aligned_mixed: 1,024 live blocks of 16 to 4,096 bytes, aligned to 32 ... 4,096
 * bytes; each step replaces one at random. See mixed.h.
 *
 * Cache lines, vectors, pages for direct input and output. An allocator may find
 * an aligned block among its ordinary ones or cut it out of a larger one.
 */
#include "mixed.h"

enum {
    SMALLEST_BYTES = 16,
    LARGEST_BYTES = 4096,
    SMALLEST_ALIGNMENT = 32,
    ALIGNMENTS = 8, /* 32, 64, ... 4096 */
};

static inline void *take(uint64_t bits) {
    size_t alignment = (size_t)SMALLEST_ALIGNMENT << (bits % ALIGNMENTS);
    size_t size_bytes =
        SMALLEST_BYTES + random_scale(random_low(bits), LARGEST_BYTES - SMALLEST_BYTES + 1);
    void *block = NULL;
    if (posix_memalign(&block, alignment, size_bytes) != 0) {
        driver_fail("out of memory");
    }
    if (((uintptr_t)block & (alignment - 1)) != 0) {
        driver_fail("a block is not aligned as was asked");
    }
    driver_touch(block, size_bytes, bits);
    return block;
}

int main(void) {
    struct mixed mixed = {
        .name = "aligned_mixed", .slots = 1024, .warm_steps = 250000, .steps = 8000000};
    return mixed_main(&mixed, take);
}
