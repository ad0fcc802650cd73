/* Programs for test_history.py: who took, resized and freed a block; what is lost at exit.
 *
 *   history CASE
 *
 * Names of functions are exported, so that reports show them; each does something after its call,
 * so that it is not a jump. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

#define NAMED __attribute__((noinline, visibility("default")))

static volatile int calls;

NAMED char *take(size_t size);
NAMED char *take(size_t size) {
    char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size);
    calls++;
    return block;
}

NAMED char *resize(char *block, size_t size);
NAMED char *resize(char *block, size_t size) {
    char *resized = realloc(block, size);
    CHECK(resized != NULL);
    calls++;
    return resized;
}

NAMED void drop(void *block);
NAMED void drop(void *block) {
    free(block);
    calls++;
}

NAMED void drop_again(void *block);
NAMED void drop_again(void *block) {
    free(block);
    calls++;
}

NAMED char use(const volatile char *block);
NAMED char use(const volatile char *block) {
    char byte = block[7];
    calls++;
    return byte;
}

static void *drop_in_thread(void *block) {
    drop(block);
    return NULL;
}

static void with_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* --- reports ------------------------------------------------------------------------ */

static void twice(void) {
    char *volatile block = take(100);
    block = resize(block, 104);
    drop(block);
    drop_again(block);
}

static void twice_in_thread(void) {
    char *volatile block = take(100);
    with_thread(drop_in_thread, block);
    drop_again(block);
}

/* More events than most rings have room for. */
static void twice_long_after(void) {
    char *volatile block = take(100);
    drop(block);
    for (int i = 0; i < 50; i++)
        free(malloc(2000));
    drop_again(block);
}

static void inside(void) {
    char *volatile block = take(100);
    drop_again(block + 16);
}

static void nowhere(void) {
    static char places[64];
    drop_again(places + 32);
}

static void write_after_free(void) {
    char *volatile block = take(100);
    drop(block);
    block[7] = 1;
    for (int i = 0; i < 50000; i++)
        drop(take(100));
}

static void read_after_free(void) {
    char *volatile block = take(100);
    drop(block);
    use(block);
}

static void behind_the_end(void) {
    char *volatile block = take(100);
    block[100]++;
    drop(block);
}

/* --- leaks -------------------------------------------------------------------------- */

enum { LOST = 1000 };

/* The next call's frame lies where this one's pointers were. */
static void wipe_stack(void) {
    volatile char frame[64 * 1024];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0;
}

NAMED void lose_small(void);
NAMED void lose_small(void) {
    for (int i = 0; i < LOST; i++)
        take(48);
    calls++;
}

NAMED void lose_large(void);
NAMED void lose_large(void) {
    memset(malloc(3 << 20), 1, 100);
    calls++;
}

/* On the stack an old pointer may lie whose low half something has overwritten with zero: one into
 * a block that contains a multiple of 4 GiB, as one in four of this size does. */
NAMED void lose_huge(void);
NAMED void lose_huge(void) {
    const size_t size = (size_t)1 << 30;
    char *block = malloc(size);
    if (((uintptr_t)block ^ ((uintptr_t)block + size - 1)) >> 32 != 0) {
        char *other = malloc(size);
        free(block);
        block = other;
    }
    memset(block, 1, 100);
    calls++;
}

struct node {
    struct node *next;
    char rest[40];
};

static struct node *make_list(void) {
    struct node *list = NULL;
    for (int i = 0; i < LOST; i++) {
        struct node *node = (struct node *)(void *)take(sizeof *node);
        node->next = list;
        list = node;
    }
    return list;
}

/* A list that nothing points to, and one in a ring: all of them. */
NAMED void lose_ring(void);
NAMED void lose_ring(void) {
    struct node *list = make_list();
    struct node *last = list;
    while (last->next != NULL)
        last = last->next;
    last->next = list;
}

static void leaks(void) {
    lose_small();
    lose_large();
    lose_huge();
    lose_ring();
    wipe_stack();
}

static struct node *volatile kept_list;
static char *volatile kept_inside;
static void **volatile kept_map;
static void **volatile kept_huge;
static _Thread_local void *volatile kept_by_thread;
static pthread_barrier_t ready;

static void *keep_in_thread(void *unused) {
    (void)unused;
    kept_by_thread = take(77);
    void *volatile on_stack = take(78);
    pthread_barrier_wait(&ready);
    pause();
    return on_stack;
}

static void keep(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    kept_list = make_list();
    kept_inside = take(5000) + 4999;
    kept_map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(kept_map != MAP_FAILED);
    *kept_map = take(100);
    kept_huge = malloc((size_t)1 << 30);
    CHECK(kept_huge != NULL);
    kept_huge[1 << 20] = take(101);
    void **closed = (void **)aligned_alloc(page, 4 * page);
    CHECK(closed != NULL);
    closed[0] = take(102);
    kept_huge[0] = closed;
    CHECK(mprotect((char *)closed + page, page, PROT_NONE) == 0);
    closed[3 * page / sizeof *closed] = take(103);
    pthread_t thread;
    CHECK(pthread_barrier_init(&ready, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, keep_in_thread, NULL) == 0);
    pthread_barrier_wait(&ready);
}

static void leak_and_close(void) {
    lose_small();
    wipe_stack();
    close(STDERR_FILENO);
}

/* Whose descriptors are then those of a file that it keeps data in. */
static void leak_and_reopen(void) {
    lose_small();
    wipe_stack();
    for (int descriptor = 2; descriptor < 300; descriptor++)
        close(descriptor);
    for (int i = 0; i < 300; i++)
        CHECK(open("data", O_WRONLY | O_CREAT, 0600) >= 0);
}

static void leak_in_child(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lose_small();
        wipe_stack();
        exit(0);
    }
    wait_for_success(child);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"twice", twice},
    {"twice-in-thread", twice_in_thread},
    {"twice-long-after", twice_long_after},
    {"inside", inside},
    {"nowhere", nowhere},
    {"write-after-free", write_after_free},
    {"read-after-free", read_after_free},
    {"behind-the-end", behind_the_end},
    {"leaks", leaks},
    {"keep", keep},
    {"leak-and-close", leak_and_close},
    {"leak-and-reopen", leak_and_reopen},
    {"leak-in-child", leak_in_child},
};

int main(int argc, char **argv) {
    process_begin();
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}
