/* HAKMEM's own limits: what a heap does at hard_limit and soft_limit, how many mappings it
 * makes, and how often a block that grows by steps goes elsewhere.
 *
 * usage: bounds grow|threads|realloc MEBIBYTES   with hard_limit of so many
 * usage: bounds call-backs MEBIBYTES             with soft_limit of half as many, too
 * usage: bounds soft MEBIBYTES                   with soft_limit of so many, no decay
 * usage: bounds small MEBIBYTES                  a heap of so many
 * usage: bounds mappings most                    a heap driven hard has at most so many
 * usage: bounds steps most                       a block of 256 bytes to 1 MiB moves so often */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem/hakmem.h"
#include "support.h"

enum { THREADS = 4, ROUNDS = 4 };

/* Blocks in a list through themselves: the test must not need memory. */
struct link {
    struct link *next;
    size_t size;
    unsigned char bytes[];
};

static struct link *push(struct link *list, size_t size) {
    errno = 0;
    struct link *link = malloc(size);
    if (link == NULL) {
        CHECK(errno == ENOMEM);
        return NULL;
    }
    memset(link, (int)(size % 251), size);
    link->next = list;
    link->size = size;
    return link;
}

static struct link *pop(struct link *list) {
    struct link *next = list->next;
    for (size_t at = 0; at < list->size - sizeof *list; at += 1021)
        CHECK(list->bytes[at] == list->size % 251);
    free(list);
    return next;
}

/* --- at the hard limit -------------------------------------------------------------- */

/* Grows until ENOMEM, frees half, grows again ... in sizes of every kind. */
struct grower {
    unsigned seed;
    size_t most, least; /* bytes that were there when memory was refused */
};

static size_t next_size(unsigned *seed) {
    static const size_t kinds[] = {48, 700, 9000, 130000, 1500000, 5 << 20};
    *seed = *seed * 1103515245u + 12345;
    return kinds[*seed / 65536 % 6] + *seed / 65536 % 16;
}

static void *grow(void *argument) {
    struct grower *grower = argument;
    struct link *list = NULL;
    size_t bytes = 0;
    grower->least = SIZE_MAX;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (;;) {
            size_t size = next_size(&grower->seed);
            struct link *more = push(list, size);
            if (more == NULL)
                break;
            bytes += size;
            list = more;
        }
        grower->most = bytes > grower->most ? bytes : grower->most;
        grower->least = bytes < grower->least ? bytes : grower->least;
        for (size_t half = bytes / 2; list != NULL && bytes > half;) {
            bytes -= list->size;
            list = pop(list);
        }
    }
    while (list != NULL)
        list = pop(list);
    return NULL;
}

static void check_resident(size_t limit) {
    size_t peak = process_status("VmHWM") * KIB;
    if (peak > limit + 8 * MIB)
        fprintf(stderr, "%zu KiB resident at the peak\n", peak / KIB);
    CHECK(peak <= limit + 8 * MIB); /* the program, its stacks and libraries */
}

static void run_grow(size_t limit) {
    struct grower grower = {.seed = 1};
    grow(&grower);
    CHECK(grower.most < limit && grower.least > limit / 4 * 3);
    check_resident(limit);
    CHECK(traffic_run(1, 20000));
}

static void run_threads(size_t limit) {
    struct grower growers[THREADS] = {{.seed = 1}, {.seed = 2}, {.seed = 3}, {.seed = 4}};
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, grow, &growers[i]) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(growers[i].most < limit);
    }
    check_resident(limit);
    struct grower last = {.seed = 5};
    grow(&last);
    CHECK(last.least > limit / 4 * 3);
}

