/* Pages: what reserve, commit, purge and the others promise, asked of the kernel,
 * and that each of them can be refused. */
#include "support.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/calls.h"
#include "os/memory.h"
#include "os/metadata.h"

enum { PAGES = 64 };

static size_t page;

static int start(void **state) {
    (void)state;
    start_os("");
    page = os_page_size();
    return 0;
}

/* Whether a byte may be read, asked of the kernel, which says EFAULT. */
static bool is_readable(const void *address) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    /* By number: sanitizers would look at the address first. */
    bool readable = syscall(SYS_write, pipes[1], address, 1L) == 1;
    close(pipes[0]);
    close(pipes[1]);
    return readable;
}

static void assert_zero(const unsigned char *start, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(start[i], 0);
}

static size_t resident_pages(void *start, size_t pages) {
    unsigned char map[PAGES];
    assert_int_equal(mincore(start, pages * page, map), 0);
    size_t count = 0;
    for (size_t i = 0; i < pages; i++)
        count += map[i] & 1;
    return count;
}

static void test_page_size(void **state) {
    (void)state;
    assert_int_equal(os_page_size(), sysconf(_SC_PAGESIZE));
}

static void test_choice_of_addresses(void **state) {
    (void)state;
    assert_int_equal(os_may_choose_addresses(), !HAK_TSAN);
}

static void test_reserve_commit_purge(void **state) {
    (void)state;
    unsigned char *space = os_reserve(PAGES * page);
    assert_non_null(space);
    assert_false(is_readable(space));
    assert_true(os_commit(space + page, 8 * page));
    assert_false(is_readable(space));
    assert_false(is_readable(space + 9 * page));
    assert_zero(space + page, 8 * page);
    memset(space + page, 1, 8 * page);
    assert_int_equal(resident_pages(space + page, 8), 8);
    assert_true(os_purge(space + 3 * page, 2 * page));
    assert_int_equal(resident_pages(space + page, 8), 6);
    assert_int_equal(space[3 * page - 1], 1);
    assert_zero(space + 3 * page, 2 * page);
    assert_int_equal(space[5 * page], 1);
    os_unmap(space, PAGES * page);
    assert_false(is_readable(space + page));
}

static void test_reserve_at(void **state) {
    (void)state;
    char *space = os_reserve(4 * page);
    assert_int_equal(os_reserve_at(space + page, page), OS_OCCUPIED);
    os_unmap(space + page, page);
    assert_int_equal(os_reserve_at(space + page, page), OS_RESERVED);
    assert_int_equal(os_reserve_at(space, 4 * page), OS_OCCUPIED);
    os_unmap(space, 4 * page);
}

/* Locked memory cannot be purged, and the caller is told so. */
static void test_purge_of_locked_memory(void **state) {
    (void)state;
    unsigned char *start = os_map_aligned(page, 1);
    memset(start, 9, page);
    /* By number: sanitizers make mlock do nothing. */
    assert_int_equal(syscall(SYS_mlock, start, page), 0);
    errno = 33;
    assert_false(os_purge(start, page));
    assert_int_equal(errno, 33);
    assert_int_equal(start[0], 9);
    assert_int_equal(syscall(SYS_munlock, start, page), 0);
    assert_true(os_purge(start, page));
    assert_zero(start, page);
    os_unmap(start, page);
}

