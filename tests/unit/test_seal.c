/* The seal and the redzone (modes/seal.c): whatever is written behind the size asked for is
 * seen, nothing else is taken for it, and the size is told exactly. */
#include "support.h"

#include <stdalign.h>
#include <string.h>

#include "base/bits.h"
#include "modes/seal.h"

static alignas(64) unsigned char memory[256 * 1024];

/* All sizes that leave a room of up to 1 KiB a redzone, and a few of larger rooms. */
static void each_size(void (*check)(size_t room, size_t size)) {
    for (size_t room = 16; room <= 1024; room += room < 128 ? 16 : 112) {
        for (size_t size = 0; size + SEAL_BYTES <= room; size++)
            check(room, size);
    }
    static const size_t rooms[] = {1040, 4096, 8192 + 1024, 65536, sizeof memory};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        for (size_t size = rooms[i] - 200; size + SEAL_BYTES <= rooms[i]; size++)
            check(rooms[i], size);
        check(rooms[i], rooms[i] / 2);
        check(rooms[i], 0);
    }
}

static void tells_the_size(size_t room, size_t size) {
    memset(memory, 0xa5, room);
    seal_guard(memory, room, size);
    assert_int_equal(seal_size(memory, room, SEAL_IN_USE), size);
    assert_int_equal(seal_damage(memory, room, size), SEAL_INTACT);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(memory[i], 0xa5);
}

static void sizes_are_told(void **state) {
    (void)state;
    each_size(tells_the_size);
}

static bool is_seen(size_t room, size_t size, size_t at) {
    size_t told = seal_size(memory, room, SEAL_IN_USE);
    if (told == SEAL_BROKEN)
        return true;
    assert_int_equal(told, size);
    size_t damage = seal_damage(memory, room, size);
    assert_true(damage == SEAL_INTACT || damage == at);
    return damage == at;
}

/* Any change of the byte behind the size, and a 0 there, which ends strings. */
static void sees_one_byte_too_far(size_t room, size_t size) {
    seal_guard(memory, room, size);
    unsigned char was = memory[size];
    assert_int_not_equal(was, 0);
    for (unsigned bit = 0; bit < 8; bit++) {
        memory[size] = (unsigned char)(was ^ 1u << bit);
        assert_true(is_seen(room, size, size));
    }
    memory[size] = 0;
    assert_true(is_seen(room, size, size));
    memory[size] = was;
    assert_false(is_seen(room, size, size));
}

static void one_byte_too_far_is_seen(void **state) {
    (void)state;
    each_size(sees_one_byte_too_far);
}

/* All of the redzone in rooms of up to 1 KiB; its first 57 bytes, and the word, in others. */
static void sees_all_bytes(size_t room, size_t size) {
    seal_guard(memory, room, size);
    for (size_t at = size; at < room; at++) {
        if (room > 1024 && at >= size + 57 && at < room - SEAL_BYTES)
            continue;
        memory[at] ^= 0x40;
        assert_true(is_seen(room, size, at));
        memory[at] ^= 0x40;
    }
    assert_int_equal(seal_size(memory, room, SEAL_IN_USE), size);
}

static void every_byte_is_seen(void **state) {
    (void)state;
    each_size(sees_all_bytes);
}

static void seals_belong_to_their_block_and_life(void **state) {
    (void)state;
    enum { ROOM = 128, SIZE = 100 };
    seal_guard(memory, ROOM, SIZE);
    memcpy(memory + ROOM, memory, ROOM); /* replayed at the next block */
    assert_int_equal(seal_size(memory + ROOM, ROOM, SEAL_IN_USE), SEAL_BROKEN);
    seal_close(memory, ROOM, SIZE, 7);
    assert_int_equal(seal_size(memory, ROOM, SEAL_IN_USE), SEAL_BROKEN);
    assert_int_equal(seal_size(memory, ROOM, 8), SEAL_BROKEN);
    assert_int_equal(seal_size(memory, ROOM, 7), SIZE);
}

static void chance_is_not_taken_for_a_seal(void **state) {
    (void)state;
    uint64_t random = 1;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t word = i == 0 ? 0 : i == 1 ? UINT64_MAX : random_next(&random);
        memcpy(memory + 56, &word, sizeof word);
        assert_int_equal(seal_size(memory, 64, SEAL_IN_USE), SEAL_BROKEN);
    }
}

/* A write one to three bytes too long leaves the tag. */
static void broken_seals_are_guessed(void **state) {
    (void)state;
    for (size_t room = 16; room <= 65536; room *= 2) {
        for (size_t bytes = 1; bytes <= 3; bytes++) {
            seal_guard(memory, room, room - SEAL_BYTES);
            for (size_t i = 0; i < bytes; i++)
                memory[room - SEAL_BYTES + i] ^= 0xff;
            assert_int_equal(seal_size(memory, room, SEAL_IN_USE), SEAL_BROKEN);
            assert_int_equal(seal_guess(memory, room), room - SEAL_BYTES);
        }
        memset(memory + room - SEAL_BYTES, 'A', SEAL_BYTES);
        assert_int_equal(seal_guess(memory, room), SEAL_BROKEN);
    }
}

static int set_up(void **state) {
    (void)state;
    seal_start();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_told),
        cmocka_unit_test(one_byte_too_far_is_seen),
        cmocka_unit_test(every_byte_is_seen),
        cmocka_unit_test(seals_belong_to_their_block_and_life),
        cmocka_unit_test(chance_is_not_taken_for_a_seal),
        cmocka_unit_test(broken_seals_are_guessed),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
