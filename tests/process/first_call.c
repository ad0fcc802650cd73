/* The first calls of a process come before anything is ready.
 *
 *   relocation   an IFUNC resolver runs while the dynamic linker is still at
 *                work: libc is not initialised, no constructor has run, the main
 *                thread's TLS is all zero, and its initial values are written
 *                over it afterwards (only when built with IN_RELOCATION=1)
 *   preinit      before the constructors of all libraries, ours too; glibc's only
 *   constructor  priority 101, the earliest that programs may use
 *
 * Blocks from each are alive in all that follow, and go in main and in exit
 * handlers. Built with -fno-plt: the resolver's calls then go through slots that
 * the linker fills first. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { PER_PHASE = 60 };

struct phase {
    char *blocks[PER_PHASE];
    bool done;
};

static struct phase relocation, preinit, constructor, destructor;

static const size_t sizes[] = {1, 16, 100, 1000, 5000, 40000, 200000, 3000000};

static size_t size_of(size_t i) { return sizes[i % 8]; }

static void take_all(struct phase *phase, int mark) {
    for (size_t i = 0; i < PER_PHASE; i++) {
        phase->blocks[i] = i % 3 == 0 ? calloc(1, size_of(i)) : malloc(size_of(i));
        if (phase->blocks[i] == NULL)
            return;
        memset(phase->blocks[i], mark, size_of(i));
        /* Some go at once, so that later calls of the phase meet used memory. */
        if (i % 4 == 3) {
            free(phase->blocks[i]);
            phase->blocks[i] = NULL;
        }
    }
    phase->done = true;
}

static void check_and_give_all(struct phase *phase, int mark) {
    CHECK(phase->done);
    for (size_t i = 0; i < PER_PHASE; i++) {
        char *block = phase->blocks[i];
        if (block == NULL)
            continue;
        CHECK(malloc_usable_size(block) >= size_of(i));
        CHECK(block[0] == mark && block[size_of(i) - 1] == mark);
        if (i % 2 == 0) {
            block = realloc(block, size_of(i) * 2);
            CHECK(block != NULL && block[size_of(i) - 1] == mark);
        }
        free(block);
    }
}

static int answer(void) { return 42; }

#if IN_RELOCATION
__attribute__((used)) static int (*resolve(void))(void) {
    take_all(&relocation, 1);
    return answer;
}

static int probe(void) __attribute__((ifunc("resolve")));
#else
static int probe(void) { return answer(); }
#endif

static void run_preinit(void) { take_all(&preinit, 2); }

CALL_AT_FIRST(run_preinit);

__attribute__((constructor(101))) static void run_constructor(void) { take_all(&constructor, 3); }

__attribute__((destructor(101))) static void run_destructor(void) {
    check_and_give_all(&constructor, 3);
    take_all(&destructor, 4);
    check_and_give_all(&destructor, 4);
}

static void run_at_exit(void) { check_and_give_all(&preinit, 2); }

int main(void) {
    process_begin();
    CHECK(probe() == 42);
    CHECK(traffic_run(1, 20000));
    if (IN_RELOCATION)
        check_and_give_all(&relocation, 1);
    CHECK(atexit(run_at_exit) == 0);
    CHECK(traffic_run(2, 20000));
    return process_ok();
}