/* A kernel before Linux 5.14 knows no MADV_POPULATE_WRITE. In front of the C library's. */
static bool is_old_kernel;
int madvise(void *start, size_t bytes, int advice) {
    enum { POPULATE_WRITE = 23 };
    if (is_old_kernel && advice == POPULATE_WRITE) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

static void assert_populates(void) {
    unsigned char *start = os_map_aligned(PAGES * page, 1);
    errno = 55;
    assert_true(os_populate(start + page, 8 * page));
    assert_int_equal(errno, 55);
    assert_int_equal(resident_pages(start + page, 8), 8);
    assert_int_equal(resident_pages(start, PAGES), 8);
    assert_zero(start, PAGES * page);
    os_unmap(start, PAGES * page);
}

static void test_populate(void **state) {
    (void)state;
    assert_populates();
    unsigned char *start = os_map_aligned(page, 1);
    refuse_kind(OS_CALL_POPULATE);
    assert_false(os_populate(start, page));
    allow_all();
    os_unmap(start, page);
    /* No memory there: an error, and nothing is touched. */
    assert_false(os_populate(start, page));
    is_old_kernel = true;
    assert_populates();
    is_old_kernel = false;
}

static void test_tables(void **state) {
    (void)state;
    unsigned char *table = os_map_table(PAGES * page);
    assert_non_null(table);
    assert_zero(table, PAGES * page);
    assert_true(os_table_make_writable(table + page, page));
    table[page] = 1;
    assert_int_equal(table[page], 1);
    assert_zero(table + 2 * page, page);
    os_unmap(table, PAGES * page);
}

static void test_alignments(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= GIB; alignment *= 2) {
        unsigned char *start = os_map_aligned(3 * page, alignment);
        assert_non_null(start);
        assert_int_equal((uintptr_t)start % alignment, 0);
        assert_int_equal((uintptr_t)start % page, 0);
        start[0] = start[3 * page - 1] = 1;
        os_unmap(start, 3 * page);
    }
    assert_null(os_map_aligned(PTRDIFF_MAX / page * page, GIB));
}

static void test_remap(void **state) {
    (void)state;
    unsigned char *start = os_map_aligned(4 * page, 1);
    memset(start, 5, 4 * page);
    unsigned char *larger = os_remap(start, 4 * page, PAGES * page);
    assert_non_null(larger);
    for (size_t i = 0; i < 4 * page; i++)
        assert_int_equal(larger[i], 5);
    assert_zero(larger + 4 * page, (PAGES - 4) * page);
    unsigned char *smaller = os_remap(larger, PAGES * page, page);
    assert_ptr_equal(smaller, larger);
    assert_false(is_readable(larger + page));
    os_unmap(smaller, page);
}

/* Every function whose call is refused says so, changes nothing and keeps errno. */
static void test_refusals(void **state) {
    (void)state;
    unsigned char *space = os_reserve(4 * page);
    unsigned char *table = os_map_table(page);
    unsigned char *mapped = os_map_aligned(page, 1);
    mapped[0] = 1;
    errno = 44;
    refuse_kind(OS_CALL_KINDS);
    assert_null(os_reserve(page));
    assert_int_equal(os_reserve_at(space, page), OS_REFUSED);
    assert_false(os_commit(space, page));
    assert_null(os_map_table(page));
    assert_false(os_table_make_writable(table, page));
    assert_null(os_map_aligned(page, 1));
    assert_null(os_map_aligned(page, MIB));
    assert_null(os_remap(mapped, page, 2 * page));
    assert_false(os_purge(mapped, page));
    assert_int_equal(mapped[0], 1);
    allow_all();
    assert_int_equal(errno, 44);
    assert_false(is_readable(space));
    assert_true(os_commit(space, page));
    os_unmap(space, 4 * page);
    os_unmap(table, page);
    os_unmap(mapped, page);
}

/* The kernel itself refuses what nobody has. */
static void test_real_refusals(void **state) {
    (void)state;
    size_t too_much = (size_t)1 << 62;
    errno = 55;
    assert_null(os_reserve(too_much));
    assert_null(os_map_aligned(too_much, 1));
    assert_null(os_map_table(too_much));
    assert_int_equal(errno, 55);
}

