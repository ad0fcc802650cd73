/* Huge pages: what the kernel's files say, which SuperSlabs ask for them, and that these
 * go back to the kernel as a whole. */
#include "support.h"

#include <string.h>

#include "os/calls.h"
#include "os/huge_pages.h"
#include "os/options.h"
#include "span/arena.h"
#include "span/limits.h"
#include "span/span.h"

/* --- the kernel's files ---------------------------------------------------------- */

struct file {
    const char *name, *text;
};

static const struct file *kernel;

static bool read_file(const char *name, char *text, size_t capacity) {
    for (const struct file *file = kernel; file->name != NULL; file++) {
        if (strcmp(file->name, name) == 0) {
            assert_true(strlen(file->text) < capacity);
            strcpy(text, file->text);
            return true;
        }
    }
    return false;
}

#define ALWAYS "[always] madvise never\n"
#define MADVISE "always [madvise] never\n"
#define NEVER "always madvise [never]\n"
#define SIZE_ALWAYS "[always] inherit madvise never\n"
#define SIZE_INHERIT "always [inherit] madvise never\n"
#define SIZE_MADVISE "always inherit [madvise] never\n"
#define SIZE_NEVER "always inherit madvise [never]\n"
#define TABLE(bytes)                                                                               \
    { "hpage_pmd_size", bytes "\n" }
#define SIZE(kib, text)                                                                            \
    { "hugepages-" kib "kB/enabled", text }

static const struct {
    struct file files[8];
    size_t page, expected;
} kernels[] = {
    /* None, or not to be read. */
    {{{NULL, NULL}}, 4096, 0},
    {{{"enabled", "nonsense"}, TABLE("2097152")}, 4096, 0},
    {{{"enabled", ""}, TABLE("")}, 4096, 0},
    /* Before Linux 6.8: one size. */
    {{{"enabled", ALWAYS}, TABLE("2097152")}, 4096, 2 * MIB},
    {{{"enabled", MADVISE}, TABLE("2097152")}, 4096, 2 * MIB},
    {{{"enabled", NEVER}, TABLE("2097152")}, 4096, 0},
    /* AArch64 with pages of 64 KiB: a table's page is larger than a SuperSlab. */
    {{{"enabled", ALWAYS}, TABLE("536870912")}, 65536, 0},
    /* Single sizes. */
    {{{"enabled", MADVISE}, TABLE("2097152"), SIZE("2048", SIZE_INHERIT), SIZE("64", SIZE_NEVER)},
     4096,
     2 * MIB},
    {{{"enabled", NEVER}, TABLE("2097152"), SIZE("2048", SIZE_INHERIT), SIZE("64", SIZE_INHERIT)},
     4096,
     0},
    {{{"enabled", NEVER}, TABLE("2097152"), SIZE("2048", SIZE_MADVISE), SIZE("64", SIZE_MADVISE)},
     4096,
     2 * MIB},
    {{{"enabled", MADVISE}, TABLE("2097152"), SIZE("2048", SIZE_NEVER), SIZE("64", SIZE_MADVISE)},
     4096,
     64 * KIB},
    {{{"enabled", NEVER},
      TABLE("2097152"),
      SIZE("2048", SIZE_INHERIT),
      SIZE("512", SIZE_INHERIT),
      SIZE("128", SIZE_ALWAYS),
      SIZE("16", SIZE_MADVISE)},
     4096,
     128 * KIB},
    {{{"enabled", MADVISE}, TABLE("536870912"), SIZE("2048", SIZE_INHERIT)}, 65536, 2 * MIB},
    /* What is no larger than a page is none. */
    {{{"enabled", NEVER}, TABLE("2097152"), SIZE("16", SIZE_ALWAYS)}, 16384, 0},
};

static void test_what_the_kernel_gives(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        kernel = kernels[i].files;
        size_t bytes = huge_page_bytes(read_file, kernels[i].page, 2 * MIB);
        if (bytes != kernels[i].expected)
            fail_msg("kernel %zu: %zu bytes, not %zu", i, bytes, kernels[i].expected);
    }
    kernel = kernels[3].files;
    assert_int_equal(huge_page_bytes(read_file, 4096, MIB), 0);
}

/* --- SuperSlabs -------------------------------------------------------------------- */

static struct span *take(unsigned shard, size_t slabs) {
    struct span_request request = {
        .slabs = slabs,
        .slabs_least = slabs,
        .alignment = 1,
        .state = SPAN_TAKEN,
        .pages = SPAN_USED,
    };
    bool is_zero;
    struct span *span = span_take(shard, &request, &is_zero);
    assert_non_null(span);
    return span;
}

static struct super *super_of(const struct span *span) {
    return window_super(window_super_index(span->start));
}

