/* SIGSEGV is the program's own until a block is guarded, and only then HAKMEM's too.
 *
 * usage: fault_handler sampled | never */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { BLOCK_BYTES = 100, BLOCKS = 5000, ROUNDS = 1000, ROUNDS_WITHOUT = 40 };

static bool has_handler(void) {
    struct sigaction action;
    CHECK(sigaction(SIGSEGV, NULL, &action) == 0);
    return (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL;
}

/* Of these alone the usable size is what was asked for. */
static bool is_guarded(void *block) { return malloc_usable_size(block) == BLOCK_BYTES; }

/* Blocks come from refills, which alone are sampled, as long as they are kept. */
static bool takes_guarded(bool may_be_guarded) {
    static void *blocks[BLOCKS];
    bool found = false;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL);
        found |= may_be_guarded && is_guarded(blocks[i]);
        CHECK(has_handler() == found);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return found;
}

static void sampled(void) {
    bool was_guarded = false;
    for (size_t round = 0; round < ROUNDS && !was_guarded; round++)
        was_guarded = takes_guarded(true);
    CHECK(was_guarded);
}

static void never(void) {
    for (size_t round = 0; round < ROUNDS_WITHOUT; round++)
        takes_guarded(false);
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 2);
    bool is_sampled = strcmp(argv[1], "sampled") == 0;
    /* One of the few blocks before main may be it: once in some thousand runs. */
    if (is_sampled && has_handler())
        return process_ok();
    if (is_sampled)
        sampled();
    else
        never();
    return process_ok();
}
