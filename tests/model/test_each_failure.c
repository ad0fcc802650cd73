/* Every single call into the kernel fails once. A scene is played in a process of its own, from
 * the start of the heap on, in which the first call is refused; then in one in which the second
 * is; and so on, until the scene makes fewer calls than that.
 *
 *   call    1 2 3 4 5 6 ...     the first ones are those of the start itself
 *   k = 1   x . . . . .
 *   k = 2   . x . . . .
 *   k = 3   . . x . . .
 *
 * And in one more for each kind of call, in which all of that kind are.
 *
 * A refusal may cost the block that was asked for, and nothing else: the operation after which it
 * is found leaves a whole heap, all other blocks keep their contents, and in the end all memory
 * is free and can be had again. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hakmem/hakmem.h"
#include "model.h"
#include "os/calls.h"
#include "pattern.h"
#include "refusals.h"

enum {
    CALLS_MAX = 5000, /* a scene with more would take too long */
    HANG_SECONDS = 60,
    SMALL_BLOCKS = 6000,
    THREAD_BLOCKS = 20,
    RANDOM_SCENES = 1 + MODEL_SCALE / 40,
    RANDOM_BYTES = 1500,
    MODE_BYTES = 6 * MODEL_SCALE, /* in a mode that calls the kernel for each block, or nearly */
    PART_BYTES = 25,              /* some operations */
};
#define MIB ((size_t)1 << 20)

/* How a scene's process ends: REFUSED and the kind of the call that was. */
enum { NOT_REACHED = 2, NO_PROCESS = 3, REFUSED = 100 };

/* What is refused: one call, the first being 1; or all of a kind. */
struct refusal {
    unsigned call;     /* 0: none */
    enum os_call kind; /* OS_CALL_KINDS: none */
};
static struct refusal wanted = {0, OS_CALL_KINDS};

static _Atomic unsigned calls;
static _Atomic unsigned refused_kind; /* of the last one that was */
static atomic_bool is_news;           /* one was, and the heap was not looked at since */

static bool refuses(enum os_call kind) {
    if (atomic_fetch_add(&calls, 1) + 1 != wanted.call && kind != wanted.kind)
        return false;
    atomic_store(&refused_kind, kind);
    atomic_store(&is_news, true);
    return true;
}

static void check_after_refusal(void) {
    if (atomic_exchange(&is_news, false))
        hak_check_heap();
}

/* --- operations ------------------------------------------------------------------ */

static struct interpreter run;

static void take_by(unsigned slot, size_t size, size_t alignment, void *start) {
    if (start == NULL)
        model_refused(&run, size, alignment);
    else
        model_add(&run, &run.slots[slot],
                  (struct block){.start = start, .asked = size, .alignment = alignment});
    check_after_refusal();
}

static void take(unsigned slot, size_t size) { take_by(slot, size, 16, hak_malloc(size)); }

static void take_zeroed(unsigned slot, size_t size) {
    void *start = hak_calloc(1, size);
    if (start != NULL && pattern_find_nonzero(start, size) != SIZE_MAX)
        model_violated(&run, "calloc(1, %zu) is not zero", size);
    take_by(slot, size, 16, start);
}

static void take_aligned(unsigned slot, size_t size, size_t alignment) {
    take_by(slot, size, alignment, hak_aligned_alloc(alignment, size));
}

static void resize(unsigned slot, size_t size) {
    struct block *block = &run.slots[slot];
    if (block->start == NULL)
        return;
    struct block old = *block;
    model_check(&run, block, old.usable);
    unsigned char *start = hak_realloc(old.start, size);
    if (start == NULL) {
        model_refused(&run, size, 16);
        model_check(&run, block, old.usable);
    } else {
        size_t kept = old.asked < size ? old.asked : size;
        if (pattern_find_fault(start, old.usable, kept, old.tag) != SIZE_MAX)
            model_violated(&run, "realloc from %zu to %zu bytes lost some", old.asked, size);
        model_remove(&run, block);
        model_add(&run, block, (struct block){.start = start, .asked = size, .alignment = 16});
    }
    check_after_refusal();
}

static void drop(unsigned slot) {
    if (run.slots[slot].start == NULL)
        return;
    model_check(&run, &run.slots[slot], run.slots[slot].usable);
    hak_free(model_remove(&run, &run.slots[slot]).start);
    check_after_refusal();
}

static void purge(void) {
    hak_purge();
    check_after_refusal();
}

/* --- scenes ------------------------------------------------------------------------- */

static void play_large(unsigned unused) {
    (void)unused;
    take(0, 3 * MIB);
    take(1, 40 * MIB);
    take_zeroed(2, 5 * MIB);
    take_aligned(3, 3 * MIB, 8 * MIB);
    resize(0, 9 * MIB);
    resize(1, 70 * MIB); /* behind it there is something by now: its pages move */
    resize(1, 2 * MIB);
    drop(2);
    take_zeroed(2, 5 * MIB);
    purge();
    take_zeroed(4, 12 * MIB);
    resize(3, 20 * MIB);
    for (unsigned slot = 0; slot < 5; slot++)
        drop(slot);
    purge();
}

