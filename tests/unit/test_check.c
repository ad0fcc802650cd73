/* Each check of the heap is awake: one thing at a time is made wrong from inside, the check of its
 * layer must name it, and is content again when it is as it was. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "cache/bins.h"
#include "os/memory.h"
#include "os/options.h"
#include "span/arena.h"
#include "span/large.h"
#include "span/limits.h"
#include "span/shard.h"

enum { SMALL = 48, MID = 5000, BLOCKS = 3000 };

/* --- a heap with something of everything -------------------------------------------------------
 */

static void *small_blocks[BLOCKS];
static char *within; /* a large block inside one SuperSlab */
static char *longer; /* one over several, the last of them in part */
static char *huge_blocks[2];
static struct thread *thread;

static void *take_large(size_t bytes) {
    bool is_zero;
    void *block = large_take(0, bytes, 1, 0, &is_zero);
    assert_non_null(block);
    memset(block, 1, hak_min(bytes, 4 * MIB));
    return block;
}

static void fill_small(void) {
    unsigned class = class_of(SMALL);
    for (unsigned got = 0; got < BLOCKS;)
        got += slab_take(0, class, small_blocks + got, BLOCKS - got, NULL);
    for (unsigned i = 0; i < BLOCKS; i += 3)
        slab_give(class, &small_blocks[i], 1);
}

/* Every bin it opens holds some blocks, one of them foreign. */
static void fill_thread(void) {
    thread = registry_add();
    assert_non_null(thread);
    void *blocks[20];
    for (unsigned i = 0; i < 20; i++)
        blocks[i] = cache_take(thread, class_of(SMALL));
    for (unsigned i = 0; i < 20; i++)
        cache_give(thread, window_entry(blocks[i]), blocks[i]);
    for (unsigned i = 0; i < 3; i++) {
        void *foreign;
        assert_int_equal(slab_take(1 - thread->shard, class_of(MID), &foreign, 1, NULL), 1);
        cache_give(thread, window_entry(foreign), foreign);
        assert_int_equal(slab_take(1 - thread->shard, class_of(SMALL) + 1, &foreign, 1, NULL), 1);
        cache_give(thread, window_entry(foreign), foreign);
    }
}

static int start(void **state) {
    (void)state;
    start_layers("shards=2", 512 * MIB);
    fill_small();
    within = take_large((size_t)24 * SLAB_BYTES);
    longer = take_large((size_t)2 * SUPER_BYTES + (size_t)5 * SLAB_BYTES);
    void *freed = take_large((size_t)3 * SUPER_BYTES);
    take_large((size_t)20 * SLAB_BYTES); /* a SuperSlab that stays behind the run */
    large_give(freed);
    for (int i = 0; i < 2; i++)
        assert_non_null(huge_blocks[i] = huge_take(GIB, 1));
    fill_thread();
    return 0;
}

/* --- what a check says ---------------------------------------------------------------------------
 */

typedef bool a_check(struct finding *finding);

static bool spans(struct finding *finding) { return span_check(finding, true); }
static bool spans_beside_others(struct finding *finding) { return span_check(finding, false); }
static bool slabs(struct finding *finding) { return slab_check(finding, true); }
static bool slabs_beside_others(struct finding *finding) { return slab_check(finding, false); }
static bool bins(struct finding *finding) { return cache_check(thread, finding); }

static void assert_whole(a_check *check) {
    struct finding finding = {0};
    if (!check(&finding))
        fail_msg("nothing is wrong, but it says: %s", finding.text);
}

static void assert_finds(a_check *check, const char *text) {
    struct finding finding = {0};
    assert_false(check(&finding));
    if (strstr(finding.text, text) == NULL)
        fail_msg("expected '%s' in: %s", text, finding.text);
}

/* With a place made wrong the check finds it; and nothing afterwards. */
#define ASSERT_FINDS(check, place, wrong, text)                                                    \
    do {                                                                                           \
        __typeof__(place) right_ = (place);                                                        \
        (place) = (wrong);                                                                         \
        assert_finds(check, text);                                                                 \
        (place) = right_;                                                                          \
        assert_whole(check);                                                                       \
    } while (0)

