/* The heap in figures, for every report. See figures.c. */
#ifndef HAK_ABI_FIGURES_H
#define HAK_ABI_FIGURES_H

#include "front/front.h"
#include "modes/guard.h"
#include "span/arena.h"
#include "span/large.h"
#include "span/limits.h"

/* Of all locks of one rank (os/lock.h). */
struct lock_figures {
    uint64_t acquired, contended;
};

struct figures {
    struct class_stats classes[CLASS_COUNT];
    struct span_stats spans;
    struct collapse_stats huge_pages;
    struct arena_stats arena;
    struct huge_stats huge;
    struct limits_stats limits;
    struct guard_stats guard;
    uint64_t blocks_taken, blocks_given; /* all kinds, since the start */
    struct lock_figures locks[RANK_COUNT];
    uint64_t slow_calls; /* calls that left the fast path */
    size_t live_bytes;   /* with the program or in bins */
    size_t mapped_bytes; /* that may be resident */
};

/* Each part is true at its own moment; together they are only as consistent as
 * a running program allows. */
struct figures figures_gather(void);

#endif
