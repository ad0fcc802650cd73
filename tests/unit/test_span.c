/* Spans: random takes, gives, resizes and purges of several shards against a
 * model that knows who owns each slab of the window. test_span_policy.c has the
 * policies. */
#include "support.h"

#include "os/calls.h"
#include "os/memory.h"
#include "os/system.h"
#include "span/arena.h"
#include "span/span.h"

enum {
    WINDOW_SLABS = 4096, /* 256 MiB */
    SHARDS = 4,
    SPANS_MAX = 200,
    OPERATIONS = 6000,
    PAGE = 4096,
    PROBE_STEP = SLAB_BYTES / 4,
};

struct taken {
    struct span *span;
    char *start;
    size_t slabs;
    enum span_state state;
    uint64_t tag;
};

static struct taken spans[SPANS_MAX];
static size_t span_count;
static uint64_t owner[WINDOW_SLABS]; /* tag of the span that has the slab; 0: nobody */
static uint64_t seed = 1;

static int start(void **state) {
    (void)state;
    start_layers("shards=8", (size_t)WINDOW_SLABS * SLAB_BYTES);
    return 0;
}

/* --- the model ------------------------------------------------------------------- */

static uint64_t *probe(const struct taken *taken, size_t offset) {
    return (uint64_t *)(void *)(taken->start + offset);
}

/* A word at some places of each slab; nothing but its span may change them. */
static void write_tags(const struct taken *taken, size_t from_slab) {
    for (size_t at = from_slab * SLAB_BYTES; at < taken->slabs * SLAB_BYTES; at += PROBE_STEP)
        *probe(taken, at) = taken->tag ^ at;
}

static void check_tags(const struct taken *taken) {
    for (size_t at = 0; at < taken->slabs * SLAB_BYTES; at += PROBE_STEP)
        assert_int_equal(*probe(taken, at), taken->tag ^ at);
}

/* Whether a word of each page and the tags' places are zero. */
static bool reads_as_zero(const struct taken *taken) {
    for (size_t at = 0; at < taken->slabs * SLAB_BYTES; at += PAGE) {
        if (*probe(taken, at) != 0 || *probe(taken, at + PAGE - 8) != 0)
            return false;
    }
    return true;
}

static void own(const struct taken *taken, size_t from_slab) {
    size_t first = window_slab_index(taken->start);
    for (size_t i = from_slab; i < taken->slabs; i++) {
        assert_int_equal(owner[first + i], 0);
        owner[first + i] = taken->tag;
    }
}

static void disown(const struct taken *taken, size_t from_slab) {
    size_t first = window_slab_index(taken->start);
    for (size_t i = from_slab; i < taken->slabs; i++) {
        assert_int_equal(owner[first + i], taken->tag);
        owner[first + i] = 0;
    }
}

static void check_descriptor(const struct taken *taken) {
    assert_ptr_equal(taken->span->start, taken->start);
    assert_int_equal(span_bytes(taken->span), taken->slabs * SLAB_BYTES);
    size_t offset = random_below(&seed, taken->slabs * SLAB_BYTES);
    assert_ptr_equal(span_of(taken->start), taken->span);
    assert_ptr_equal(span_of(taken->start + offset), taken->span);
    assert_ptr_equal(span_of(taken->start + taken->slabs * SLAB_BYTES - 1), taken->span);
}

static bool take(unsigned shard, size_t slabs, size_t alignment, enum span_state state) {
    bool is_zero = false;
    struct span_request request = {
        .slabs = slabs,
        .slabs_least = slabs,
        .alignment = alignment,
        .state = state,
        .pages = SPAN_USED,
    };
    struct span *span = span_take(shard, &request, &is_zero);
    if (span == NULL)
        return false;
    struct taken *taken = &spans[span_count++];
    *taken = (struct taken){span, span->start, slabs, state, random_next(&seed) | 1};
    assert_true(window_contains(taken->start));
    assert_true(window_contains(taken->start + slabs * SLAB_BYTES - 1));
    assert_int_equal((uintptr_t)taken->start % (alignment * SLAB_BYTES), 0);
    own(taken, 0);
    check_descriptor(taken);
    if (is_zero)
        assert_true(reads_as_zero(taken));
    write_tags(taken, 0);
    return true;
}

static void give(size_t index) {
    struct taken taken = spans[index];
    check_descriptor(&taken);
    check_tags(&taken);
    disown(&taken, 0);
    if (taken.state == SPAN_LARGE)
        assert_true(span_give_large(taken.span, taken.start));
    else
        span_give(taken.span);
    spans[index] = spans[--span_count];
    struct span *now = span_of(taken.start);
    assert_true(now == NULL || now->start != taken.start);
}

static void give_all(void) {
    while (span_count != 0)
        give(span_count - 1);
}

static void resize(size_t index, size_t slabs) {
    struct taken *taken = &spans[index];
    size_t old = taken->slabs;
    bool done = span_resize(taken->span, slabs);
    assert_true(done || slabs > old); /* shorter always works */
    if (done && slabs < old) {
        disown(taken, slabs);
        taken->slabs = slabs;
    } else if (done) {
        taken->slabs = slabs;
        own(taken, old);
        write_tags(taken, old);
    }
    check_descriptor(taken);
    check_tags(taken);
}

/* Mostly short ones, as slabs are; some over several SuperSlabs. */
static size_t random_slabs(void) {
    switch (random_below(&seed, 8)) {
    case 0:
        return 1 + random_below(&seed, 100);
    case 1:
        return SUPER_SLABS * (1 + random_below(&seed, 3));
    case 2:
        return 1 + random_below(&seed, SUPER_SLABS);
    default:
        return 1 + random_below(&seed, 4);
    }
}

static void random_step(void) {
    size_t choice = random_below(&seed, 100);
    if (choice < 45 && span_count < SPANS_MAX) {
        size_t alignment = (size_t)1 << (random_below(&seed, 4) == 0 ? random_below(&seed, 8) : 0);
        enum span_state state = random_below(&seed, 2) == 0 ? SPAN_TAKEN : SPAN_LARGE;
        take((unsigned)random_below(&seed, SHARDS), random_slabs(), alignment, state);
    } else if (choice < 85 && span_count > 0) {
        give(random_below(&seed, span_count));
    } else if (choice < 98 && span_count > 0) {
        size_t index = random_below(&seed, span_count);
        if (spans[index].state == SPAN_LARGE)
            resize(index, random_slabs());
    } else if (choice == 98) {
        span_purge_all();
    } else {
        span_decay((unsigned)random_below(&seed, SHARDS), os_now_ms());
    }
}

static void test_random_operations(void **state) {
    (void)state;
    for (int i = 0; i < OPERATIONS; i++)
        random_step();
    give_all();
}

/* The same while some calls into the kernel fail. */
static void test_random_operations_refused(void **state) {
    (void)state;
    for (int i = 0; i < OPERATIONS / 10; i++) {
        refuse_after((int)random_below(&seed, OS_CALL_KINDS + 1), (unsigned)random_below(&seed, 4));
        for (int j = 0; j < 5; j++)
            random_step();
        allow_all();
        random_step();
    }
    give_all();
}

static void test_nothing_is_left(void **state) {
    (void)state;
    span_purge_all();
    struct span_stats stats = span_stats();
    assert_int_equal(stats.large_count, 0);
    assert_int_equal(stats.large_bytes, 0);
    assert_int_equal(stats.large_taken, stats.large_given);
    assert_int_equal(stats.free_bytes, stats.super_count * SUPER_BYTES);
    assert_int_equal(stats.free_bytes + arena_stats().free_bytes, arena_stats().committed_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_random_operations_refused),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