/* One block grows until it is refused; then it is as it was, and may shrink. */
static void run_realloc(size_t limit) {
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = 100000, step = 300000;
        unsigned char *block = malloc(size);
        CHECK(block != NULL);
        memset(block, 0x5a, size);
        for (unsigned char *grown; (grown = realloc(block, size + step)) != NULL; size += step) {
            block = grown;
            memset(block + size, 0x5a, step);
        }
        CHECK(errno == ENOMEM && size < limit && size > limit / 3);
        for (size_t at = 0; at < size; at += 509)
            CHECK(block[at] == 0x5a);
        block = realloc(block, size / 4);
        CHECK(block != NULL);
        void *other = malloc(limit / 4);
        CHECK(other != NULL);
        free(other);
        free(block);
    }
    /* In place: what lies free and dirty must not stand in its way. */
    unsigned char *dirty = malloc(limit / 2);
    unsigned char *block = malloc(limit / 4);
    CHECK(dirty != NULL && block != NULL);
    memset(dirty, 1, limit / 2);
    memset(block, 2, limit / 4);
    free(dirty);
    block = realloc(block, limit / 8 * 7);
    CHECK(block != NULL && block[0] == 2 && block[limit / 4 - 1] == 2);
    free(block);
    check_resident(limit);
}

/* --- call-backs ---------------------------------------------------------------------- */

/* Volatile: compilers know that malloc changes no variable of the program's. */
static struct link *volatile cache;
static volatile unsigned soft_calls, hard_calls;
static volatile size_t last_heap, last_asked;
static volatile bool gives_way;

static void told(const struct hak_limit_event *event, void *context) {
    CHECK(context == &soft_calls);
    CHECK(event->heap_bytes > 0 && event->limit_bytes > 0);
    soft_calls += event->limit == HAK_SOFT_LIMIT;
    hard_calls += event->limit == HAK_HARD_LIMIT;
    last_heap = event->heap_bytes;
    last_asked = event->asked_bytes;
    free(malloc(event->limit == HAK_HARD_LIMIT ? 1 << 30 : 100000)); /* no recursion */
    while (gives_way && cache != NULL)
        cache = pop(cache);
    errno = EDOM;
}

typedef int register_function(hak_limit_function *, void *);

static register_function *find(const char *name) {
    register_function *function = (register_function *)dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL);
    return function;
}

static size_t fill(size_t bytes) {
    size_t got = 0;
    struct link *more;
    for (; got < bytes && (more = push(cache, 100000)) != NULL; got += 100000)
        cache = more;
    return got;
}

static void empty(void) {
    while (cache != NULL)
        cache = pop(cache);
}

static void run_callbacks(size_t hard) {
    register_function *add = find("hak_limit_callback");
    register_function *remove = find("hak_limit_callback_remove");
    CHECK(add(NULL, NULL) == -1 && errno == EINVAL);
    CHECK(remove(told, (void *)&soft_calls) == -1 && errno == EINVAL);
    CHECK(add(told, (void *)&soft_calls) == 0 &&
          add(told, (void *)&soft_calls) == 0); /* once all the same */
    fill(hard / 4);
    CHECK(soft_calls == 0 && hard_calls == 0);
    for (unsigned round = 1; round <= 3; round++) {
        fill(hard / 2);
        CHECK(soft_calls == round && hard_calls == 0);
        CHECK(last_heap > hard / 2 && last_asked == 0);
        empty();
        fill(hard / 4);
        process_trim();
    }
    /* Refused, and nobody gives way. */
    errno = 0;
    void *refused = malloc(hard);
    CHECK(refused == NULL && errno == ENOMEM && hard_calls == 1 && last_asked == hard);
    /* A cache gives way, and the call succeeds. */
    fill(hard / 4);
    gives_way = true;
    errno = 0;
    void *block = malloc(hard / 4 * 3);
    CHECK(block != NULL && errno == 0 && cache == NULL && hard_calls == 2);
    free(block);
    CHECK(remove(told, (void *)&soft_calls) == 0);
    refused = malloc(hard);
    CHECK(refused == NULL && hard_calls == 2);
    for (uintptr_t i = 0; i < 16; i++)
        CHECK(add(told, (void *)i) == 0);
    CHECK(add(told, (void *)&soft_calls) == -1 && errno == ENOMEM);
}

