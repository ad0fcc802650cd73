/* Operation sequences while the kernel refuses calls at random. Whatever is
 * refused, a call returns its block or NULL with ENOMEM, the blocks that exist
 * keep their contents, the heap stays whole, and once the kernel gives again, so does the heap.
 *
 * Each round runs in threads of its own, so that the birth of a thread's cache
 * and the return of its blocks are refused things too. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "hakmem/hakmem.h"
#include "interpreter.h"
#include "os/calls.h"
#include "pattern.h"
#include "refusals.h"

enum { ROUNDS = MODEL_SCALE / 4 + 8, SEQUENCE_BYTES = 4000, ALL_KINDS = (1 << OS_CALL_KINDS) - 1 };

/* Of 1,024 calls of a kind in the set, so many are refused. */
static _Atomic unsigned refused_kinds;
static _Atomic unsigned refused_share;
static _Atomic uint64_t asked;
static _Atomic uint64_t refused;

static bool refuses(enum os_call kind) {
    if ((atomic_load(&refused_kinds) >> kind & 1) == 0)
        return false;
    uint64_t state = atomic_fetch_add(&asked, 1);
    if (random_next(&state) % 1024 >= atomic_load(&refused_share))
        return false;
    atomic_fetch_add(&refused, 1);
    return true;
}

struct round {
    struct interpreter run;
    uint64_t seed;
};

static void *run_sequence(void *argument) {
    struct round *round = argument;
    interpreter_run_random(&round->run, round->seed, SEQUENCE_BYTES);
    interpreter_end(&round->run);
    return NULL;
}

/* A sequence in a thread of its own. */
static void run_in_thread(uint64_t seed, bool expects_refusals) {
    static struct round round;
    round = (struct round){.run = {.expects_refusals = expects_refusals, .tag_seed = seed},
                           .seed = seed};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_sequence, &round), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static uint64_t run_rounds(unsigned kinds, unsigned share) {
    atomic_store(&refused, 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t seed = round << 20 | kinds << 10 | share;
        atomic_store(&refused_share, share);
        atomic_store(&refused_kinds, kinds);
        run_in_thread(seed, true);
        atomic_store(&refused_kinds, 0);
        hak_check_heap();
        if (round % 8 == 0)
            run_in_thread(seed + 1, false);
    }
    interpreter_expect_empty_heap();
    return atomic_load(&refused);
}

static void test_any_call_refused(void **state) {
    (void)state;
    assert_true(run_rounds(ALL_KINDS, 16) > 0);
    assert_true(run_rounds(ALL_KINDS, 256) > 0);
    assert_true(run_rounds(ALL_KINDS, 768) > 0);
}

static void test_every_call_refused(void **state) {
    (void)state;
    assert_true(run_rounds(ALL_KINDS, 1024) > 0);
}

static void test_each_kind_refused(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < OS_CALL_KINDS; kind++)
        run_rounds(1u << kind, 512);
}

int main(void) {
    /* Before any thread: written once. */
    refuses_call = refuses;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_refused),
        cmocka_unit_test(test_any_call_refused),
        cmocka_unit_test(test_each_kind_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
