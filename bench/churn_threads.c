/* churn_threads [THREADS]: threads that live for a hundred microseconds.
 *
 * Servers with a thread a request, and programs that start a thread for each small
 * job. A thread's first malloc finds no cache, its end must send home what it
 * cached, and what it leaves behind is given back by a later thread. Here each
 * thread gives back the 100 blocks that the one before it in its place left, takes
 * 300 of 16 bytes to 1 KiB, gives 200 back, and ends. Four live at a time.
 *
 * THREADS is how many are started in all. One operation is the life of a thread.
 */
#include "support/blocks.h"
#include "support/team.h"

enum { PLACES = 4, TAKEN = 300, LEFT = 100, THREADS = 12000, WARM_THREADS = 200 };

struct place {
    pthread_t thread;
    uint64_t number; /* of the thread, so that its sizes do not depend on the order */
    uint64_t sum;
    uint32_t left;
    void *blocks[TAKEN];
};

static void *live(void *argument) {
    struct place *place = argument;
    struct random random = random_of(place->number);
    for (uint32_t i = 0; i < place->left; ++i) {
        place->sum += blocks_give(place->blocks[i]);
    }
    for (uint32_t i = 0; i < TAKEN; ++i) {
        uint64_t bits = random_next(&random);
        place->blocks[i] = blocks_take(blocks_size(bits, 4, 6), bits);
    }
    for (uint32_t i = LEFT; i < TAKEN; ++i) {
        place->sum += blocks_give(place->blocks[i]);
    }
    place->left = LEFT;
    return NULL;
}

/* Starts count threads more, each when the one before it in its place has ended. */
static void churn(struct place *places, uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
        struct place *place = &places[i % PLACES];
        if (i >= PLACES) {
            team_join(place->thread);
        }
        place->number = first + i;
        place->thread = team_start_thread(live, place);
    }
    for (uint32_t i = 0; i < PLACES; ++i) {
        team_join(places[i].thread);
    }
}

int main(int argc, char **argv) {
    if (argc > 2) {
        driver_fail("usage: churn_threads [THREADS]");
    }
    size_t threads = driver_optional(argc, argv, 1, THREADS, PLACES, 1000000000);
    struct place *places = driver_table(PLACES * sizeof *places);
    churn(places, 0, WARM_THREADS);
    struct driver_result result = {.benchmark = "churn_threads", .ops = threads};
    result.start_ns = driver_now_ns();
    churn(places, WARM_THREADS, threads);
    result.end_ns = driver_now_ns();
    for (uint32_t i = 0; i < PLACES; ++i) {
        for (uint32_t j = 0; j < places[i].left; ++j) {
            places[i].sum += blocks_give(places[i].blocks[j]);
        }
        result.checksum += places[i].sum;
    }
    driver_print(&result);
    return 0;
}