/* A heap that asks for them once it is large enough. */
static void test_asked_for_when_large(void **state) {
    (void)state;
    struct span *spans[40];
    size_t from = options_profile()->thp_from_bytes / SUPER_BYTES;
    assert_true(from > 0 && from < 30);
    for (size_t i = 0; i < from; i++) {
        spans[i] = take(0, SUPER_SLABS);
        assert_false(super_of(spans[i])->wants_huge);
    }
    bool gives = os_huge_page_bytes(SUPER_BYTES) != 0;
    uint64_t reserved = os_call_count(OS_CALL_RESERVE);
    uint64_t advised = os_call_count(OS_CALL_ADVISE);
    for (size_t i = from; i < 40; i++) {
        spans[i] = take(0, SUPER_SLABS);
        assert_int_equal(super_of(spans[i])->wants_huge, gives);
    }
    /* A reservation is one that is left out of core files. */
    reserved = os_call_count(OS_CALL_RESERVE) - reserved;
    advised = os_call_count(OS_CALL_ADVISE) - advised;
    assert_int_equal(advised, reserved + (gives ? 40 - from : 0));
    for (int i = 0; i < 40; i++)
        span_give(spans[i]);
    span_purge_all();
}

static size_t dirty_bytes(void) { return span_stats().dirty_bytes + arena_stats().dirty_bytes; }

/* As if the kernel gave huge pages, whatever it does. */
static struct super *made_huge(struct span *span) {
    struct super *super = super_of(span);
    super->wants_huge = super->goes_whole = true;
    return super;
}

/* Decay leaves a part alone, takes the whole; a trim takes what it can get. */
static void test_goes_whole(void **state) {
    (void)state;
    /* Where decay leaves nothing that it may take. */
    options_parse("profile=lean");
    span_purge_all();
    struct span *kept = take(1, 1);
    struct span *other = take(1, 4);
    struct super *super = made_huge(kept);
    assert_ptr_equal(super_of(other), super);
    memset(other->start, 1, span_bytes(other));
    span_give(other);
    assert_int_equal(dirty_bytes(), 4 * (size_t)SLAB_BYTES);
    span_decay(1, UINT64_MAX);
    assert_int_equal(dirty_bytes(), 4 * (size_t)SLAB_BYTES);
    span_give(kept);
    uint64_t calls = os_call_count(OS_CALL_PURGE);
    span_decay(1, UINT64_MAX);
    assert_int_equal(dirty_bytes(), 0);
    assert_int_equal(os_call_count(OS_CALL_PURGE), calls + 1);
    assert_int_equal(super->zero, ALL_SLABS);

    kept = take(1, 1);
    other = take(1, 4);
    super = made_huge(kept);
    memset(other->start, 1, span_bytes(other));
    span_give(other);
    span_decay(1, UINT64_MAX);
    assert_int_equal(span_purge_all(), 4 * (size_t)SLAB_BYTES);
    assert_false(super->goes_whole);
    assert_true(super->wants_huge);
    span_give(kept);
    span_purge_all();
}

/* Its untouched slabs count neither as heap nor as purged, also when its pages cannot go:
 * then those that are dirty stay so, and serve again. */
static void test_untouched_slabs_do_not_count(void **state) {
    (void)state;
    /* Which keeps a SuperSlab warm, but fewer dirty slabs than are used here. */
    options_parse("profile=balanced");
    span_purge_all();
    size_t heap = limits_heap_bytes();
    size_t used = 16 * (size_t)SLAB_BYTES;
    for (int fails = 1; fails >= 0; fails--) {
        struct span *span = take(1, 16);
        struct super *super = made_huge(span);
        assert_ptr_equal(span->start, super->start);
        memset(span->start, 1, used);
        assert_int_equal(limits_heap_bytes(), heap + used);
        span_give(span);
        if (fails)
            refuse_kind(OS_CALL_PURGE);
        span_decay(1, UINT64_MAX);
        allow_all();
        assert_int_equal(super->zero, fails ? ALL_SLABS & ~slab_mask(0, 16) : ALL_SLABS);
        assert_int_equal(limits_heap_bytes(), fails ? heap + used : heap);
    }
}

/* Used slabs of a SuperSlab that goes whole serve again. */
static void test_used_slabs_serve(void **state) {
    (void)state;
    struct span *kept = take(1, 1);
    struct super *super = made_huge(kept);
    for (int i = 0; i < 100; i++) {
        struct span *span = take(1, 7);
        assert_ptr_equal(super_of(span), super);
        memset(span->start, 1, span_bytes(span));
        span_give(span);
    }
    span_give(kept);
    span_purge_all();
}

static int start(void **state) {
    (void)state;
    start_layers("shards=2,profile=speed", 256 * MIB);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_kernel_gives),
        cmocka_unit_test(test_asked_for_when_large),
        cmocka_unit_test(test_goes_whole),
        cmocka_unit_test(test_untouched_slabs_do_not_count),
        cmocka_unit_test(test_used_slabs_serve),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
