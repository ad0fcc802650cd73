/* Published attacks on allocators, one function each, told by what they reach for.
 *
 * An attack is a program with a bug in it that somebody steers: a block given back twice, a
 * pointer given back that never was a block, a write behind a block or into a freed one. It
 * knows the layout of boundary tags (weak.h) and bends it. What it gets for that is judged
 * here, from nothing but the addresses that malloc returns (judge.c):
 *
 *   outside     a block in memory of the program's own that the allocator never had
 *   write       a word changed that the program never handed over
 *   overlap     a block that runs into one in use
 *   interior    a block that starts inside one in use
 *   duplicate   a block that starts where one in use does
 *   leak        an address in a block that was cleared before it was given back, or old
 *               contents in one from calloc
 *   none        nothing of these
 *
 * Blocks are taken, and pointers given back, by the functions below alone. An attack has to
 * go on or return, whatever it gets: NULL, other neighbours than it hoped for, other words. */
#ifndef TESTS_ATTACKS_ATTACK_H
#define TESTS_ATTACKS_ATTACK_H

#include <stddef.h>
#include <stdint.h>

/* Attacks read and write memory as words. */
typedef uintptr_t word;

struct attack {
    const char *name;
    void (*make)(void);
};

/* Each ends with an entry whose name is NULL. */
extern const struct attack attacks_double[]; /* blocks given back twice */
extern const struct attack attacks_links[];  /* the links of freed blocks overwritten */
extern const struct attack attacks_fake[];   /* pointers given back that are no blocks */
extern const struct attack attacks_sizes[];  /* sizes overwritten from the block before */
extern const struct attack attacks_bins[];   /* links of sorted free chunks overwritten */
extern const struct attack attacks_top[];    /* what no block is: top chunk, arena, mapping */

/* --- judge.c ------------------------------------------------------------------ */

/* malloc, and calloc, which takes another way than malloc through some allocators. */
void *take(size_t size);
void *take_zeroed(size_t size);

/* free, of whatever pointer; and of one that was given before, to a block whose owner does
 * not know. */
void give(void *pointer);
void give_stale(void *pointer);

/* Memory of the program's that no block may lie in; and a word of it that shall stay as it
 * is now. Call it when all that the attack itself writes there is written. */
void forbid(const void *start, size_t size);
void watch(const word *place);

/* A freed block holds the address of something: the attack has found it there. */
void report_leak(void);
/* Clears a block, gives it back and reports what address it then holds, or 0. */
word give_and_leak(void *block, size_t size);

/* --- chunks.c: the vocabulary of boundary tags -------------------------------- */

/* The first word behind a block, where the next chunk's size and flags are, and the block's
 * last, where a free chunk's size is repeated. */
word *behind(void *block);
word *last_of(void *block);

/* The chunk that a block is in: two words before it. */
word *chunk_of(void *block);

enum { PREV_IN_USE = 1, IS_MAPPED = 2, OF_OTHER_ARENA = 4 };

/* What a link at a place looks like: modern lists hide it by the place's address. */
word link_at(const void *place, const void *to);

/* The blocks that fill a cache of freed ones, so that the next goes to the bins. They are
 * taken before the blocks that matter, and given when the cache is to be full. */
enum { CACHE_BLOCKS = 7 };
struct filler {
    void *blocks[CACHE_BLOCKS];
};
struct filler filler_take(size_t size);
void filler_give(const struct filler *filler);

#endif
