/* bulk_lifo: the block taken last comes back first. See bulk.h. */
#include "bulk.h"

static void last_in_first_out(uint32_t *order) {
    for (uint32_t i = 0; i < BULK_BLOCKS; i++) {
        order[i] = BULK_BLOCKS - 1 - i;
    }
}

int main(void) { return bulk_main("bulk_lifo", last_in_first_out, 10); }