/* --- at the soft limit ---------------------------------------------------------------- */

/* Everything freed beyond the limit is gone when free returns. */
static void run_soft(size_t limit) {
    size_t before = process_status("VmRSS") * KIB;
    static const size_t sizes[] = {200, 5000, 100000, 3 << 20};
    for (unsigned i = 0; i < 4; i++) {
        struct link *list = NULL;
        for (size_t bytes = 0; bytes < limit * 2; bytes += sizes[i])
            CHECK((list = push(list, sizes[i])) != NULL);
        CHECK(process_status("VmRSS") * KIB > before + limit * 2 - limit / 8);
        while (list != NULL)
            list = pop(list);
        size_t after = process_status("VmRSS") * KIB;
        if (after > before + limit + 8 * MIB)
            fprintf(stderr, "%zu KiB after blocks of %zu\n", after / KIB, sizes[i]);
        CHECK(after <= before + limit + 8 * MIB);
    }
}

/* --- mappings -------------------------------------------------------------------------- */

/* Large blocks in every order, that move, grow, shrink, come back and are purged. */
static void run_mappings(size_t most) {
    enum { BLOCKS = 6000, STEPS = 60000 };
    static struct {
        char *start;
        size_t size;
    } blocks[BLOCKS];
    unsigned seed = 7;
    size_t peak = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        seed = seed * 1103515245u + 12345;
        unsigned i = seed / 65536 % BLOCKS;
        size_t size = 70000 + (size_t)(seed / 256 % 30) * 30000;
        if (seed / 65536 % 8 == 0)
            size = 0;
        char *block = realloc(blocks[i].start, size);
        CHECK(block != NULL || size == 0);
        for (size_t at = 0; at < size; at += 65536)
            block[at] = 1;
        blocks[i].start = block;
        blocks[i].size = size;
        if (step % 1000 == 0) {
            size_t now = process_mappings();
            peak = now > peak ? now : peak;
        }
        if (step % 20000 == 0)
            process_trim();
    }
    if (peak > most)
        fprintf(stderr, "%zu mappings\n", peak);
    CHECK(peak <= most);
}

/* --- growth by steps --------------------------------------------------------------------- */

static void run_steps(size_t most) {
    enum { STEP = 24 };
    size_t moves = 0;
    char *block = NULL;
    for (size_t size = 256; size <= MIB; size += STEP) {
        char *grown = realloc(block, size);
        CHECK(grown != NULL);
        moves += grown != block;
        block = grown;
        memset(block + size - STEP, 1, STEP);
        CHECK(malloc_usable_size(block) <= size + size / 2);
    }
    free(block);
    if (moves > most)
        fprintf(stderr, "%zu moves\n", moves);
    CHECK(moves <= most);
}

static void run_small(size_t bytes) {
    size_t got = fill(bytes);
    CHECK(got >= bytes);
    empty();
}

int main(int argc, char **argv) {
    process_begin();
    CHECK(argc == 3);
    size_t number = strtoul(argv[2], NULL, 10);
    if (strcmp(argv[1], "grow") == 0)
        run_grow(number * MIB);
    else if (strcmp(argv[1], "threads") == 0)
        run_threads(number * MIB);
    else if (strcmp(argv[1], "realloc") == 0)
        run_realloc(number * MIB);
    else if (strcmp(argv[1], "call-backs") == 0)
        run_callbacks(number * MIB);
    else if (strcmp(argv[1], "soft") == 0)
        run_soft(number * MIB);
    else if (strcmp(argv[1], "small") == 0)
        run_small(number * MIB);
    else if (strcmp(argv[1], "mappings") == 0)
        run_mappings(number);
    else if (strcmp(argv[1], "steps") == 0)
        run_steps(number);
    else
        CHECK(false);
    return process_ok();
}