static void play_huge(unsigned unused) {
    (void)unused;
    take(0, 1100 * MIB);
    take_aligned(1, 1100 * MIB, 32 * MIB);
    resize(0, 1500 * MIB);
    resize(0, 1050 * MIB);
    resize(1, 3 * MIB);
    take(2, 64);
    resize(2, 1200 * MIB);
    for (unsigned slot = 0; slot < 3; slot++)
        drop(slot);
}

/* Slabs of many classes; then most blocks of one go, but for some on each slab. */
static void play_small(unsigned unused) {
    (void)unused;
    static unsigned char *blocks[SMALL_BLOCKS];
    for (unsigned slot = 0; slot < 200; slot++)
        take(slot, 16 + (size_t)slot * slot * 5);
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) {
        blocks[i] = hak_malloc(700);
        if (blocks[i] != NULL)
            memset(blocks[i], (int)i, 700);
        check_after_refusal();
    }
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) {
        if (i % 40 != 0)
            hak_free(blocks[i]);
    }
    purge();
    for (unsigned i = 0; i < SMALL_BLOCKS; i += 40) {
        if (blocks[i] != NULL && (blocks[i][0] != (i & 0xff) || blocks[i][699] != (i & 0xff)))
            model_violated(&run, "block %p was changed", (void *)blocks[i]);
        hak_free(blocks[i]);
    }
    for (unsigned slot = 0; slot < 200; slot++)
        drop(slot);
    hak_thread_idle();
    check_after_refusal();
}

static void *fill_in_thread(void *slot) {
    unsigned first = *(unsigned *)slot;
    for (unsigned i = 0; i < THREAD_BLOCKS; i++)
        take(first + i, 100 + (size_t)i * 3000);
    for (unsigned i = 0; i < THREAD_BLOCKS; i += 2)
        drop(first + i);
    return NULL;
}

/* Threads one after the other, whose blocks others free. */
static void play_threads(unsigned unused) {
    (void)unused;
    for (unsigned slot = 0; slot < 100; slot += 20) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill_in_thread, &slot) != 0 ||
            pthread_join(thread, NULL) != 0)
            model_violated(&run, "no thread");
        check_after_refusal();
        if (slot >= 20)
            drop(slot - 19);
    }
    purge();
}

static atomic_bool has_filled, may_end;

static void *fill_and_wait(void *slot) {
    fill_in_thread(slot);
    atomic_store(&has_filled, true);
    while (!atomic_load(&may_end))
        usleep(1000);
    return NULL;
}

/* With a second thread there the heap becomes dirty, and small blocks come and go for a while: the
 * scavenger is made, and the pages that come next are looked up and asked for. */
static void play_upkeep(unsigned unused) {
    (void)unused;
    enum { SMALL = 90, ROUNDS = 12 };
    pthread_t thread;
    unsigned first = SMALL + 1;
    if (pthread_create(&thread, NULL, fill_and_wait, &first) != 0)
        model_violated(&run, "no thread");
    while (!atomic_load(&has_filled))
        usleep(1000);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SMALL; i++)
            take(i, 400 + i % 3);
        take(SMALL, 2 * MIB);
        usleep(5000);
        for (unsigned i = 0; i <= SMALL; i++)
            drop(i);
    }
    atomic_store(&may_end, true);
    if (pthread_join(thread, NULL) != 0)
        model_violated(&run, "no thread");
    for (unsigned slot = first; slot < first + THREAD_BLOCKS; slot++)
        drop(slot);
}

static void play_bytes(unsigned seed, unsigned bytes) {
    for (unsigned part = 0; part < bytes / PART_BYTES; part++) {
        interpreter_run_random(&run, (uint64_t)seed << 32 | part, PART_BYTES);
        check_after_refusal();
    }
}

static void play_random(unsigned seed) { play_bytes(seed, RANDOM_BYTES); }
static void play_in_mode(unsigned seed) { play_bytes(seed, MODE_BYTES); }

/* --- each call -------------------------------------------------------------------------- */

static const struct scene {
    const char *name;
    void (*play)(unsigned seed);
    unsigned seeds;
    const char *options; /* besides those of the test */
} scenes[] = {
    {"large", play_large, 1, ""},
    {"huge", play_huge, 1, ""},
    {"small", play_small, 1, ""},
    {"threads", play_threads, 1, ""},
    {"upkeep", play_upkeep, 1, "profile=balanced"},
    {"random", play_random, RANDOM_SCENES, ""},
    {"hardened", play_in_mode, 1, "hardened=2"},
    {"guarded", play_in_mode, 1, "guard_rate=1,guard_slots=40"},
};
enum { SCENES = sizeof scenes / sizeof scenes[0] };

