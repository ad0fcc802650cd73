/* The checks that a flush makes under the lock, each with a pointer that only
 * that check can refuse: class, shard, exact multiple of the block size, index
 * below the capacity, bit not set. (Exact multiple: bugs_inside.c. Bit not set:
 * bugs_double.c.) Duplicates get stale here: when they come home, their slab is
 * another. */
#include "bugs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLAB_BYTES = 64 * 1024 };

static uintptr_t slab_of(const void *block) { return (uintptr_t)block / SLAB_BYTES; }

/* 1,365 blocks of 48 bytes fill a slab of 64 KiB but for its last 16 bytes. The
 * place of a 1,366th begins there: aligned, an exact multiple, but no block. */
static void free_tail_of_slab(void) {
    char *block = malloc(48);
    CHECK(block != NULL);
    uintptr_t slab = slab_of(block) * SLAB_BYTES;
    const void *tail = (const void *)(slab + (uintptr_t)SLAB_BYTES / 48 * 48);
    announce(tail);
    free(hidden(tail));
    flush_by_frees(48);
}

struct stale {
    void *blocks[4000];
    size_t size;
};

static void take_all(struct stale *stale, size_t size) {
    stale->size = size;
    for (size_t i = 0; i < 4000; i++) {
        stale->blocks[i] = malloc(size);
        CHECK(stale->blocks[i] != NULL);
    }
}

static void free_each(void *argument) {
    struct stale *stale = argument;
    for (size_t i = 0; i < 4000; i++)
        free(stale->blocks[i]);
}

static void free_all(void *argument) {
    free_each(argument);
    process_trim();
}

/* All blocks have gone home and their slabs are given back. */
static void free_after_slab_was_given_back(void) {
    static struct stale stale;
    take_all(&stale, 80);
    announce(stale.blocks[2000]);
    free_all(&stale);
    free(hidden(stale.blocks[2000])); /* no block is there any more: seen at the call */
}

static bool lies_in(const void *wanted, void **blocks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (slab_of(blocks[i]) == slab_of(wanted))
            return true;
    }
    return false;
}

/* Takes blocks of `size`, for good, until one lies in the slab of `wanted`. */
static void take_until_slab_is_reused(const void *wanted, size_t size) {
    enum { BATCH = 512 };
    static void *blocks[BATCH];
    for (size_t total = 0; total < 256 * MIB; total += BATCH * size) {
        for (size_t i = 0; i < BATCH; i++)
            CHECK((blocks[i] = malloc(size)) != NULL);
        if (lies_in(wanted, blocks, BATCH))
            return;
    }
    check_failed(__FILE__, __LINE__, "the slab serves another size now");
}

/* A block whose number in its slab is also that of a block of 2,048 bytes there,
 * once the slab is cut anew: nothing but the class tells them apart. */
static void *low_in_its_slab(const struct stale *stale) {
    for (size_t i = 1000; i < 4000; i++) {
        uintptr_t number = (uintptr_t)stale->blocks[i] % SLAB_BYTES / stale->size;
        if (number >= 5 && number < 25)
            return stale->blocks[i];
    }
    check_failed(__FILE__, __LINE__, "some slab has its first blocks among these");
}

/* This thread's bin holds a duplicate of a block whose slab meanwhile went home,
 * through another thread, and serves another class. The slabs are not purged between:
 * untouched ones would be growth, at which idle bins are emptied. */
static void duplicate_after_class_changed(void) {
    static struct stale stale;
    take_all(&stale, 160);
    void *duplicate = low_in_its_slab(&stale);
    announce(duplicate);
    free(hidden(duplicate)); /* stays in this thread's bin */
    in_a_thread(free_each, &stale);
    take_until_slab_is_reused(duplicate, 2048);
    process_trim(); /* empties this thread's bins; a malloc would hand the duplicate out */
}

/* Where a block of 2,048 bytes may start; in hardened mode it takes 2,112. */
static bool may_start_in_new_class(const void *block) {
    uintptr_t offset = (uintptr_t)block % SLAB_BYTES;
    return offset % 2048 == 0 || offset % 2112 == 0;
}

/* The same with a free that comes when the slab already is another's: the
 * pointer is taken for one of the new class. */
static void free_inside_the_new_class(void) {
    static struct stale stale;
    take_all(&stale, 160);
    void *old = NULL;
    for (size_t i = 2000; old == NULL; i++) {
        CHECK(i < 4000);
        if (!may_start_in_new_class(stale.blocks[i]))
            old = stale.blocks[i];
    }
    announce(old);
    free_all(&stale);
    take_until_slab_is_reused(old, 2048);
    free(hidden(old));
    flush_by_frees(2048);
}

/* No bug: slabs that change their shard while blocks of theirs are in bins. Two
 * threads of different shards take blocks of one class and leave every other
 * free, so that each finds the other's half-empty slabs when it needs more; then
 * each frees what it took first, by entries of a row that may no longer be its
 * slab's. */
struct mover {
    void *first[6000], *second[6000];
    pthread_barrier_t *step;
};

enum { MOVED_SIZE = 400 };

static void fill(void **blocks, size_t count, int mark) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(MOVED_SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], mark, MOVED_SIZE);
    }
}

static void empty(void **blocks, size_t count, int mark, size_t every) {
    for (size_t i = 0; i < count; i += every) {
        if (blocks[i] == NULL)
            continue;
        for (size_t at = 0; at < MOVED_SIZE; at++)
            CHECK(((char *)blocks[i])[at] == mark);
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void *move(void *argument) {
    struct mover *mover = argument;
    for (int round = 0; round < 30; round++) {
        fill(mover->first, 6000, round);
        pthread_barrier_wait(mover->step);
        empty(mover->first, 6000, round, 2);
        pthread_barrier_wait(mover->step);
        fill(mover->second, 6000, round + 1);
        empty(mover->first, 6000, round, 1);
        pthread_barrier_wait(mover->step);
        empty(mover->second, 6000, round + 1, 1);
        CHECK(traffic_run((unsigned)round, 2000));
    }
    return NULL;
}

static void slabs_change_their_shard(void) {
    enum { THREADS = 4 };
    static struct mover movers[THREADS];
    pthread_barrier_t step;
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&step, NULL, THREADS) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        movers[i].step = &step;
        CHECK(pthread_create(&threads[i], NULL, move, &movers[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

const struct bug bugs_flush[] = {
    {"free-tail-of-slab", free_tail_of_slab},
    {"free-after-slab-was-given-back", free_after_slab_was_given_back},
    {"duplicate-after-class-changed", duplicate_after_class_changed},
    {"free-inside-the-new-class", free_inside_the_new_class},
    {"no-bug-slabs-change-their-shard", slabs_change_their_shard},
    {NULL, NULL},
};
