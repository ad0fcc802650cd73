/* Running into a limit: memory ends, malloc says NULL and ENOMEM, what was there
 * stays whole, and after some of it has been freed the program goes on.
 *
 * usage: limits SIZE PERCENT
 *   Takes blocks of SIZE bytes until there are no more. PERCENT of the address
 *   space that `ulimit -v` leaves must have become blocks.
 * usage: limits to-the-end SIZE
 *   The same, but what counts is how much address space is left over.
 * usage: limits at-run-time as|data
 *   A limit set by the program itself, a little above what it uses.
 * usage: limits refused-at MEBIBYTES
 *   Something else limits it, to about so much more.
 * usage: limits committed elsewhere
 *   More memory is refused, while what lies free is not where it is looked for first.
 * usage: limits stranded in-bins
 *   What lies free in a thread's bins of one size must serve another.
 * usage: limits full MEBIBYTES
 *   Small blocks take all of an arena_size of so much: others are mapped by themselves.
 * usage: limits beside MEBIBYTES
 *   Large blocks of one thread leave holes in an arena_size of so much: small ones of another
 *   thread, in another shard, find them. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

/* Blocks in a list through themselves: the test must not need memory. */
struct link {
    struct link *next;
    size_t size;
    unsigned char bytes[];
};

static struct link *take_link(size_t size, struct link *next) {
    errno = 0;
    struct link *link = malloc(size);
    if (link == NULL) {
        CHECK(errno == ENOMEM);
        return NULL;
    }
    memset(link, 0x2d, size);
    link->next = next;
    link->size = size;
    return link;
}

static void check_link(const struct link *link) {
    CHECK(link->size >= sizeof *link);
    for (size_t at = 0; at < link->size - sizeof *link; at += 499)
        CHECK(link->bytes[at] == 0x2d);
}

/* Every other block when `all` is false. */
static struct link *give_links(struct link *list, bool all) {
    struct link *kept = NULL;
    bool give = true;
    while (list != NULL) {
        struct link *next = list->next;
        check_link(list);
        if (give || all) {
            free(list);
        } else {
            list->next = kept;
            kept = list;
        }
        give = !give;
        list = next;
    }
    return kept;
}

static struct link *take_until_refused(size_t size, size_t *total) {
    struct link *list = NULL, *link;
    *total = 0;
    while ((link = take_link(size, list)) != NULL) {
        list = link;
        *total += size;
        CHECK(*total < 8 * GIB); /* a limit that does not limit */
    }
    return list;
}

/* With everything taken, each function fails as it should and harms nothing. */
static void check_refusals(struct link *live) {
    size_t size = 600 * MIB;
    void *result = &result;
    errno = 0;
    CHECK(calloc(3, size) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(aligned_alloc(4096, size * 4) == NULL && errno == ENOMEM);
    errno = EDOM;
    CHECK(posix_memalign(&result, 64, size * 4) == ENOMEM && errno == EDOM && result == &result);
    if (live != NULL) {
        errno = 0;
        void *volatile moved = realloc(live, 4 * GIB);
        CHECK(moved == NULL && errno == ENOMEM);
        check_link(live);
    }
}

static void go_on(struct link *list, size_t size, size_t total) {
    /* Half of it back; that must be good for as much again, in this size... */
    list = give_links(list, false);
    size_t again = 0;
    struct link *more = take_until_refused(size, &again);
    CHECK(again >= total / 2 - total / 10 - size);
    give_links(more, true);
    give_links(list, true);
    /* ...and all of it in others. */
    static const size_t others[] = {64, 2000, 70000, 3 << 20};
    for (size_t i = 0; i < 4; i++) {
        list = take_until_refused(others[i], &again);
        if (again < total / 2)
            fprintf(stderr, "%zu MiB in blocks of %zu after %zu MiB in blocks of %zu\n",
                    again / MIB, others[i], total / MIB, size);
        CHECK(again >= total / 2);
        check_refusals(list);
        give_links(list, true);
    }
    CHECK(traffic_run(3, 20000));
}

static void *run_thread(void *argument) {
    CHECK(traffic_run((unsigned)(uintptr_t)argument, 2000));
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, run_thread, (void *)i) == 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void run_with_limit(size_t size, size_t percent) {
    run_threads();
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(limit.rlim_cur != RLIM_INFINITY);
    size_t free_before = limit.rlim_cur - process_status("VmSize") * KIB;
    size_t total;
    struct link *list = take_until_refused(size, &total);
    if (total * 100 < free_before * percent)
        fprintf(stderr, "%zu MiB of %zu MiB became blocks\n", total / MIB, free_before / MIB);
    CHECK(total * 100 >= free_before * percent);
    check_refusals(list);
    go_on(list, size, total);
}

static void run_to_the_end(size_t size) {
    struct rlimit limit;
    size_t total;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY);
    struct link *list = take_until_refused(size, &total);
    size_t left = limit.rlim_cur - process_status("VmSize") * KIB;
    if (left >= 6 * MIB)
        fprintf(stderr, "%zu MiB left over\n", left / MIB);
    CHECK(left < 6 * MIB);
    give_links(list, true);
}

