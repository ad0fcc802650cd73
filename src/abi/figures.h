/* The heap in figures, for every report. See figures.c. */
#ifndef HAK_ABI_FIGURES_H
#define HAK_ABI_FIGURES_H

#include "slab/slab.h"
#include "span/arena.h"
#include "span/large.h"

struct figures {
    struct class_stats classes[CLASS_COUNT];
    struct span_stats spans;
    struct arena_stats arena;
    struct huge_stats huge;
    uint64_t blocks_taken, blocks_given; /* all kinds, since the start */
    size_t live_bytes;                   /* with the program or in bins */
    size_t mapped_bytes;                 /* that may be resident */
};

/* Each part is true at its own moment; together they are only as consistent as
 * a running program allows. */
struct figures figures_gather(void);

#endif