static void test_whole_heap(void **state) {
    (void)state;
    assert_whole(spans);
    assert_whole(spans_beside_others);
    assert_whole(slabs);
    assert_whole(slabs_beside_others);
    assert_whole(bins);
    assert_whole(registry_check);
}

/* --- spans
 * ------------------------------------------------------------------------------------------ */

static struct super *super_of(const void *pointer) {
    return window_super(window_super_index(pointer));
}

static struct span_shard *shard_of(const struct super *super) { return &span_shards[super->shard]; }

static uint32_t lowest_free(const struct super *super) {
    assert_int_not_equal(super->free, 0);
    return super->free & -super->free;
}

static void test_slabs_of_a_super(void **state) {
    (void)state;
    struct super *super = super_of(within);
    struct span *span = span_of(within);
    uint32_t used = slab_mask(super_index_of_slab(super, within), 1);
    ASSERT_FINDS(spans, super->free, super->free | used, "is free and in a span");
    uint32_t free_slab = lowest_free(super);
    super->zero &= ~free_slab;
    super->free &= ~free_slab;
    assert_finds(spans, "is neither free nor in a span");
    super->free |= free_slab;
    super->zero |= free_slab;
    ASSERT_FINDS(spans, super->zero, super->zero | used, "are untouched, of 0x");
    ASSERT_FINDS(spans, super->blank, used, "are blank, of 0x");
    ASSERT_FINDS(spans, super->committed, false, "without memory");
    ASSERT_FINDS(spans, super->heads, super->heads & ~used, "its head bit is 0");
    ASSERT_FINDS(spans, super->heads, super->heads | free_slab, "its head bit is 1");
    ASSERT_FINDS(spans, span->state, SPAN_FREE, "its head bit is 1");
    ASSERT_FINDS(spans, span->state, 9, "be in state 9");
    ASSERT_FINDS(spans, span->start, span->start + SLAB_BYTES, "is said to start at");
    ASSERT_FINDS(spans, span->slabs, 0, "to have 0 slabs");
    ASSERT_FINDS(spans, span->slabs, span->slabs - 1, "is neither free nor in a span");
    struct span *first = &super->spans[bit_lowest(super->heads)];
    assert_ptr_not_equal(first, span);
    ASSERT_FINDS(spans, first->slabs, first->slabs + 20, "overlaps the span before it");
}

static void test_long_spans(void **state) {
    (void)state;
    struct span *span = span_of(longer);
    struct super *middle = super_of(longer + SUPER_BYTES);
    struct super *last = super_of(longer + (size_t)2 * SUPER_BYTES);
    assert_int_equal(middle->home, SUPER_IN_RUN);
    assert_int_equal(last->home, SUPER_IN_SHARD);
    ASSERT_FINDS(spans, middle->free, 4, "reaches into SuperSlab");
    ASSERT_FINDS(spans, middle->home, SUPER_IN_ARENA, "reaches into SuperSlab");
    ASSERT_FINDS(spans, middle->heads, 1, "but has spans or free slabs");
    ASSERT_FINDS(spans, middle->zero, 1, "but has spans or free slabs");
    ASSERT_FINDS(spans, span->slabs, span->slabs - 1, "is neither free nor in a span");
    ASSERT_FINDS(spans_beside_others, span->slabs, span->slabs + 1, "overlaps the span before");
    ASSERT_FINDS(spans, span->slabs, UINT16_MAX, "ends outside the window");
    ASSERT_FINDS(spans, last->shard, 1 - last->shard, "reaches into SuperSlab");
}

