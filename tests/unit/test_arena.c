/* The window and the arena of whole SuperSlabs in it. Each scene runs in a child
 * of its own, for a window is set up once in a process. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/calls.h"
#include "os/memory.h"
#include "os/metadata.h"
#include "os/system.h"
#include "refusals.h"
#include "span/arena.h"
#include "span/limits.h"
#include "span/window.h"

enum { GROW_SUPERS = 16 /* the frontier moves by at least so many */ };

/* Bytes, as a size. */
#define SUPER ((size_t)SUPER_BYTES)

/* cmocka cannot fail from a child: a message and an exit code can. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void run_scene(void (*scene)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        start_os("");
        scene();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void open_window(size_t bytes) {
    CHECK(window_init(bytes, 42));
    arena_init();
}

static struct super *take(size_t count, size_t alignment) {
    struct super *super = arena_take(count, alignment);
    CHECK(super != NULL);
    CHECK(window_super_index(super->start) < window_slab_count / SUPER_SLABS);
    for (size_t i = 0; i < count; i++) {
        struct super *part = window_super(window_super_index(super->start) + i);
        CHECK(part != NULL && part->committed && part->free == ALL_SLABS);
        part->start[0] = part->start[SUPER - 1] = 1;
        /* As the span layer does when it hands them out. */
        CHECK(limits_charge(bit_count(part->zero) * (size_t)SLAB_BYTES));
        part->zero = 0;
    }
    return super;
}

static void give(struct super *first, size_t count) {
    for (size_t i = 0; i < count; i++)
        arena_give(window_super(window_super_index(first->start) + i), os_now_ms());
}

/* --- the window ---------------------------------------------------------------------- */

static bool first_refused;
static int first_kind;
static bool refuses_first(enum os_call kind) {
    bool refused = (int)kind == first_kind && !first_refused;
    first_refused |= refused;
    return refused;
}

/* The next call of a kind is refused, not those after it. */
static void refuse_first(int kind) {
    first_refused = false;
    first_kind = kind;
    refuses_call = refuses_first;
}

static void check_window(size_t bytes) {
    CHECK(window_slab_count % SUPER_SLABS == 0);
    CHECK(window_slab_count * SLAB_BYTES <= bytes);
    CHECK((uintptr_t)window_super_address(0) % SUPER == 0);
    CHECK(window_contains(window_super_address(0)));
    CHECK(!window_contains(window_super_address(0) - 1));
    CHECK(!window_contains(NULL));
    char *end = window_super_address(0) + window_slab_count * SLAB_BYTES;
    CHECK(window_contains(end - 1) && !window_contains(end));
    CHECK(window_entry(end - 1) == 0 && window_entry(end) == 0 && window_super(0) == NULL);
}

static void scene_window(void) {
    open_window(3 * GIB + 12345);
    check_window(3 * GIB + 12345);
}

/* No place where it would like to be: the kernel chooses. */
static void scene_window_elsewhere(void) {
    refuse_kind(OS_CALL_RESERVE);
    CHECK(!window_init(GIB, 42));
    CHECK(window_slab_count == 0 && !window_contains(&errno));
    /* 8 tries at random places, then reservations of 1 GiB, 512 MiB, 256 MiB. */
    allow_all();
    open_window(GIB);
    check_window(GIB);
    take(1, 1);
}

static void scene_no_tables(void) {
    refuse_kind(OS_CALL_MAP);
    CHECK(!window_init(GIB, 42));
    allow_all();
    open_window(GIB);
    check_window(GIB);
}

static void scene_entries(void) {
    open_window(GIB);
    take(2, 1);
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        for (unsigned bin = 0; bin < BIN_COUNT; bin++) {
            uint16_t entry = entry_make(row, bin);
            CHECK(entry_row(entry) == row && entry_bin(entry) == bin);
            size_t slab = random_next(&(uint64_t){entry}) % ((size_t)2 * SUPER_SLABS);
            window_entry_set(slab, entry);
            CHECK(window_entry(window_super_address(0) + slab * (size_t)SLAB_BYTES + 77) == entry);
            window_entry_set(slab, 0);
        }
    }
}

