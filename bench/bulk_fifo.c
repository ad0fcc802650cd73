/* bulk_fifo: blocks come back in the order in which they were taken. See bulk.h. */
#include "bulk.h"

static void first_in_first_out(uint32_t *order) {
    for (uint32_t i = 0; i < BULK_BLOCKS; i++) {
        order[i] = i;
    }
}

int main(void) { return bulk_main("bulk_fifo", first_in_first_out, 10); }
