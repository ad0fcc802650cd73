/* Two threads take a few small blocks, write to them and give them back, again and again: they
 * come to have places of their own, no two blocks of theirs in one cache line. Where the first
 * of them come from is chance, so the first rounds do not count; nor does it if threads sleep
 * meanwhile, are thought idle, and begin anew now and then. */
#include <pthread.h>
#include <stdlib.h>

#include "support.h"

enum {
    THREADS = 2,
    BLOCKS = 8,
    BLOCK_BYTES = 16,
    LINE_BYTES = 64,
    ROUNDS = 4000,
    FIRST = 100,
    FEW = 20
};

static pthread_barrier_t turn;
static char *blocks[THREADS][BLOCKS];

static bool shares_line(const char *a, const char *b) {
    return (uintptr_t)a / LINE_BYTES == (uintptr_t)b / LINE_BYTES;
}

static bool any_shared(void) {
    bool any = false;
    for (unsigned i = 0; i < BLOCKS; i++) {
        for (unsigned j = 0; j < BLOCKS; j++)
            any |= shares_line(blocks[0][i], blocks[1][j]);
    }
    return any;
}

static void *play(void *argument) {
    unsigned thread = (unsigned)(uintptr_t)argument;
    uintptr_t shared = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            blocks[thread][i] = malloc(BLOCK_BYTES);
            CHECK(blocks[thread][i] != NULL);
            blocks[thread][i][0] = 'x';
        }
        pthread_barrier_wait(&turn);
        if (thread == 0 && round >= FIRST)
            shared += any_shared();
        pthread_barrier_wait(&turn);
        for (unsigned i = 0; i < BLOCKS; i++)
            free(blocks[thread][i]);
    }
    return (void *)shared;
}

int main(void) {
    process_begin();
    pthread_t threads[THREADS];
    void *shared, *none;
    CHECK(pthread_barrier_init(&turn, NULL, THREADS) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, play, (void *)i) == 0);
    CHECK(pthread_join(threads[0], &shared) == 0);
    CHECK(pthread_join(threads[1], &none) == 0);
    if ((uintptr_t)shared > FEW)
        fprintf(stderr, "lines shared in %zu rounds\n", (size_t)(uintptr_t)shared);
    CHECK((uintptr_t)shared <= FEW);
    return process_ok();
}
