#include "population.h"

#include <string.h>

#include "os/system.h"
#include "slab/slab.h"
#include "support.h"

struct population held;
static uint64_t seed = 7;

int start_population(void **state) {
    (void)state;
    start_layers("shards=2", 512 * MIB);
    return 0;
}

void fill_block(void *block) {
    memset(block, (int)((uintptr_t)block >> 4 & 0x7f) + 1, class_size(held.class));
}

bool is_filled(const void *block) {
    const unsigned char *bytes = block;
    unsigned char mark = (unsigned char)(((uintptr_t)block >> 4 & 0x7f) + 1);
    for (size_t i = 0; i < class_size(held.class); i++) {
        if (bytes[i] != mark)
            return false;
    }
    return true;
}

void take_many(unsigned shard, size_t size) {
    held.class = class_of(size);
    unsigned most =
        (unsigned)hak_min((size_t)POPULATION_MOST, POPULATION_BYTES / class_size(held.class));
    for (held.count = 0; held.count < most;)
        held.count +=
            slab_take(shard, held.class, held.blocks + held.count, most - held.count, NULL);
    for (unsigned i = 0; i < held.count; i++)
        fill_block(held.blocks[i]);
}

void give(unsigned i) {
    void *block = held.blocks[i];
    held.blocks[i] = NULL;
    slab_give(held.class, &block, 1);
}

void give_most(unsigned kept) {
    for (unsigned i = 0; i < held.count; i++) {
        if (random_below(&seed, kept) != 0)
            give(i);
    }
}

void give_rest(void) {
    for (unsigned i = 0; i < held.count; i++) {
        if (held.blocks[i] != NULL)
            give(i);
    }
    slab_trim();
    assert_int_equal(slab_stats(held.class).slab_bytes, 0);
    assert_int_equal(slab_stats(held.class).taken, slab_stats(held.class).given);
    span_purge_all(); /* the next slabs are zero again */
}

static bool is_live(const char *page) {
    const char *end = page + os_page_size();
    for (unsigned i = 0; i < held.count; i++) {
        const char *block = held.blocks[i];
        if (block != NULL && block < end && block + class_size(held.class) > page)
            return true;
    }
    return false;
}

struct pages look_at_pages(void) {
    struct pages pages = {0};
    const struct span *seen[POPULATION_BYTES / SLAB_BYTES + 1] = {NULL};
    for (unsigned i = 0; i < held.count; i++) {
        const struct span *span = held.blocks[i] != NULL ? span_of(held.blocks[i]) : NULL;
        if (held.blocks[i] != NULL)
            assert_true(is_filled(held.blocks[i]));
        unsigned at_seen = 0;
        while (span != NULL && seen[at_seen] != NULL && seen[at_seen] != span)
            at_seen++;
        if (span == NULL || seen[at_seen] == span)
            continue;
        seen[at_seen] = span;
        size_t used_bytes = span->capacity * class_size(held.class);
        pages.tail_bytes += span_bytes(span) - used_bytes;
        for (size_t at = 0; at < used_bytes; at += os_page_size()) {
            bool live = is_live(span->start + at);
            bool resident = os_resident_pages(span->start + at, os_page_size()) != 0;
            assert_true(resident || !live);
            pages.dead_bytes += resident && !live ? os_page_size() : 0;
        }
    }
    return pages;
}

size_t assert_purge(void) {
    struct pages before = look_at_pages();
    size_t bytes = slab_purge_pages();
    assert_true(bytes >= before.dead_bytes);
    if (kernel_populates())
        assert_true(bytes <= before.dead_bytes + before.tail_bytes);
    assert_int_equal(look_at_pages().dead_bytes, 0);
    assert_int_equal(slab_purge_pages(), 0);
    return bytes;
}