/* Refused when about so much has been taken, of whatever size. */
static void run_refused_at(size_t bytes) {
    static const size_t sizes[] = {100, 5000, 100000, 2 << 20};
    for (size_t i = 0; i < 4; i++) {
        size_t total;
        struct link *list = take_until_refused(sizes[i], &total);
        CHECK(total >= bytes / 2 && total <= bytes * 2);
        check_refusals(list);
        go_on(list, sizes[i], total);
        process_trim();
    }
}

static void run_at_run_time(int resource, const char *field) {
    CHECK(traffic_run(1, 20000));
    size_t limit = process_status(field) * KIB + 100 * MIB;
    CHECK(setrlimit(resource, &(struct rlimit){limit, limit}) == 0);
    run_refused_at(100 * MIB);
}

/* Addresses are reserved 32 MiB at a time, and the shortest free piece that is long enough
 * serves first: here what two blocks of 22 MiB leave of them, which has no memory yet. A
 * limit on data counts only what has, and refuses once it is passed. */
static void run_committed_elsewhere(void) {
    struct link *given = take_link(22 * MIB, NULL);
    struct link *kept = take_link(22 * MIB, NULL);
    CHECK(given != NULL && kept != NULL);
    size_t limit = process_status("VmData") * KIB + MIB;
    CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){limit, limit}) == 0);
    size_t total;
    struct link *list = take_until_refused(8 * MIB, &total);
    give_links(given, true);
    process_trim(); /* else it would be looked for first, for it has been used */
    for (unsigned i = 0; i < 2; i++) {
        list = take_link(8 * MIB, list);
        CHECK(list != NULL);
    }
    give_links(list, true);
    give_links(kept, true);
}

/* Frees those of a list that lie in the 64 KiB of its first. */
static struct link *give_neighbours(struct link *list) {
    uintptr_t place = (uintptr_t)list / (64 * KIB);
    struct link *kept = NULL;
    while (list != NULL) {
        struct link *next = list->next;
        if ((uintptr_t)list / (64 * KIB) == place) {
            free(list);
        } else {
            list->next = kept;
            kept = list;
        }
        list = next;
    }
    return kept;
}

static void run_stranded(void) {
    struct link *small = NULL, *large = NULL;
    /* Slabs of the small size were in use before, so what describes them is there. */
    for (size_t i = 0; i < 16 * MIB / 128; i++)
        small = take_link(128, small);
    give_links(small, true);
    process_trim();
    size_t total, limit = process_status("VmSize") * KIB + 64 * MIB;
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0);
    large = take_until_refused(4096, &total);
    CHECK(total >= 40 * MIB);
    small = take_until_refused(128, &total);
    /* 16 blocks, some of which stay in this thread's bin; 60 KiB of another size. */
    for (unsigned round = 0; round < 20; round++) {
        large = give_neighbours(large);
        for (size_t i = 0; i < 60 * KIB / 128; i++) {
            struct link *link = take_link(128, small);
            CHECK(link != NULL);
            small = link;
        }
    }
    give_links(small, true);
    give_links(large, true);
}