static void test_lists_of_a_shard(void **state) {
    (void)state;
    struct super *super = super_of(within);
    struct span_shard *shard = shard_of(super);
    unsigned free = bit_count(super->free);
    assert_true(free > 0 && !list_is_empty(&super->link));
    list_remove(&super->link);
    assert_finds(spans, "is on the wrong lists");
    list_push_front(&shard->by_free[free + 1], &super->link);
    assert_finds(spans, "does not hold the 1 that there are");
    list_remove(&super->link);
    list_push_front(&shard->by_free[free], &super->link);
    assert_whole(spans);
    ASSERT_FINDS(spans, super->link.previous, &super->dirty_link, "list of SuperSlabs with");
    ASSERT_FINDS(spans, super->link.next, NULL, "list of SuperSlabs with");
    ASSERT_FINDS(spans, shard->occupied, shard->occupied ^ 1u << free, "list of SuperSlabs with");
    list_push_front(&shard->dirty, &super->dirty_link);
    assert_finds(spans, "is on the wrong lists"); /* none of its free slabs is dirty */
    list_remove(&super->dirty_link);
    assert_whole(spans);
    /* One that is dirty, but not where it says. */
    struct super *last = super_of(longer + (size_t)2 * SUPER_BYTES);
    uint32_t zero = last->zero;
    last->zero &= ~lowest_free(last);
    last->dirty_link.next = last->dirty_link.previous = &shard->dirty;
    assert_finds(spans, "list of dirty SuperSlabs does not hold the");
    list_init(&last->dirty_link);
    last->zero = zero;
    assert_whole(spans);
}

static void test_sums_of_a_shard(void **state) {
    (void)state;
    struct span_shard *shard = shard_of(super_of(within));
    ASSERT_FINDS(spans, shard->super_count, 77, "77 SuperSlabs noted, but there are");
    ASSERT_FINDS(spans, shard->warm_count, 77, "77 free SuperSlabs noted");
    ASSERT_FINDS(spans, shard->dirty_slabs, 77, "77 dirty slabs noted");
    ASSERT_FINDS(spans, shard->large_count, 77, "77 large blocks noted");
    ASSERT_FINDS(spans, shard->large_given, 77, "77 large blocks given back noted");
    ASSERT_FINDS(spans, shard->large_bytes, 77, "77 bytes of large blocks noted");
}

#define ASSERT_FINDS_ENTRY(check, pointer, entry, text)                                            \
    ASSERT_FINDS(check, window_map[window_slab_index(pointer)], entry, text)

static void test_map(void **state) {
    (void)state;
    uint16_t small = slab_entry(0, class_of(SMALL));
    uint16_t large = entry_make(0, BIN_LARGE);
    struct super *super = super_of(within);
    char *free_slab = super->start + (size_t)bit_lowest(super->free) * SLAB_BYTES;
    ASSERT_FINDS_ENTRY(spans_beside_others, free_slab, small, "is free, but its map entry says");
    ASSERT_FINDS_ENTRY(spans_beside_others, within, small, "is a large block's, but its map");
    ASSERT_FINDS_ENTRY(spans_beside_others, longer + SUPER_BYTES, small, "is a large block's, but");
    ASSERT_FINDS_ENTRY(spans, within, 0, "that no block starts there");
    ASSERT_FINDS_ENTRY(spans, within + SLAB_BYTES, large, "that one does");
    /* Their taker may be about to write them. */
    window_map[window_slab_index(within)] = 0;
    assert_whole(spans_beside_others);
    window_map[window_slab_index(within)] = large;
}

/* Last of all, for it takes a SuperSlab from the arena. */
static void test_map_of_guarded_blocks(void **state) {
    (void)state;
    uint16_t small = slab_entry(0, class_of(SMALL));
    struct span_request request = {
        .slabs = 1, .slabs_least = 1, .alignment = 1, .state = SPAN_GUARDED, .pages = SPAN_USED};
    bool is_zero;
    struct span *guarded = span_take(span_guard_shard(), &request, &is_zero);
    assert_non_null(guarded);
    window_map[window_slab_index(guarded->start)] = entry_make(0, BIN_GUARD);
    assert_whole(spans);
    ASSERT_FINDS_ENTRY(spans, guarded->start, small, "is a guarded block's, but its map entry");
    window_map[window_slab_index(guarded->start)] = 0;
    span_give(guarded);
    assert_whole(spans);
}

