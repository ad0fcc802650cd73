/* Slabs: random batches taken and given against a model of who has which block,
 * and the policies, each by a scene. test_flush.c has the checks of a flush. */
#include "support.h"

#include <pthread.h>
#include <string.h>

#include "os/calls.h"
#include "os/system.h"
#include "slab/slab.h"
#include "span/large.h"

enum {
    SHARDS = 3,
    SLOTS = 20000,
    BATCH_MAX = 200,
    ROUNDS = 3000,
};

static int start(void **state) {
    (void)state;
    start_layers("shards=3", 512 * MIB);
    return 0;
}

static uint64_t seed = 1;

/* --- random batches ------------------------------------------------------------------------ */

/* The blocks in use, of a few classes that differ in everything. */
static unsigned class_choices[8];
enum { CHOICES = sizeof class_choices / sizeof class_choices[0] };

struct held {
    void **blocks;
    size_t count;
};
static struct held held[CHOICES];

static void choose_classes(void) {
    static const size_t sizes[CHOICES] = {16, 48, 128, 1000, 4096, 22528, 100000, 1 << 20};
    for (unsigned c = 0; c < CHOICES; c++) {
        static void *blocks[CHOICES][SLOTS];
        class_choices[c] = class_of(sizes[c]);
        held[c].blocks = blocks[c];
    }
}

/* The first and the last word of a block say whose it is. */
static void sign(void *block, size_t size) {
    uint64_t mark = (uintptr_t)block ^ size;
    memcpy(block, &mark, sizeof mark);
    memcpy((char *)block + size - sizeof mark, &mark, sizeof mark);
}

static void assert_signed(const void *block, size_t size) {
    uint64_t mark = (uintptr_t)block ^ size;
    assert_memory_equal(block, &mark, sizeof mark);
    assert_memory_equal((const char *)block + size - sizeof mark, &mark, sizeof mark);
}

static void assert_is_block(const void *block, unsigned shard, unsigned class) {
    struct span *span = span_of(block);
    assert_non_null(span);
    size_t offset = (size_t)((const char *)block - span->start);
    assert_int_equal(offset % class_size(class), 0);
    assert_true(offset + class_size(class) <= span_bytes(span));
    assert_int_equal(window_entry(block), slab_entry(shard, class));
    assert_int_equal(window_entry((const char *)block + class_size(class) - 1),
                     slab_entry(shard, class));
}

static void take_batch(unsigned choice) {
    unsigned class = class_choices[choice];
    unsigned shard = (unsigned)random_below(&seed, SHARDS);
    unsigned most = class_size(class) > 10000 ? 5 : BATCH_MAX;
    unsigned want = 1 + (unsigned)random_below(&seed, most);
    struct held *mine = &held[choice];
    if (mine->count + want > (class_size(class) > 10000 ? 50 : SLOTS))
        return;
    void **out = mine->blocks + mine->count;
    unsigned got = slab_take(shard, class, out, want, NULL);
    assert_in_range(got, 1, want);
    for (unsigned i = 0; i < got; i++) {
        assert_is_block(out[i], shard, class);
        sign(out[i], class_size(class));
    }
    mine->count += got;
}

static void take_one(unsigned choice) {
    unsigned class = class_choices[choice];
    unsigned shard = (unsigned)random_below(&seed, SHARDS);
    struct held *mine = &held[choice];
    if (mine->count + 1 > (class_size(class) > 10000 ? 50 : SLOTS))
        return;
    bool is_zero = false;
    unsigned char *block = slab_take_one(shard, class, &is_zero);
    assert_non_null(block);
    assert_is_block(block, shard, class);
    for (size_t i = 0; is_zero && i < class_size(class); i++)
        assert_int_equal(block[i], 0);
    sign(block, class_size(class));
    mine->blocks[mine->count++] = block;
}

/* Blocks from anywhere, or those taken last, in either direction: neighbours, mostly. */
static void give_batch(unsigned choice, size_t most) {
    unsigned class = class_choices[choice];
    struct held *mine = &held[choice];
    void *batch[BATCH_MAX];
    unsigned count = (unsigned)hak_min(hak_min(mine->count, most), (size_t)BATCH_MAX);
    unsigned order = (unsigned)random_below(&seed, 3);
    for (unsigned i = 0; i < count; i++) {
        size_t from = order == 0 ? random_below(&seed, mine->count) : mine->count - 1;
        void *block = mine->blocks[from];
        assert_signed(block, class_size(class));
        batch[order == 2 ? count - 1 - i : i] = block;
        mine->blocks[from] = mine->blocks[--mine->count];
    }
    slab_give(class, batch, count);
}