static struct link *resize_link(struct link *link, size_t size) {
    size_t kept = size < link->size ? size : link->size;
    link = realloc(link, size);
    CHECK(link != NULL && malloc_usable_size(link) >= size);
    link->size = kept;
    check_link(link);
    memset(link->bytes, 0x2d, size - sizeof *link);
    link->size = size;
    return link;
}

static void run_full(size_t arena_bytes) {
    static const size_t sizes[] = {70000, 100000, 210000, MIB, 3 * MIB};
    size_t total;
    struct link *small = take_until_refused(4000, &total);
    CHECK(total >= arena_bytes / 4 * 3 && total <= arena_bytes);
    for (size_t i = 0; i < 5; i++) {
        struct link *list = NULL;
        for (unsigned n = 0; n < 30; n++)
            CHECK((list = take_link(sizes[i], list)) != NULL);
        list = resize_link(list, 2 * sizes[i]);
        list = resize_link(list, 80000);
        give_links(list, true);
        char *zeroed = calloc(1, sizes[i]);
        CHECK(zeroed != NULL && zeroed[0] == 0 && zeroed[sizes[i] - 1] == 0);
        free(zeroed);
        void *aligned = aligned_alloc(4096, sizes[i] / 4096 * 4096);
        CHECK(aligned != NULL && (uintptr_t)aligned % 4096 == 0);
        free(aligned);
    }
    /* What holes there are between small blocks serves small ones. */
    small = give_links(small, false);
    for (size_t taken = 0; taken < total / 3; taken += 4000)
        CHECK((small = take_link(4000, small)) != NULL);
    give_links(small, true);
    CHECK(traffic_run(1, 20000));
}

/* Takes a quarter of the arena. */
static void *take_small(void *argument) {
    size_t arena_bytes = *(const size_t *)argument;
    struct link *small = NULL;
    for (size_t taken = 0; taken < arena_bytes / 4; taken += 4000)
        CHECK((small = take_link(4000, small)) != NULL);
    give_links(small, true);
    return NULL;
}

static void run_beside(size_t arena_bytes) {
    enum { HOLES = 2 << 20, LARGE = 20 * 64 << 10 }; /* one of LARGE in each stretch of HOLES */
    struct link *large = NULL;
    for (size_t passed = 0; passed < arena_bytes; passed += HOLES)
        CHECK((large = take_link(LARGE, large)) != NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, take_small, &arena_bytes) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    give_links(large, true);
    CHECK(traffic_run(1, 20000));
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 3);
    if (strcmp(argv[1], "stranded") == 0)
        run_stranded();
    else if (strcmp(argv[1], "committed") == 0)
        run_committed_elsewhere();
    else if (strcmp(argv[1], "full") == 0)
        run_full(strtoul(argv[2], NULL, 10) * MIB);
    else if (strcmp(argv[1], "beside") == 0)
        run_beside(strtoul(argv[2], NULL, 10) * MIB);
    else if (strcmp(argv[1], "to-the-end") == 0)
        run_to_the_end(strtoul(argv[2], NULL, 10));
    else if (strcmp(argv[1], "refused-at") == 0)
        run_refused_at(strtoul(argv[2], NULL, 10) * MIB);
    else if (strcmp(argv[1], "at-run-time") != 0)
        run_with_limit(strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10));
    else if (strcmp(argv[2], "as") == 0)
        run_at_run_time(RLIMIT_AS, "VmSize");
    else
        run_at_run_time(RLIMIT_DATA, "VmData");
    return process_ok();
}