static struct super *super_in_arena(bool is_dirty) {
    for (size_t i = arena_known(0); i < window_super_count(); i = arena_known(i + 1)) {
        struct super *super = window_super(i);
        if (super != NULL && super->home == SUPER_IN_ARENA && super->committed &&
            list_is_empty(&super->dirty_link) != is_dirty)
            return super;
    }
    fail_msg("no SuperSlab in the arena is %s", is_dirty ? "dirty" : "clean");
    return NULL;
}

static void test_arena(void **state) {
    (void)state;
    struct super *super = super_in_arena(true);
    ASSERT_FINDS(spans, super->free, super->free & ~1u, "not all of its slabs are free");
    ASSERT_FINDS(spans, super->heads, 1, "not all of its slabs are free");
    ASSERT_FINDS(spans, super->home, SUPER_IN_RUN, "is at home in place 2 and free");
    ASSERT_FINDS(spans, super->home, 3, "is at home in place 3");
    ASSERT_FINDS(spans, super->start, super->start + 1, "said to start at");
    ASSERT_FINDS(spans, super->committed, false, "is on the dirty list");
    ASSERT_FINDS(spans, super->zero, ALL_SLABS, "is on the dirty list");
    ASSERT_FINDS(spans, super->zero, super->zero ^ 1, "bytes of heap are counted");
    ASSERT_FINDS(spans, super->dirty_link.previous, &super->link, "list of dirty SuperSlabs");
    ASSERT_FINDS_ENTRY(spans, super->start, slab_entry(1, 9), "is free, but its map entry says");
    struct super *on_its_way = arena_take(1, 1);
    assert_whole(spans_beside_others); /* to somebody who commits or adopts it */
    size_t index = window_super_index(on_its_way->start);
    ASSERT_FINDS(spans_beside_others, window_supers[index], NULL, "noted, but there are");
    arena_give(on_its_way, 0);
    assert_whole(spans);
}

static void test_committed_count(void **state) {
    (void)state;
    struct super *super = super_in_arena(true);
    span_purge_all();
    assert_whole(spans);
    super->zero = 0; /* as one without memory has it */
    ASSERT_FINDS(spans_beside_others, super->committed, false, "committed noted, but there are");
    super->zero = ALL_SLABS;
    assert_whole(spans);
}

static void test_heap_bytes(void **state) {
    (void)state;
    assert_true(limits_charge(SLAB_BYTES));
    assert_finds(spans, "bytes of heap are counted, but there are");
    assert_whole(spans_beside_others); /* one may be about to take a slab */
    limits_discharge(SLAB_BYTES);
    assert_whole(spans);
}

struct entry {
    char *start;
    size_t bytes;
};

/* Of memory that is anybody's, which sanitizers do not like. */
__attribute__((no_sanitize("address", "thread"))) static bool is_huge_table(const void *page) {
    const struct entry *entry = page;
    char *lower = hak_min(huge_blocks[0], huge_blocks[1]);
    return entry->start == lower && entry->bytes == GIB;
}

/* The table is a mapping of its own, which nothing outside huge.c leads to. */
static struct entry *find_huge_table(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    char line[512];
    char *table = NULL;
    while (table == NULL && fgets(line, sizeof line, maps) != NULL) {
        char *low, *high;
        char access[8];
        bool is_read = sscanf(line, "%p-%p %7s", (void **)&low, (void **)&high, access) == 3;
        if (!is_read || strcmp(access, "rw-p") != 0 || high - low > (ptrdiff_t)(64 * MIB))
            continue;
        for (char *at = low; at < high && table == NULL; at += os_page_size())
            table = is_huge_table(at) ? at : NULL;
    }
    fclose(maps);
    return (struct entry *)(void *)table;
}

static void test_huge_table(void **state) {
    (void)state;
    struct entry *table = find_huge_table();
    if (table == NULL) {
        skip();
        return;
    }
    ASSERT_FINDS(spans, table[0].bytes, GIB + 1, "is not made of whole pages");
    ASSERT_FINDS(spans, table[0].bytes, 0, "is not made of whole pages");
    ASSERT_FINDS(spans, table[1].start, table[0].start, "overlaps or precedes huge block");
    ASSERT_FINDS(spans, table[0].bytes, GIB - os_page_size(), "huge blocks: 2 of");
}