static void assert_stats(void) {
    for (unsigned c = 0; c < CHOICES; c++) {
        struct class_stats stats = slab_stats(class_choices[c]);
        assert_int_equal(stats.taken - stats.given, held[c].count);
        assert_true(stats.slab_bytes >= held[c].count * class_size(class_choices[c]));
    }
}

static void random_round(void) {
    unsigned choice = (unsigned)random_below(&seed, CHOICES);
    switch (random_below(&seed, 16)) {
    case 0:
        slab_trim();
        break;
    case 1:
    case 2:
    case 3:
        take_one(choice);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        take_batch(choice);
        break;
    default:
        give_batch(choice, 1 + random_below(&seed, BATCH_MAX));
        break;
    }
}

/* No block is handed out twice: each was signed, and a second owner would sign
 * over it with blocks of another size, or find it in its list twice. */
static void assert_distinct(void) {
    for (unsigned c = 0; c < CHOICES; c++) {
        for (size_t i = 0; i < held[c].count; i++) {
            assert_signed(held[c].blocks[i], class_size(class_choices[c]));
            memset(held[c].blocks[i], 0, sizeof(uint64_t));
        }
        for (size_t i = 0; i < held[c].count; i++)
            sign(held[c].blocks[i], class_size(class_choices[c]));
    }
}

static void give_everything(void) {
    for (unsigned c = 0; c < CHOICES; c++) {
        while (held[c].count != 0)
            give_batch(c, BATCH_MAX);
    }
    slab_trim();
    for (unsigned c = 0; c < CHOICES; c++)
        assert_int_equal(slab_stats(class_choices[c]).slab_bytes, 0);
}

static void test_random_batches(void **state) {
    (void)state;
    choose_classes();
    for (int round = 0; round < ROUNDS; round++) {
        random_round();
        if (round % 100 == 0) {
            assert_distinct();
            assert_stats();
        }
    }
    give_everything();
}

/* The same while some calls into the kernel fail: fewer blocks, or none. */
static void test_out_of_memory(void **state) {
    (void)state;
    void *out[BATCH_MAX];
    unsigned class = class_of(100000);
    static void *hoard[20000];
    size_t count = 0;
    refuse_kind(OS_CALL_KINDS);
    bool is_zero;
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        unsigned got;
        while ((got = slab_take(shard, class, out, 8, NULL)) != 0) {
            for (unsigned i = 0; i < got; i++)
                hoard[count++] = out[i];
            assert_true(count < 10000);
        }
        assert_null(slab_take_one(shard, class, &is_zero));
    }
    allow_all();
    assert_int_equal(slab_take(0, class, out, 1, NULL), 1);
    hoard[count++] = out[0];
    slab_give(class, hoard, (unsigned)count);
    struct class_stats stats = slab_stats(class);
    assert_int_equal(stats.taken, stats.given);
}

/* --- policies ---------------------------------------------------------------------------- */

static void *take(unsigned shard, unsigned class) {
    void *block;
    assert_int_equal(slab_take(shard, class, &block, 1, NULL), 1);
    return block;
}

static void give(unsigned class, void *block) { slab_give(class, &block, 1); }

/* Popped from the end, a batch of a fresh slab is handed out in ascending order. */
static void test_ascending(void **state) {
    (void)state;
    void *out[100];
    unsigned class = class_of(80);
    assert_int_equal(slab_take(0, class, out, 100, NULL), 100);
    for (int i = 1; i < 100; i++)
        assert_ptr_equal(out[i - 1], (char *)out[i] + class_size(class));
    slab_give(class, out, 100);
}

/* Of two slabs with room the fuller one is used, so that the other can drain. */
static void test_fullest_slab(void **state) {
    (void)state;
    unsigned class = class_of(512);
    unsigned capacity = size_classes[class].capacity;
    void *blocks[400] = {NULL};
    unsigned got = 0;
    while (got < 2 * capacity)
        got += slab_take(0, class, blocks + got, 2 * capacity - got, NULL);
    struct span *sparse = span_of(blocks[0]);
    for (unsigned i = 0; i < got; i++) {
        /* The first slab keeps a tenth of its blocks, the others nine tenths. */
        bool is_kept = (i % 10 == 0) == (span_of(blocks[i]) == sparse);
        if (!is_kept) {
            give(class, blocks[i]);
            blocks[i] = NULL;
        }
    }
    void *next = take(0, class);
    assert_ptr_not_equal(span_of(next), sparse);
    give(class, next);
    for (unsigned i = 0; i < got; i++) {
        if (blocks[i] != NULL)
            give(class, blocks[i]);
    }
}