static void test_window(void **state) {
    (void)state;
    run_scene(scene_window);
    run_scene(scene_window_elsewhere);
    run_scene(scene_no_tables);
    run_scene(scene_entries);
}

/* --- the arena ----------------------------------------------------------------------- */

/* The smallest run that holds a request, the lowest of equals. */
static void scene_best_fit(void) {
    open_window(GIB);
    struct super *runs[7];
    static const size_t counts[] = {3, 1, 2, 1, 2, 1, 6};
    for (int i = 0; i < 7; i++)
        runs[i] = take(counts[i], 1);
    for (int i = 1; i < 7; i++)
        CHECK(runs[i]->start == runs[i - 1]->start + counts[i - 1] * SUPER);
    give(runs[0], 3);
    give(runs[4], 2);
    give(runs[2], 2);
    CHECK(take(2, 1) == runs[2]);
    CHECK(take(1, 1) == runs[4]);
    CHECK(take(3, 1) == runs[0]);
}

/* Neighbours given back one by one are a run again. */
static void scene_joins(void) {
    open_window(GIB);
    struct super *all = take(GROW_SUPERS, 1);
    size_t reserved = arena_stats().reserved_bytes;
    for (size_t i = 0; i < GROW_SUPERS; i += 2)
        give(window_super(window_super_index(all->start) + i), 1);
    CHECK(take(2, 1) != all);
    for (size_t i = 1; i < GROW_SUPERS; i += 2)
        give(window_super(window_super_index(all->start) + i), 1);
    CHECK(take(GROW_SUPERS, 1) == all);
    CHECK(arena_stats().reserved_bytes <= reserved + GROW_SUPERS * SUPER);
}

static void scene_alignment(void) {
    open_window(4 * GIB);
    for (size_t alignment = 1; alignment <= 256; alignment *= 2) {
        struct super *super = take(3, alignment);
        CHECK((uintptr_t)super->start % (alignment * SUPER) == 0);
    }
}

/* What an alignment skips serves other requests. */
static void scene_skipped(void) {
    open_window(4 * GIB);
    struct super *aligned = NULL;
    for (int try = 0; try < 2; try++) {
        struct super *one = take(1, 1);
        aligned = take(1, 512);
        CHECK((uintptr_t)aligned->start % GIB == 0);
        CHECK(aligned->start > one->start);
    }
    size_t reserved = arena_stats().reserved_bytes;
    CHECK(take(300, 1)->start < aligned->start);
    CHECK(arena_stats().reserved_bytes == reserved);
}

/* Where there is no room for what would be skipped, the block itself is to be had. */
static void scene_skipped_refused(void) {
    open_window(4 * GIB);
    struct super *one = take(1, 1);
    size_t reserved = arena_stats().reserved_bytes;
    refuse_first(OS_CALL_RESERVE);
    struct super *aligned = take(1, 512);
    allow_all();
    CHECK((uintptr_t)aligned->start % GIB == 0 && aligned->start > one->start);
    /* Not refused: the whole window is reserved already, and nobody need ask. */
    if (first_refused)
        CHECK(arena_stats().reserved_bytes <= reserved + GROW_SUPERS * SUPER);
}

static void scene_take_at(void) {
    open_window(GIB);
    struct super *run = take(4, 1);
    size_t index = window_super_index(run->start);
    give(window_super(index + 1), 1);
    give(window_super(index + 2), 1);
    CHECK(!arena_take_at(index, 2));
    CHECK(!arena_take_at(index + 2, 2));
    CHECK(arena_take_at(index + 1, 2));
    CHECK(!arena_take_at(index + 1, 1));
    /* Beyond what has been reserved nothing is free. */
    CHECK(!arena_take_at(window_slab_count / SUPER_SLABS - 1, 1));
    CHECK(!arena_take_at(window_slab_count / SUPER_SLABS - 1, 5));
}

