/* Memory that goes back on request: hak_purge under live blocks, and hak_is_sparse for a
 * program that moves its own objects. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hakmem/hakmem.h"
#include "interface.h"

enum { OBJECTS = 200000, KEPT_ONE_IN = 10, ROUNDS = 4 };

struct object {
    uint32_t size;
    uint32_t number;
    unsigned char rest[];
};
static struct object *objects[OBJECTS];

static uint32_t chance = 12345;
static uint32_t random_below(uint32_t below) {
    chance = chance * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)chance * below >> 32);
}

static void make(uint32_t number, uint32_t size) {
    objects[number] = hak_malloc(size);
    assert_non_null(objects[number]);
    memset(objects[number], (int)(number % 251), size);
    objects[number]->size = size;
    objects[number]->number = number;
}

static bool is_whole(uint32_t number) {
    const struct object *object = objects[number];
    bool whole = object->number == number;
    for (size_t i = 0; i < object->size - sizeof *object; i++)
        whole &= object->rest[i] == number % 251;
    return whole;
}

static void make_all(uint32_t size_low, uint32_t sizes) {
    for (uint32_t i = 0; i < OBJECTS; i++)
        make(i, size_low + random_below(sizes));
}

static void lose(uint32_t number) {
    hak_free(objects[number]);
    objects[number] = NULL;
}

static void lose_most(void) {
    for (uint32_t i = 0; i < OBJECTS; i++) {
        if (random_below(KEPT_ONE_IN) != 0)
            lose(i);
    }
}

static void assert_whole(void) {
    for (uint32_t i = 0; i < OBJECTS; i++)
        assert_true(objects[i] == NULL || is_whole(i));
}

static void lose_all(void) {
    for (uint32_t i = 0; i < OBJECTS; i++)
        lose(i);
}

static void purge_takes_pages_from_under_live_blocks(void **state) {
    (void)state;
    if (sysconf(_SC_PAGESIZE) > 4096)
        skip(); /* hardly one of them is without blocks */
    size_t before = resident_bytes();
    make_all(100, 900);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        if (i % 100 != 0)
            lose(i);
    }
    size_t scattered = resident_bytes();
    errno = EDOM;
    size_t bytes = hak_purge();
    assert_int_equal(errno, EDOM);
    assert_int_equal(hak_purge(), 0);
    size_t purged = resident_bytes();
    assert_whole();
    assert_true(purged - before < 24 * MIB);
    assert_true(bytes >= (scattered - purged) / 2);
    char profile[16];
    hak_option_get("profile", profile, sizeof profile);
    if (strcmp(profile, "speed") == 0)
        assert_true(scattered - before > 90 * MIB);
    else /* most has gone by itself, as the heap shrank */
        assert_true(scattered - before < 60 * MIB);
    lose_all();
    assert_int_equal(hak_malloc_trim(0), 1);
    assert_int_equal(hak_malloc_trim(0), 0);
}

static size_t move_sparse(void) {
    size_t moves = 0;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct object *old = objects[i];
        if (!hak_is_sparse(old))
            continue;
        objects[i] = hak_malloc(old->size);
        assert_non_null(objects[i]);
        memcpy(objects[i], old, old->size);
        hak_free(old);
        moves++;
    }
    return moves;
}

static void assert_moving_helps(uint32_t size_low, uint32_t sizes) {
    size_t before = resident_bytes();
    make_all(size_low, sizes);
    lose_most();
    hak_purge();
    size_t scattered = resident_bytes() - before;
    size_t moves = 0;
    size_t last = 1;
    for (unsigned round = 0; round < ROUNDS; round++)
        moves += last = move_sparse();
    hak_purge();
    size_t packed = resident_bytes() - before;
    assert_whole();
    if (packed > scattered / 2)
        fail_msg("%zu KiB before, %zu after %zu moves", scattered / KIB, packed / KIB, moves);
    /* It comes to an end: what is packed is left alone. */
    assert_true(last < OBJECTS / KEPT_ONE_IN / 20);
    lose_all();
    hak_purge();
}

static void moving_objects_of_one_size_halves_memory(void **state) {
    (void)state;
    assert_moving_helps(200, 1);
}

static void moving_objects_of_many_sizes_halves_memory(void **state) {
    (void)state;
    assert_moving_helps(40, 500);
}

static void full_and_large_blocks_are_not_sparse(void **state) {
    (void)state;
    assert_int_equal(hak_is_sparse(NULL), 0);
    assert_int_equal(hak_is_sparse(&chance), 0);
    make_all(300, 1);
    size_t sparse = 0;
    for (uint32_t i = 0; i < OBJECTS; i++)
        sparse += hak_is_sparse(objects[i]) != 0;
    assert_int_equal(sparse, 0);
    lose_all();
    void *large = hak_malloc(3 * MIB);
    assert_int_equal(hak_is_sparse(large), 0);
    hak_free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(purge_takes_pages_from_under_live_blocks),
        cmocka_unit_test(moving_objects_of_one_size_halves_memory),
        cmocka_unit_test(moving_objects_of_many_sizes_halves_memory),
        cmocka_unit_test(full_and_large_blocks_are_not_sparse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
