/* Runs one attack and says how far it got.
 *
 *   attacks                 names all attacks
 *   attacks NAME            under any allocator, whose heap may be in ruins afterwards
 *   attacks NAME whole      under HAKMEM: its heap has to be whole afterwards
 *   attacks NAME home       under HAKMEM: and all blocks go home, those given back wrongly, too
 *
 * Prints "outcome: WORD", the words being those of attack.h, or "abort" if the allocator
 * ended the program before anything was reached; then "heap: whole", or "end: quiet" if
 * everything went home without a report. */
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "judge.h"
#include "support.h"

static const struct attack *const families[] = {attacks_double, attacks_links, attacks_fake,
                                                attacks_sizes,  attacks_bins,  attacks_top};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* Without stdio, which allocates. */
static void say(const char *what, const char *word_said) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s: %s\n", what, word_said);
    CHECK(write(STDOUT_FILENO, line, (size_t)length) == length);
}

static bool is_outcome_said;

static void say_outcome(bool has_ended) {
    enum outcome outcome = judge_outcome();
    if (!is_outcome_said)
        say("outcome", outcome == NONE && has_ended ? "abort" : outcome_name(outcome));
    is_outcome_said = true;
}

/* Then the signal takes its course. */
static void note_abort(int signal_number) {
    (void)signal_number;
    say_outcome(true);
}

/* What the library says of itself, where it can: 0 if nothing contradicts. */
static void check_bookkeeping(void) {
    int (*check_heap)(void);
    *(void **)&check_heap = dlsym(RTLD_DEFAULT, "hak_check_heap");
    CHECK(check_heap == NULL || check_heap() == 0);
}

/* Ordinary traffic finds its blocks where blocks are, and to itself. */
static void check_heap_is_whole(void) {
    check_bookkeeping();
    CHECK(judge_blocks_are_near());
    CHECK(traffic_run(1, 20000));
    judge_harvest();
    CHECK(judge_blocks_are_near());
    check_bookkeeping();
    say("heap", "whole");
}

static void bring_all_home(void) {
    judge_press_out();
    judge_give_rest();
    malloc_trim(0);
    check_bookkeeping();
    say("end", "quiet");
}

static void name_all(void) {
    for (size_t i = 0; i < FAMILIES; i++) {
        for (const struct attack *attack = families[i]; attack->name != NULL; attack++)
            puts(attack->name);
    }
}

static const struct attack *find(const char *name) {
    for (size_t i = 0; i < FAMILIES; i++) {
        for (const struct attack *attack = families[i]; attack->name != NULL; attack++) {
            if (strcmp(attack->name, name) == 0)
                return attack;
        }
    }
    fprintf(stderr, "attacks: there is no %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    const char *after = argc > 2 ? argv[2] : "";
    if (argc < 2) {
        name_all();
        return 0;
    }
    const struct rlimit no_core = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
    hang_guard();
    struct sigaction action = {.sa_handler = note_abort, .sa_flags = (int)SA_RESETHAND};
    CHECK(sigaction(SIGABRT, &action, NULL) == 0);
    find(argv[1])->make();
    /* Who has nothing yet may have it with the next blocks; who has, has a heap in ruins, if
     * that is possible at all. */
    if (judge_outcome() == NONE || *after != '\0')
        judge_harvest();
    say_outcome(false);
    if (strcmp(after, "whole") == 0)
        check_heap_is_whole();
    if (strcmp(after, "home") == 0)
        bring_all_home();
    _exit(0);
}