/* What is to be in nobody's way comes from the other end, and goes back there. */
static void scene_apart(void) {
    open_window(GIB);
    size_t end = window_slab_count / SUPER_SLABS;
    struct super *others = take(1, 1);
    struct super *one = arena_take_apart(1);
    CHECK(one != NULL && one->committed && window_super_index(one->start) == end - 1);
    one->start[0] = one->start[SUPER - 1] = 1;
    struct super *two = arena_take_apart(2);
    CHECK(window_super_index(two->start) == end - 3);
    CHECK(arena_known(0) == 0 && arena_known(GROW_SUPERS) == end - 3 && arena_known(end) == end);
    CHECK(arena_known_count() == GROW_SUPERS + 3);
    CHECK(take(GROW_SUPERS - 1, 1) == window_super(window_super_index(others->start) + 1));
    give(one, 1);
    CHECK(arena_stats().free_bytes == SUPER);
    CHECK(arena_take_apart(1) == one);
    CHECK(arena_stats().reserved_bytes == (GROW_SUPERS + 3) * SUPER);
}

static void scene_apart_with_others_in_the_way(void) {
    open_window(GIB);
    size_t end = window_slab_count / SUPER_SLABS;
    char *stone = mmap(window_super_address(end - 2), SUPER, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (stone == MAP_FAILED)
        return; /* the whole window is reserved already: nobody can be in the way */
    for (size_t i = 1; i < 4; i++) {
        struct super *super = arena_take_apart(1);
        CHECK(super != NULL && window_super_index(super->start) == end - i - (i > 1));
    }
}

/* Both ends meet: what lies there serves all. */
static void scene_no_room_apart(void) {
    open_window(64 * MIB);
    size_t count = window_slab_count / SUPER_SLABS;
    take(1, 1);
    size_t taken = 1;
    struct super *super, *last = NULL;
    while ((super = arena_take_apart(1)) != NULL) {
        last = super;
        taken++;
    }
    CHECK(taken == count && last != NULL);
    CHECK(arena_take(1, 1) == NULL && arena_take_apart(1) == NULL);
    CHECK(arena_known_count() == count && arena_known(count - 1) == count - 1);
    give(last, 1);
    CHECK(arena_take(1, 1) == last);
}

/* The window is full: NULL; something comes back: it serves again. */
static void scene_exhaustion(void) {
    open_window(64 * MIB);
    size_t count = window_slab_count / SUPER_SLABS;
    struct super *all[64] = {NULL};
    CHECK(count <= 64);
    size_t taken = 0;
    while ((all[taken] = arena_take(1, 1)) != NULL)
        taken++;
    CHECK(taken == count);
    CHECK(arena_take(2, 1) == NULL);
    CHECK(arena_take(count + 1, 1) == NULL);
    CHECK(all[5] != NULL);
    give(all[5], 1);
    CHECK(arena_take(2, 1) == NULL);
    CHECK(take(1, 1) == all[5]);
}

/* What others have mapped in the way is stepped over. */
static void scene_others_in_the_way(void) {
    open_window(GIB);
    take(GROW_SUPERS, 1);
    char *next = window_super_address(GROW_SUPERS);
    char *stone = mmap(next + SUPER, SUPER, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (stone == MAP_FAILED)
        return; /* the whole window is reserved already: nobody can be in the way */
    memset(stone, 7, SUPER);
    for (int i = 0; i < 3; i++) {
        struct super *run = take(GROW_SUPERS, 1);
        CHECK(run->start + GROW_SUPERS * SUPER <= stone || run->start >= stone + SUPER);
    }
    CHECK(stone[0] == 7 && stone[SUPER - 1] == 7);
}

/* No memory for the descriptors or the pages: NULL, and it can be tried again. */
static void scene_refusals(void) {
    open_window(GIB);
    for (int kind = 0; kind < OS_CALL_KINDS; kind++) {
        struct arena_stats before = arena_stats();
        refuse_after(kind, 0);
        struct super *super = arena_take(3, 1);
        allow_all();
        if (super != NULL)
            give(super, 3);
        else
            CHECK(arena_stats().free_bytes >= before.free_bytes);
        give(take(3, 1), 3);
        refuse_after(kind, 0);
        super = arena_take_apart(3);
        allow_all();
        if (super != NULL)
            give(super, 3);
        super = arena_take_apart(3);
        CHECK(super != NULL);
        give(super, 3);
    }
    refuse_kind(OS_CALL_KINDS);
    CHECK(arena_take(100, 1) == NULL);
    allow_all();
    give(take(100, 1), 100);
}

/* Memory of the process is used up to the last byte, and so are descriptors: then the
 * run that fits best, never used yet, is no use, but one that was given back is. */
static void scene_no_descriptors(void) {
    open_window(GIB);
    struct super *run = take(20, 1);
    size_t first = window_super_index(run->start);
    give(run, 15);
    refuse_kind(OS_CALL_KINDS);
    while (os_metadata_take(sizeof *run) != NULL) {
    }
    struct super *again = arena_take(1, 1);
    CHECK(again != NULL && again->committed && window_super_index(again->start) < first + 15);
    allow_all();
}

static struct purge purged(uint64_t before_ms, size_t most_bytes) {
    struct purge purge = {.before_ms = before_ms, .most_bytes = most_bytes};
    arena_purge(&purge);
    return purge;
}

/* Used ones side by side, whatever lies free beside them. */
static void scene_used(void) {
    open_window(GIB);
    CHECK(!arena_has_used(1));
    struct super *run = take(6, 1);
    size_t first = window_super_index(run->start);
    CHECK(!arena_has_used(1));
    give(run, 2);
    CHECK(arena_has_used(2) && !arena_has_used(3));
    give(window_super(first + 3), 3);
    CHECK(arena_has_used(3) && !arena_has_used(4));
    give(window_super(first + 2), 1);
    CHECK(arena_has_used(6) && !arena_has_used(7));
    /* What has been purged is as if it had never been used. */
    struct super *third = window_super(first + 2);
    CHECK(purged(UINT64_MAX, SIZE_MAX).done_bytes == 6 * SUPER && third->zero == ALL_SLABS);
    CHECK(!arena_has_used(1));
}

/* A single one that has been used is the first such of a run: of all runs the one with most used
 * slabs, and of these the one that came last. */
static void scene_used_one(void) {
    open_window(GIB);
    CHECK(arena_take_used() == NULL);
    struct super *run = take(7, 1);
    size_t first = window_super_index(run->start);
    CHECK(arena_take_used() == NULL);
    /* | used used used | taken | used | taken | used, then all that has never been | */
    give(run, 3);
    give(window_super(first + 4), 1);
    give(window_super(first + 6), 1);
    CHECK(arena_take_used() == window_super(first + 6));
    CHECK(arena_take_used() == window_super(first + 4));
    CHECK(arena_take_used() == window_super(first));
    CHECK(arena_take_used() == window_super(first + 1));
    CHECK(arena_take_used() == window_super(first + 2));
    CHECK(arena_take_used() == NULL);
    /* | purged | used used | */
    give(window_super(first), 1);
    CHECK(purged(UINT64_MAX, SIZE_MAX).done_bytes == SUPER);
    give(window_super(first + 2), 1);
    give(window_super(first + 1), 1);
    CHECK(arena_take_used() == window_super(first + 1));
    /* | purged | taken | used | taken | used in part | */
    give(window_super(first + 4), 1);
    window_super(first + 4)->zero = 1;
    CHECK(arena_take_used() == window_super(first + 2));
    CHECK(arena_take_used() == window_super(first + 4));
    CHECK(arena_take_used() == NULL);
}

/* A long run is from where most has been used, whatever the length of what is free there; but one
 * alone, which may be for untouched pages, is of the smallest. */
static void scene_used_run(void) {
    open_window(GIB);
    struct super *run = take(9, 1);
    size_t first = window_super_index(run->start);
    /* | used used, earlier | taken | used used used used | taken | used | */
    give(window_super(first + 8), 1);
    give(run, 2);
    give(window_super(first + 3), 4);
    CHECK(take(2, 1) == window_super(first + 5)); /* came last */
    CHECK(take(2, 1) == window_super(first + 3));
    CHECK(take(2, 1) == run);
    give(window_super(first + 3), 4);
    give(run, 2);
    CHECK(take(4, 1) == window_super(first + 3));
    CHECK(take(1, 1) == run);
    /* | taken | used | taken ... | purged, used, and what has never been | */
    give(window_super(first + 7), 1);
    CHECK(purged(UINT64_MAX, SIZE_MAX).done_bytes == 3 * SUPER);
    give(window_super(first + 6), 1);
    CHECK(take(2, 1) == window_super(first + 6));
    /* Nothing is used: the smallest that holds it. */
    give(window_super(first + 3), 2);
    CHECK(purged(UINT64_MAX, SIZE_MAX).done_bytes == 2 * SUPER);
    CHECK(take(2, 1) == window_super(first + 3));
}

static void scene_purge(void) {
    open_window(GIB);
    struct super *run = take(4, 1);
    run->start[0] = 5;
    arena_give(window_super(window_super_index(run->start)), 1000);
    arena_give(window_super(window_super_index(run->start) + 1), 2000);
    CHECK(arena_stats().dirty_bytes == 2 * SUPER);
    struct purge purge = purged(999, SIZE_MAX);
    CHECK(purge.done_bytes == 0 && purge.left_some);
    purge = purged(1000, SIZE_MAX);
    CHECK(purge.done_bytes == SUPER && purge.left_some);
    CHECK(arena_stats().dirty_bytes == SUPER);
    CHECK(purged(UINT64_MAX, 0).done_bytes == 0);
    CHECK(run->zero == ALL_SLABS && run->start[0] == 0);
    /* What counts is what was dirty. */
    struct super *third = window_super(window_super_index(run->start) + 2);
    third->zero = ALL_SLABS & ~slab_mask(4, 3);
    arena_give(third, 1500);
    CHECK(arena_stats().dirty_bytes == SUPER + (size_t)3 * SLAB_BYTES);
    CHECK(purged(1500, SIZE_MAX).done_bytes == 0); /* the second is older on the list, but young */
    CHECK(purged(2000, 1).done_bytes == SUPER);
    CHECK(purged(2000, SIZE_MAX).done_bytes == (size_t)3 * SLAB_BYTES);
    arena_give(window_super(window_super_index(run->start) + 3), 2000);
    refuse_kind(OS_CALL_PURGE);
    purge = purged(UINT64_MAX, SIZE_MAX);
    CHECK(purge.done_bytes == 0 && !purge.left_some);
    allow_all();
    CHECK(window_super(window_super_index(run->start) + 3)->zero != ALL_SLABS);
}

static void test_arena(void **state) {
    (void)state;
    run_scene(scene_best_fit);
    run_scene(scene_joins);
    run_scene(scene_alignment);
    run_scene(scene_skipped);
    run_scene(scene_skipped_refused);
    run_scene(scene_take_at);
    run_scene(scene_apart);
    run_scene(scene_apart_with_others_in_the_way);
    run_scene(scene_no_room_apart);
    run_scene(scene_exhaustion);
    run_scene(scene_others_in_the_way);
    run_scene(scene_refusals);
    run_scene(scene_no_descriptors);
    run_scene(scene_used);
    run_scene(scene_used_one);
    run_scene(scene_used_run);
    run_scene(scene_purge);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_window), cmocka_unit_test(test_arena)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