/* What a process is to play is in its environment: the heap starts before main has arguments. */
enum { WORD_BYTES = 16, OPTIONS_BYTES = 256 };
static const char call_name[] = "MODEL_REFUSED_CALL";
static const char kind_name[] = "MODEL_REFUSED_KIND";
static const char options_name[] = "HAKMEM_OPTIONS";

__attribute__((constructor(101))) static void refuse_from_the_start(void) {
    const char *call = getenv(call_name);
    const char *kind = getenv(kind_name);
    if (call == NULL || kind == NULL)
        return;
    wanted.call = (unsigned)strtoul(call, NULL, 10);
    wanted.kind = (enum os_call)strtoul(kind, NULL, 10);
    refuses_call = refuses;
}

static int play(void (*scene)(unsigned seed), unsigned seed) {
    alarm(HANG_SECONDS);
    run = (struct interpreter){.expects_refusals = true, .tag_seed = seed + 1};
    check_after_refusal();
    scene(seed);
    refuses_call = NULL;
    interpreter_end(&run);
    interpreter_expect_empty_heap();
    run.expects_refusals = false;
    interpreter_run_random(&run, seed, 200);
    interpreter_end(&run);
    if (atomic_load(&calls) < wanted.call)
        return NOT_REACHED;
    return REFUSED + (int)atomic_load(&refused_kind);
}

static void set_number(const char *name, unsigned number) {
    char text[WORD_BYTES];
    snprintf(text, sizeof text, "%u", number);
    setenv(name, text, 1);
}

_Noreturn static void play_in_child(const struct scene *scene, unsigned seed,
                                    struct refusal refusal) {
    char seed_text[WORD_BYTES], options_text[OPTIONS_BYTES];
    const char *options = getenv(options_name);
    snprintf(seed_text, sizeof seed_text, "%u", seed);
    snprintf(options_text, sizeof options_text, "%s,%s", options == NULL ? "" : options,
             scene->options);
    setenv(options_name, options_text, 1);
    set_number(call_name, refusal.call);
    set_number(kind_name, refusal.kind);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGABRT, SIG_DFL);
    execl("/proc/self/exe", "model_each_failure", scene->name, seed_text, NULL);
    _exit(NO_PROCESS);
}

/* How a scene's process ends. */
static int refuse(const struct scene *scene, unsigned seed, struct refusal refusal) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        play_in_child(scene, seed, refusal);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != NOT_REACHED && (code < REFUSED || code >= REFUSED + OS_CALL_KINDS))
        fail_msg("%s: with call %u and kind %d refused (seed %u) it ends with status 0x%x",
                 scene->name, refusal.call, (int)refusal.kind, seed, (unsigned)status);
    return code;
}

static unsigned refused_of_kind[OS_CALL_KINDS];

static void test_scene(void **state) {
    const struct scene *scene = *state;
    for (unsigned seed = 1; seed <= scene->seeds; seed++) {
        struct refusal refusal = {1, OS_CALL_KINDS};
        int code;
        for (; (code = refuse(scene, seed, refusal)) != NOT_REACHED; refusal.call++) {
            assert_true(refusal.call < CALLS_MAX);
            refused_of_kind[code - REFUSED]++;
        }
        assert_true(refusal.call > 10); /* it did call the kernel */
        printf("%u calls refused, one at a time\n", refusal.call - 1);
    }
}

static void test_each_kind_was_refused(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < OS_CALL_KINDS; kind++) {
        if (refused_of_kind[kind] == 0)
            fail_msg("none of these was a call of kind %u", kind);
    }
}

/* A whole kind, from the start to the end of the scene. */
static void test_all_of_each_kind(void **state) {
    (void)state;
    for (const struct scene *scene = scenes; scene < scenes + SCENES; scene++) {
        for (enum os_call kind = 0; kind < OS_CALL_KINDS; kind++)
            refuse(scene, 1, (struct refusal){0, kind});
    }
}

int main(int count, char **arguments) {
    struct CMUnitTest tests[SCENES + 2];
    for (unsigned i = 0; i < SCENES; i++) {
        if (count == 3 && strcmp(scenes[i].name, arguments[1]) == 0)
            return play(scenes[i].play, (unsigned)strtoul(arguments[2], NULL, 10));
        tests[i] = (struct CMUnitTest){scenes[i].name, test_scene, NULL, NULL, (void *)&scenes[i]};
    }
    tests[SCENES] = (struct CMUnitTest)cmocka_unit_test(test_each_kind_was_refused);
    tests[SCENES + 1] = (struct CMUnitTest)cmocka_unit_test(test_all_of_each_kind);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