/* --- slabs
 * ------------------------------------------------------------------------------------------ */

static struct pool *pool_of(const struct span *span) {
    return &pools[span->home >> 8][span->home & 0xff];
}

static struct span *partial_slab(void) {
    struct span *span = span_of(small_blocks[1]);
    assert_true(span->free_count > 0 && span->free_count < span->capacity);
    return span;
}

static void test_shape_of_a_slab(void **state) {
    (void)state;
    struct span *span = partial_slab();
    ASSERT_FINDS(slabs, span->state, SPAN_LARGE, "no span in use starts there (state 2)");
    ASSERT_FINDS(slabs, span->start, span->start + 16, "no span in use starts there");
    struct super *super = super_of(span->start);
    ASSERT_FINDS(slabs, super->heads, 0, "no span in use starts there");
    ASSERT_FINDS(slabs, span->slabs, 20, "20 slabs");
    ASSERT_FINDS(slabs, span->capacity, 20, "20 blocks");
    ASSERT_FINDS(slabs, span->free_bits, span->free_bits + 1, "its bitmap is not where it must be");
    /* One on no list. */
    void *block;
    assert_int_equal(slab_take(0, class_of(MIB), &block, 1, NULL), 1);
    struct span *full = span_of(block);
    assert_int_equal(full->free_count, 0);
    ASSERT_FINDS(slabs, full->home, 250, "is said to be of bin 250");
    ASSERT_FINDS(slabs, full->home, full->home + 0x200, "in shard 2");
    ASSERT_FINDS(slabs, full->fill_rank, 0, "is on list 0, but on none");
    slab_give(class_of(MIB), &block, 1);
}

static void test_bits_of_a_slab(void **state) {
    (void)state;
    struct span *span = partial_slab();
    uint64_t *bits = span->free_bits;
    assert_int_not_equal(span->capacity % WORD_BITS, 0);
    uint64_t *last = &bits[span->capacity / WORD_BITS];
    ASSERT_FINDS(slabs, span->free_count, span->free_count + 1, "free blocks noted, but");
    ASSERT_FINDS(slabs, bits[0], bits[0] & (bits[0] - 1), "bits are set");
    span->free_count++;
    pool_of(span)->free_blocks++;
    *last ^= UINT64_C(1) << 63;
    assert_finds(slabs, "blocks behind the last, number");
    *last ^= UINT64_C(1) << 63;
    pool_of(span)->free_blocks--;
    span->free_count--;
}

static void test_marks_of_a_slab(void **state) {
    (void)state;
    struct span *span = partial_slab();
    struct super *super = super_of(span->start);
    size_t first = (size_t)(span - super->spans);
    assert_true(span->first_word == 0 && span->touched == span->capacity);
    ASSERT_FINDS(slabs, span->first_word, 2, "word 2 of its bitmap is said to be the first");
    ASSERT_FINDS(slabs, span->touched, span->capacity / 2, "but said never to have been");
    ASSERT_FINDS(slabs, span->touched, span->capacity + 1, "but said never to have been");
    span->has_purged = true;
    ASSERT_FINDS(slabs, super->purged[first], 2, "a page marked as purged has blocks in use");
    span->has_purged = false;
    ASSERT_FINDS(slabs, super->populated[first], 1000, "a page marked as purged");
    ASSERT_FINDS_ENTRY(slabs, span->start, 0, "its map entry says row 0, bin 0");
    uint16_t other_class = slab_entry(0, class_of(SMALL) + 1);
    ASSERT_FINDS_ENTRY(slabs, span->start, other_class, "its map entry says row");
}

