/* bulk_random: blocks come back in a fixed random order. See bulk.h. */
#include "bulk.h"

/* The shuffle of Fisher and Yates: every order is equally likely. */
static void shuffled(uint32_t *order, uint32_t count) {
    struct random random = RANDOM_SEED;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = random_scale(random_high(random_next(&random)), i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

int main(int argc, char **argv) { return bulk_main(argc, argv, "bulk_random", shuffled, 4); }
