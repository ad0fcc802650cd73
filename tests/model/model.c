/* Blocks as an array of slots and a list of the live ones in the order of their
 * addresses: a new block must end before its right neighbour starts and start
 * behind its left one's end. */
#include "model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem/hakmem.h"
#include "pattern.h"

void model_violated(const struct interpreter *run, const char *format, ...) {
    fprintf(stderr, "model: operation %llu: ", (unsigned long long)run->operations);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

/* How many live blocks start below an address. */
static size_t rank_of(const struct interpreter *run, const unsigned char *start) {
    size_t low = 0;
    size_t high = run->live_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (run->by_address[middle]->start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(struct interpreter *run, struct block *slot) {
    size_t rank = rank_of(run, slot->start);
    const struct block *left = rank > 0 ? run->by_address[rank - 1] : NULL;
    const struct block *right = rank < run->live_count ? run->by_address[rank] : NULL;
    if (left != NULL && left->start + left->usable > slot->start)
        model_violated(run, "block %p overlaps block %p of %zu bytes before it",
                       (void *)slot->start, (void *)left->start, left->usable);
    if (right != NULL && slot->start + slot->usable > right->start)
        model_violated(run, "block %p of %zu bytes overlaps block %p behind it",
                       (void *)slot->start, slot->usable, (void *)right->start);
    memmove(&run->by_address[rank + 1], &run->by_address[rank],
            (run->live_count - rank) * sizeof(struct block *));
    run->by_address[rank] = slot;
    run->live_count++;
}

static void count(struct interpreter *run, const struct block *block, bool added) {
    if (block->usable >= HUGE_BYTES)
        run->huge_count += added ? 1 : (size_t)-1;
    else
        run->live_bytes += added ? block->usable : 0 - block->usable;
}

void model_add(struct interpreter *run, struct block *slot, struct block block) {
    if (block.asked > PTRDIFF_MAX)
        model_violated(run, "a block of %zu bytes, over PTRDIFF_MAX", block.asked);
    if ((uintptr_t)block.start % block.alignment != 0)
        model_violated(run, "block %p of %zu bytes is not aligned to %zu", (void *)block.start,
                       block.asked, block.alignment);
    block.usable = hak_malloc_usable_size(block.start);
    if (block.usable < block.asked)
        model_violated(run, "block %p: %zu bytes asked for, %zu usable", (void *)block.start,
                       block.asked, block.usable);
    block.tag = random_next(&run->tag_seed);
    *slot = block;
    insert(run, slot);
    count(run, slot, true);
    pattern_fill(slot->start, slot->usable, slot->tag);
    run->blocks_taken++;
}

void model_check(const struct interpreter *run, const struct block *block, size_t checked) {
    size_t fault = pattern_find_fault(block->start, block->usable, checked, block->tag);
    if (fault != SIZE_MAX)
        model_violated(run, "block %p of %zu bytes (%zu usable) was changed at offset %zu",
                       (void *)block->start, block->asked, block->usable, fault);
}

struct block model_remove(struct interpreter *run, struct block *slot) {
    struct block block = *slot;
    size_t rank = rank_of(run, slot->start);
    run->live_count--;
    memmove(&run->by_address[rank], &run->by_address[rank + 1],
            (run->live_count - rank) * sizeof(struct block *));
    count(run, slot, false);
    *slot = (struct block){0};
    return block;
}

void model_refused(struct interpreter *run, size_t bytes, size_t alignment) {
    if (errno != ENOMEM)
        model_violated(run, "%zu bytes refused with errno %d, not ENOMEM", bytes, errno);
    bool is_beyond_means = bytes >= HUGE_BYTES || alignment >= HUGE_BYTES;
    if (!run->expects_refusals && !is_beyond_means)
        model_violated(run, "%zu bytes at alignment %zu refused for no reason", bytes, alignment);
    run->refusals++;
}