/* A page of free blocks, marked, but nobody would look at the mark. */
static void test_forgotten_mark(void **state) {
    (void)state;
    unsigned class = class_of(MID);
    void *block;
    assert_int_equal(slab_take(0, class, &block, 1, NULL), 1);
    struct span *span = span_of(block);
    struct super *super = super_of(block);
    size_t last_slab = (size_t)(span - super->spans) + span->slabs - 1;
    span->has_purged = true;
    super->purged[last_slab] = 1;
    assert_whole(slabs);
    ASSERT_FINDS(slabs, span->has_purged, false, "a page marked as purged");
    super->purged[last_slab] = 0;
    span->has_purged = false;
    slab_give(class, &block, 1);
}

static void test_lists_of_a_pool(void **state) {
    (void)state;
    struct span *span = partial_slab();
    struct pool *pool = pool_of(span);
    struct pool *other = &pools[0][class_of(SMALL) + 1];
    unsigned rank = span->fill_rank;
    void *block; /* opens the other pool */
    assert_int_equal(slab_take(0, class_of(SMALL) + 1, &block, 1, NULL), 1);
    assert_true(rank < FILL_RANKS && other->is_open);
    ASSERT_FINDS(slabs, span->fill_rank, FILL_UNLISTED, "is on list");
    ASSERT_FINDS(slabs, span->settles_at, 0, "is to be settled at 0");
    ASSERT_FINDS(slabs, span->link.next, NULL, "is broken, or longer than");
    ASSERT_FINDS(slabs, span->link.previous, &span->link, "is broken, or longer than");
    list_remove(&span->link);
    assert_finds(slabs, "noted, but there are");
    pool->partial_count--;
    pool->free_blocks -= span->free_count;
    assert_finds(slabs, "but on none");
    pool->partial_count++;
    pool->free_blocks += span->free_count;
    list_push_front(&pool->partial[(rank + 1) % FILL_RANKS], &span->link);
    assert_finds(slabs, "is on list");
    list_remove(&span->link);
    list_push_front(&other->partial[rank], &span->link);
    pool->partial_count--;
    other->partial_count++;
    pool->free_blocks -= span->free_count;
    assert_finds(slabs, "is on list");
    list_remove(&span->link);
    list_push_front(&pool->partial[rank], &span->link);
    pool->partial_count++;
    other->partial_count--;
    pool->free_blocks += span->free_count;
    slab_give(class_of(SMALL) + 1, &block, 1);
    assert_whole(slabs);
}

static void test_sums_of_a_pool(void **state) {
    (void)state;
    struct pool *pool = pool_of(partial_slab());
    pool->free_blocks++;
    assert_finds(slabs, "free blocks noted, but there are");
    pool->free_blocks--;
    ASSERT_FINDS(slabs, pool->partial_count, pool->partial_count + 1, "slabs with");
    ASSERT_FINDS(slabs, pool->slab_count, 77, "slabs noted, but there are");
    pool->slab_count += 77;
    assert_whole(slabs_beside_others);
    pool->slab_count -= 77;
}

/* --- bins
 * -------------------------------------------------------------------------------------------- */

static struct bin_info *small_info(void) { return &thread->infos[class_of(SMALL)]; }

static void test_own_bins(void **state) {
    (void)state;
    struct bin_info *info = small_info();
    struct bin *bin = &thread->own->bins[class_of(SMALL)];
    assert_true(bin->top >= info->base + 2 && bin->limit == info->base + info->capacity);
    ASSERT_FINDS(bins, bin->top, info->base - 1, "its top is");
    ASSERT_FINDS(bins, bin->top, info->base + info->capacity + 1, "its top is");
    ASSERT_FINDS(bins, bin->limit, bin->limit + 1, "its limit");
    ASSERT_FINDS(bins, info->base[0], small_blocks[1], "its array");
    ASSERT_FINDS(bins, info->base, small_blocks, "is none");
    ASSERT_FINDS(bins, info->kind, SLOT_ARRAY_KINDS, "is none");
    ASSERT_FINDS(bins, info->capacity, 600, "is none");
    ASSERT_FINDS(bins, info->base, NULL, "closed, but with blocks");
    ASSERT_FINDS(bins, thread->limit_bytes, 1, "1 noted");
    bin->limit = NULL; /* as another thread may do */
    assert_whole(bins);
    bin->limit = info->base + info->capacity;
}

