/* bulk_lifo: the block taken last comes back first. See bulk.h. */
#include "bulk.h"

static void last_in_first_out(uint32_t *order, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        order[i] = count - 1 - i;
    }
}

int main(int argc, char **argv) {
    return bulk_main(argc, argv, "bulk_lifo", last_in_first_out, 10);
}
