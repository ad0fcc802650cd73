/* glibc's own additions: mallopt, malloc_trim, mallinfo, mallinfo2, malloc_info
 * and malloc_stats. Programs call them for tuning and for their logs; figures
 * need not be glibc's, but must make sense. The XML of malloc_info is read by a
 * real parser in test_reports.py. */
#include "interface.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void mallopt_takes_all_parameters(void **state) {
    (void)state;
    static const int parameters[][2] = {
        {M_MXFAST, 64},       {M_TRIM_THRESHOLD, 1 << 20},
        {M_TOP_PAD, 1 << 16}, {M_MMAP_THRESHOLD, 1 << 17},
        {M_MMAP_MAX, 1000},   {M_CHECK_ACTION, 1},
        {M_PERTURB, 0},       {M_ARENA_TEST, 2},
        {M_ARENA_MAX, 2},
    };
    for (size_t i = 0; i < TEST_COUNT_OF(parameters); i++)
        assert_int_equal(api.mallopt(parameters[i][0], parameters[i][1]), 1);
    void *block = api.malloc(1 << 18);
    assert_non_null(block);
    memset(block, 1, 1 << 18);
    api.free(block);
}

static void mallopt_changes_nothing(void **state) {
    (void)state;
    /* Under glibc M_MXFAST of this size fails and M_PERTURB fills blocks. */
    errno = EDOM;
    assert_int_equal(api.mallopt(M_MXFAST, 1 << 20), 1);
    assert_int_equal(api.mallopt(M_PERTURB, 0x5a), 1);
    assert_int_equal(api.mallopt(12345, -1), 1);
    assert_int_equal(errno, EDOM);
    char *block = api.calloc(1000, 1);
    assert_true(is_all_zero(block, 1000));
    api.free(block);
}

/* Blocks whose neighbours are all free again, in every class of the heap. */
static void leave_free_memory(size_t total, size_t size) {
    size_t count = total / size;
    void **blocks = api.malloc(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = api.malloc(size);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i++)
        api.free(blocks[i]);
    api.free(blocks);
}

static void malloc_trim_gives_memory_back(void **state) {
    (void)state;
    static const size_t sizes[] = {48, 1000, 20000, 100000, 3 << 20};
    for (size_t i = 0; i < TEST_COUNT_OF(sizes); i++) {
        api.malloc_trim(0);
        size_t before = resident_bytes();
        leave_free_memory(64 * MIB, sizes[i]);
        api.malloc_trim(0);
        /* Thread caches may keep some. */
        if (resident_bytes() > before + 4 * MIB)
            fail_msg("%zu bytes stayed resident after blocks of %zu", resident_bytes() - before,
                     sizes[i]);
    }
}

static void malloc_trim_tells_whether_it_did(void **state) {
    (void)state;
    void *block = api.malloc(30 * MIB);
    memset(block, 1, 30 * MIB);
    leave_free_memory(20 * MIB, 1000);
    errno = EDOM;
    assert_int_equal(api.malloc_trim(0), 1);
    assert_int_equal(api.malloc_trim(0), 0);
    assert_int_equal(errno, EDOM);
    assert_true(((char *)block)[12345] == 1);
    api.free(block);
}

static void mallinfo2_follows_the_program(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static void *blocks[COUNT];
    struct mallinfo2 before = api.mallinfo2();
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = api.malloc(1000);
    struct mallinfo2 full = api.mallinfo2();
    for (size_t i = 0; i < COUNT; i++)
        api.free(blocks[i]);
    struct mallinfo2 after = api.mallinfo2();

    const size_t taken = COUNT * (size_t)1000;
    assert_true(full.uordblks >= before.uordblks + taken);
    assert_true(full.uordblks <= before.uordblks + taken * 5 / 4 + 2 * MIB);
    /* Blocks kept in the thread's cache still count. */
    assert_true(after.uordblks <= before.uordblks + 2 * MIB);
    assert_true(full.arena + full.hblkhd >= full.uordblks);
    assert_int_equal(full.arena, full.uordblks + full.fordblks);
    assert_true(after.keepcost <= after.fordblks);
}