static void test_blocks_in_bins(void **state) {
    (void)state;
    void **base = small_info()->base;
    char *block = base[1];
    ASSERT_FINDS(bins, base[2], block, "is in a bin twice");
    ASSERT_FINDS(bins, base[2], small_blocks[0], "is in a bin and free");
    ASSERT_FINDS(bins, base[2], block + 16, "is no block of that class");
    ASSERT_FINDS(bins, base[2], within, "is no block of that class");
    ASSERT_FINDS(bins, base[2], NULL, "is no block of that class");
    ASSERT_FINDS(bins, base[2], &base, "is no block of that class");
    assert_whole(slabs); /* the marks are gone */
}

static void test_foreign_bins(void **state) {
    (void)state;
    unsigned class = class_of(SMALL) + 1;
    unsigned row = 1 - thread->shard;
    struct bin *bin = &thread->cache.rows[row].bins[class];
    assert_non_null(bin->top);
    void **base = bin->top - 3;
    assert_null(*base);
    ASSERT_FINDS(bins, bin->top, bin->limit + 1, "its top is");
    ASSERT_FINDS(bins, bin->top, small_blocks, "its top is");
    ASSERT_FINDS(bins, bin->limit, bin->limit - 1, "its limit");
    ASSERT_FINDS(bins, bin->limit, NULL, "its limit");
    ASSERT_FINDS(bins, thread->foreign_rows, 0, "its top is");
    ASSERT_FINDS(bins, base[1], base[2], "is in a bin twice");
    struct bin *none = &thread->cache.rows[5].bins[BIN_NONE];
    ASSERT_FINDS(bins, none->limit, bin->limit, "is of no size class, but open");
    none = &thread->cache.rows[0].bins[BIN_LARGE];
    ASSERT_FINDS(bins, none->limit, bin->limit, "is of no size class, but open");
}

static void test_free_slots(void **state) {
    (void)state;
    void **array = slots_take(thread, 1);
    assert_non_null(array);
    slots_give(thread, array, 1);
    assert_whole(bins);
    ASSERT_FINDS(bins, thread->free_arrays[1], small_blocks, "are none of this thread's");
    ASSERT_FINDS(bins, array[0], array, "are none of this thread's"); /* round and round */
}

static void test_registry(void **state) {
    (void)state;
    ASSERT_FINDS(registry_check, thread->shard, 2, "is not its own");
    ASSERT_FINDS(registry_check, thread->cache.thread, NULL, "is not its own");
    ASSERT_FINDS(registry_check, thread->link.previous, NULL, "list 0 of threads is broken");
    /* Whole in itself, but the shards have counted otherwise. */
    struct row *own = thread->own;
    thread->shard = 1 - thread->shard;
    thread->own = &thread->cache.rows[thread->shard];
    assert_finds(registry_check, "threads noted, but there are");
    thread->shard = 1 - thread->shard;
    thread->own = own;
    assert_whole(registry_check);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_heap),      cmocka_unit_test(test_slabs_of_a_super),
        cmocka_unit_test(test_long_spans),      cmocka_unit_test(test_lists_of_a_shard),
        cmocka_unit_test(test_sums_of_a_shard), cmocka_unit_test(test_map),
        cmocka_unit_test(test_arena),           cmocka_unit_test(test_heap_bytes),
        cmocka_unit_test(test_huge_table),      cmocka_unit_test(test_shape_of_a_slab),
        cmocka_unit_test(test_bits_of_a_slab),  cmocka_unit_test(test_marks_of_a_slab),
        cmocka_unit_test(test_forgotten_mark),  cmocka_unit_test(test_lists_of_a_pool),
        cmocka_unit_test(test_sums_of_a_pool),  cmocka_unit_test(test_own_bins),
        cmocka_unit_test(test_blocks_in_bins),  cmocka_unit_test(test_foreign_bins),
        cmocka_unit_test(test_free_slots),      cmocka_unit_test(test_registry),
        cmocka_unit_test(test_committed_count), cmocka_unit_test(test_map_of_guarded_blocks),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
