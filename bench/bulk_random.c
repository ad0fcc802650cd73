/* bulk_random: blocks come back in a fixed random order. See bulk.h. */
#include "bulk.h"

/* The shuffle of Fisher and Yates: every order is equally likely. */
static void shuffled(uint32_t *order) {
    struct random random = RANDOM_SEED;
    for (uint32_t i = 0; i < BULK_BLOCKS; i++) {
        uint32_t j = random_scale(random_high(random_next(&random)), i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

int main(void) { return bulk_main("bulk_random", shuffled, 4); }