/* A shard that needs a slab takes over one that another hardly uses. */
static void test_adopts_sparse(void **state) {
    (void)state;
    unsigned class = class_of(640);
    void *first = take(0, class);
    size_t slab_bytes = slab_stats(class).slab_bytes;
    uint64_t begin_ms = os_now_ms();
    void *second = take(2, class);
    assert_int_equal(slab_stats(class).slab_bytes, slab_bytes);
    assert_ptr_equal(span_of(first), span_of(second));
    assert_int_equal(window_entry(first), slab_entry(2, class));
    /* What it has just adopted, its only one, it keeps: the other shard takes another. */
    void *third = take(0, class);
    if (os_now_ms() - begin_ms < 100) {
        assert_int_equal(slab_stats(class).slab_bytes, slab_bytes + SLAB_BYTES);
        assert_int_equal(window_entry(first), slab_entry(2, class));
        assert_int_equal(window_entry(third), slab_entry(0, class));
    }
    give(class, third);
    /* The first block's way home leads to the new shard. */
    give(class, first);
    give(class, second);
    assert_int_equal(slab_stats(class).taken, slab_stats(class).given);
}

/* Some seconds later it may be adopted again. */
static void test_adopts_again(void **state) {
    (void)state;
    unsigned class = class_of(672);
    void *first = take(0, class);
    void *second = take(2, class);
    unsigned stretch = pools[2][class].adopted_in;
    pools[2][class].adopted_in = (stretch > 63 ? stretch - 32 : stretch + 32) & 0x7f;
    void *third = take(0, class);
    assert_int_equal(window_entry(first), slab_entry(0, class));
    assert_ptr_equal(span_of(third), span_of(first));
    give(class, first);
    give(class, second);
    give(class, third);
}

/* One batch may hold blocks of several shards. */
static void test_mixed_batch(void **state) {
    (void)state;
    unsigned class = class_of(768);
    unsigned capacity = size_classes[class].capacity;
    void *blocks[3 * BATCH_MAX];
    unsigned count = 0;
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        unsigned until = count + hak_min(capacity, (unsigned)BATCH_MAX);
        while (count < until)
            count += slab_take(shard, class, blocks + count, until - count, NULL);
    }
    for (unsigned i = 0; i < count; i++) { /* shuffled */
        size_t other = random_below(&seed, count);
        void *swapped = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = swapped;
    }
    slab_give(class, blocks, count);
    assert_int_equal(slab_stats(class).taken, slab_stats(class).given);
}

/* A class's first slab takes pages as it needs them; once one is used up, the next may
 * as well be one whose pages are there. Its capacity is that of its length. */
static void test_pages_of_slabs(void **state) {
    (void)state;
    slab_trim();
    span_purge_all();
    unsigned other = class_of(2048);
    enum { USED = 3 * 32 }; /* 3 slabs: the new class's first may trade 2 for its own */
    void *used[USED];
    for (unsigned got = 0; got < USED;) {
        got += slab_take(1, other, used + got, USED - got, NULL);
    }
    char *low = used[0], *high = used[0];
    for (int i = 0; i < USED; i++) {
        memset(used[i], 1, 2048);
        low = hak_min(low, (char *)used[i]);
        high = hak_max(high, (char *)used[i]);
    }
    slab_give(other, used, USED);
    slab_trim();
    unsigned class = class_of(4480); /* best in spans of 2 slabs */
    void *blocks[200];
    unsigned fresh = 0;
    unsigned first = slab_take(1, class, blocks, 1, &fresh);
    assert_int_equal(first, 1);
    assert_int_equal(fresh, size_classes[class].slabs);
    unsigned count = 1;
    while (span_of(blocks[count - 1]) == span_of(blocks[0]))
        count += slab_take(1, class, blocks + count, 1, &fresh);
    struct span *second = span_of(blocks[count - 1]);
    assert_int_equal(fresh, size_classes[class].slabs);
    assert_in_range(second->slabs, size_classes[class].slabs_least, size_classes[class].slabs - 1);
    assert_int_equal(second->capacity, span_bytes(second) / 4480);
    assert_true(second->start >= low && second->start < high);
    slab_give(class, blocks, count);
    assert_int_equal(slab_stats(class).taken, slab_stats(class).given);
}

