/* bulk_fifo: blocks come back in the order in which they were taken. See bulk.h. */
#include "bulk.h"

static void first_in_first_out(uint32_t *order, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
}

int main(int argc, char **argv) {
    return bulk_main(argc, argv, "bulk_fifo", first_in_first_out, 10);
}