static void mallinfo2_counts_huge_blocks(void **state) {
    (void)state;
    struct mallinfo2 before = api.mallinfo2();
    void *block = api.malloc(5 * GIB);
    assert_non_null(block);
    struct mallinfo2 full = api.mallinfo2();
    api.free(block);
    struct mallinfo2 after = api.mallinfo2();
    assert_true(full.hblkhd >= before.hblkhd + 5 * GIB);
    assert_true(full.hblkhd <= before.hblkhd + 5 * GIB + MIB);
    assert_int_equal(full.hblks, before.hblks + 1);
    assert_int_equal(after.hblkhd, before.hblkhd);
    assert_int_equal(after.hblks, before.hblks);
}

static void mallinfo_saturates(void **state) {
    (void)state;
    void *block = api.malloc(5 * GIB);
    assert_non_null(block);
    struct mallinfo info = api.mallinfo();
    assert_int_equal(info.hblkhd, INT_MAX);
    assert_true(info.arena >= 0 && info.uordblks >= 0 && info.fordblks >= 0 && info.keepcost >= 0);
    api.free(block);
    struct mallinfo2 wide = api.mallinfo2();
    info = api.mallinfo();
    assert_true(info.hblkhd < INT_MAX);
    assert_true(wide.arena > INT_MAX || (size_t)info.arena <= wide.arena + MIB);
    assert_true((size_t)info.arena + MIB >= wide.arena);
}

static void malloc_info_checks_its_options(void **state) {
    (void)state;
    static const int bad[] = {1, -1, 2, INT_MAX, INT_MIN};
    char text[64] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    assert_non_null(stream);
    for (size_t i = 0; i < TEST_COUNT_OF(bad); i++) {
        errno = 0;
        assert_int_equal(api.malloc_info(bad[i], stream), -1);
        assert_int_equal(errno, EINVAL);
    }
    fclose(stream);
    assert_int_equal(strlen(text), 0);
}

static void malloc_info_writes_xml(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    assert_int_equal(api.malloc_info(0, stream), 0);
    fclose(stream);
    assert_true(length > 50);
    assert_int_equal(strncmp(text, "<malloc version=\"1\">", 20), 0);
    assert_non_null(strstr(text, "</malloc>"));
    free(text);
}

static void malloc_stats_writes_to_standard_error(void **state) {
    (void)state;
    int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    assert_true(file >= 0);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    errno = EDOM;
    api.malloc_stats();
    int after = errno;
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(after, EDOM);
    assert_true(lseek(file, 0, SEEK_END) > 50);
    close(file);
}

static const struct abi_test tests[] = {
    {"mallopt takes all parameters", mallopt_takes_all_parameters, NULL},
    {"mallopt changes nothing", mallopt_changes_nothing, "glibc's mallopt has effects"},
    {"malloc_trim gives memory back", malloc_trim_gives_memory_back, NULL},
    {"malloc_trim tells whether it did", malloc_trim_tells_whether_it_did,
     "glibc's second malloc_trim may find a page more"},
    {"mallinfo2 follows the program", mallinfo2_follows_the_program,
     "glibc's arena is one of several, and its keepcost not part of fordblks"},
    {"mallinfo2 counts huge blocks", mallinfo2_counts_huge_blocks, NULL},
    {"mallinfo saturates", mallinfo_saturates, "glibc's mallinfo wraps around"},
    {"malloc_info checks its options", malloc_info_checks_its_options,
     "glibc returns EINVAL, where its manual page and we say -1 and errno"},
    {"malloc_info writes XML", malloc_info_writes_xml, NULL},
    {"malloc_stats writes to standard error", malloc_stats_writes_to_standard_error, NULL},
};

int main(int argc, char **argv) { return abi_main(argc, argv, tests, TEST_COUNT_OF(tests)); }