static void assert_keeps_first(unsigned class, bool keeps) {
    enum { MOST = 2000 };
    static void *blocks[MOST];
    assert_int_equal(slab_stats(class).slab_bytes, 0);
    unsigned count = 0;
    do
        blocks[count] = take(0, class);
    while (span_of(blocks[count++]) == span_of(blocks[0]) && count < MOST);
    struct span *span = span_of(blocks[0]);
    assert_ptr_equal(blocks[0], span->start + (keeps ? class_size(class) : 0));
    assert_int_equal(count - 1, span->capacity - keeps);
    struct finding finding;
    assert_true(slab_check(&finding, true));
    while (count != 0)
        give(class, blocks[--count]);
    assert_true(slab_stats(class).slab_bytes <= span_bytes(span)); /* one may stay warm */
    slab_trim();
    assert_int_equal(slab_stats(class).slab_bytes, 0);
}

/* In hardened mode, for blocks of which a slab has many; and it goes home all the same. */
static void test_first_blocks_that_are_kept(void **state) {
    (void)state;
    for (hak_options.hardened = 2; hak_options.hardened > 0; hak_options.hardened--) {
        assert_keeps_first(class_of(112), true);
        assert_keeps_first(class_of(1360), true);
        assert_keeps_first(class_of(4096), true);
        assert_keeps_first(class_of(4160), false);
        assert_keeps_first(class_of(32768), false);
    }
    assert_keeps_first(class_of(112), false);
}

/* A slab given back leaves no entries behind. */
static void test_retired_slab(void **state) {
    (void)state;
    unsigned class = class_of(60000); /* several slabs: never kept empty */
    char *block = take(1, class);
    struct span *span = span_of(block);
    char *begin = span->start;
    size_t bytes = span_bytes(span);
    give(class, block);
    slab_trim();
    for (size_t at = 0; at < bytes; at += SLAB_BYTES)
        assert_int_equal(window_entry(begin + at), 0);
    assert_int_equal(slab_stats(class).slab_bytes, 0);
}

/* The only block of a class over a slab has a span for itself, which goes when the block does;
 * those beside it share spans. */
static void test_only_block(void **state) {
    (void)state;
    unsigned class = class_of(150000);
    for (int turn = 0; turn < 100; turn++) {
        char *block = take(1, class);
        assert_int_equal(span_of(block)->slabs, 3);
        assert_int_equal(span_of(block)->capacity, 1);
        give(class, block);
        assert_int_equal(slab_stats(class).slab_bytes, 0);
    }
    char *blocks[] = {take(1, class), take(1, class), take(1, class)};
    assert_true(span_of(blocks[1]) != span_of(blocks[0]));
    assert_ptr_equal(span_of(blocks[1]), span_of(blocks[2]));
    assert_true(span_of(blocks[1])->slabs >= size_classes[class].slabs_least);
    struct finding finding;
    assert_true(slab_check(&finding, true));
    for (int i = 0; i < 3; i++)
        give(class, blocks[i]);
    assert_int_equal(slab_stats(class).slab_bytes, 0);
}

enum { TAKERS = 8, TAKEN_SHARD = 1 };

static void *take_in_thread(void *of_class) {
    void *block = NULL;
    slab_take(TAKEN_SHARD, *(const unsigned *)of_class, &block, 1, NULL);
    return block;
}

/* One thread fetches a slab; those that find none meanwhile have its blocks. */
static void test_many_find_none(void **state) {
    (void)state;
    unsigned class = class_of(2000);
    struct os_lock *growth = slab_growth_lock(TAKEN_SHARD);
    pthread_t takers[TAKERS];
    os_lock_acquire(growth);
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&takers[i], NULL, take_in_thread, &class), 0);
    while (atomic_load(&growth->state) != LOCK_HELD_WITH_WAITERS)
        os_sleep_ms(1);
    os_sleep_ms(20);
    os_lock_release(growth);
    void *blocks[TAKERS];
    for (int i = 0; i < TAKERS; i++) {
        assert_int_equal(pthread_join(takers[i], &blocks[i]), 0);
        assert_non_null(blocks[i]);
    }
    assert_int_equal(slab_stats(class).slab_bytes, size_classes[class].slabs * SLAB_BYTES);
    slab_give(class, blocks, TAKERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ascending),      cmocka_unit_test(test_fullest_slab),
        cmocka_unit_test(test_adopts_sparse),  cmocka_unit_test(test_adopts_again),
        cmocka_unit_test(test_mixed_batch),    cmocka_unit_test(test_retired_slab),
        cmocka_unit_test(test_only_block),     cmocka_unit_test(test_pages_of_slabs),
        cmocka_unit_test(test_random_batches), cmocka_unit_test(test_first_blocks_that_are_kept),
        cmocka_unit_test(test_many_find_none), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