static void test_counts(void **state) {
    (void)state;
    uint64_t before[OS_CALL_KINDS];
    for (unsigned kind = 0; kind < OS_CALL_KINDS; kind++)
        before[kind] = os_call_count(kind);
    char *space = os_reserve(page);
    os_commit(space, page);
    os_purge(space, page);
    os_purge(space, page);
    os_unmap(space, page);
    assert_int_equal(os_call_count(OS_CALL_RESERVE) - before[OS_CALL_RESERVE], 1);
    assert_int_equal(os_call_count(OS_CALL_COMMIT) - before[OS_CALL_COMMIT], 1);
    assert_int_equal(os_call_count(OS_CALL_PURGE) - before[OS_CALL_PURGE], 2);
    assert_int_equal(os_call_count(OS_CALL_UNMAP) - before[OS_CALL_UNMAP], 1);
    assert_int_equal(os_call_count(OS_CALL_REMAP) - before[OS_CALL_REMAP], 0);
}

/* --- descriptors ------------------------------------------------------------------ */

static void test_metadata(void **state) {
    (void)state;
    enum { PIECES = 3000 };
    static unsigned char *pieces[PIECES];
    size_t sizes[] = {1, 64, 65, 1000, 5000, 300000};
    size_t taken = os_metadata_bytes();
    for (unsigned i = 0; i < PIECES; i++) {
        /* The largest, which is more than a chunk, only now and then. */
        size_t bytes = sizes[i % 500 == 0 ? 5 : i % 5];
        pieces[i] = os_metadata_take(bytes);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % HAK_CACHE_LINE, 0);
        assert_zero(pieces[i], bytes);
        memset(pieces[i], 0xff, bytes); /* would show in a later piece */
        taken += align_up(bytes, HAK_CACHE_LINE);
    }
    assert_int_equal(os_metadata_bytes(), taken);
}

/* Whether nobody can have the page, because somebody has it already. */
static bool is_kept_free(unsigned char *place) {
    void *got = mmap(place, os_page_size(), PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return got != place && !is_readable(place);
}

/* What follows a chunk may not be touched, nor what comes before it. */
static void test_metadata_is_fenced(void **state) {
    (void)state;
    size_t bytes = 1 << 20;
    unsigned char *piece = os_metadata_take(bytes);
    assert_true(is_readable(piece + bytes - 1));
    assert_true(is_kept_free(piece + bytes));
    assert_true(is_kept_free(piece - os_page_size()));
}

static void test_metadata_refused(void **state) {
    (void)state;
    int kinds[] = {OS_CALL_RESERVE, OS_CALL_COMMIT};
    for (unsigned i = 0; i < 2; i++) {
        size_t before = os_metadata_bytes();
        refuse_kind(kinds[i]);
        assert_null(os_metadata_take(2 << 20));
        allow_all();
        assert_int_equal(os_metadata_bytes(), before);
        assert_non_null(os_metadata_take(2 << 20));
    }
}

/* A chunk is two mappings, and there are few to be had: 400 MiB of descriptors, which is
 * 40 GiB of heap, in a few chunks. What will not be written to is not counted as used. */
static void test_metadata_in_few_chunks(void **state) {
    (void)state;
    uint64_t chunks = os_call_count(OS_CALL_RESERVE);
    size_t taken = os_metadata_bytes(), used = os_metadata_used_bytes();
    for (unsigned i = 0; i < 20 * 1024; i++)
        assert_non_null(os_metadata_take_sparse(20 * KIB, KIB));
    assert_int_equal(os_metadata_bytes() - taken, 400 * MIB);
    assert_int_equal(os_metadata_used_bytes() - used, 20 * MIB);
    assert_in_range(os_call_count(OS_CALL_RESERVE) - chunks, 1, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_size),
        cmocka_unit_test(test_choice_of_addresses),
        cmocka_unit_test(test_reserve_commit_purge),
        cmocka_unit_test(test_reserve_at),
        cmocka_unit_test(test_purge_of_locked_memory),
        cmocka_unit_test(test_populate),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_remap),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_real_refusals),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_metadata_is_fenced),
        cmocka_unit_test(test_metadata_refused),
        cmocka_unit_test(test_metadata_in_few_chunks),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
