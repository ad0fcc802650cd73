/* Blocks of one class whose bytes tell them apart, and what the kernel says of the pages of their
 * slabs. One population at a time; after start_layers. */
#ifndef HAK_TESTS_UNIT_POPULATION_H
#define HAK_TESTS_UNIT_POPULATION_H

#include <stdbool.h>
#include <stddef.h>

enum { POPULATION_MOST = 6000, POPULATION_BYTES = 8 << 20 };

extern struct population {
    void *blocks[POPULATION_MOST]; /* NULL: given */
    unsigned count;
    unsigned class;
} held;

/* With two shards. */
int start_population(void **state);

/* Takes as many as there may be, and fills them. */
void take_many(unsigned shard, size_t size);
void fill_block(void *block);
bool is_filled(const void *block);

void give(unsigned i);
/* Gives all but one in kept, by chance. */
void give_most(unsigned kept);
/* Gives all; then the class has no slab, and what is taken next is zero. */
void give_rest(void);

/* What there is in memory of the slabs of live blocks, whose contents and pages must be there. */
struct pages {
    size_t dead_bytes; /* on pages without live blocks */
    size_t tail_bytes; /* most that can lie behind last blocks */
};
struct pages look_at_pages(void);

/* Purges all pages that can go; returns bytes. */
size_t assert_purge(void);

#endif
