/* The smallest library with a hit path, for testing the tools that judge one:
 * one bin of blocks, which malloc pops and free pushes. Each macro spoils the
 * path in one way. */
#include <stddef.h>

enum { BLOCKS = 4096, BLOCK_BYTES = 32768 };

static char arena[BLOCKS][BLOCK_BYTES] __attribute__((aligned(16)));
static void *bin[BLOCKS];
static size_t used;  /* blocks of arena ever handed out */
static size_t fill;  /* entries of bin */
static size_t count; /* what the spoilers write to */

__attribute__((noinline)) static void look_up(void) { *(volatile size_t *)&count = used; }

static void spoil(size_t size) {
    (void)size;
#ifdef SPOIL_LOCK
    __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
#endif
#ifdef SPOIL_EXCHANGE
    __atomic_exchange_n(&count, size, __ATOMIC_RELAXED);
#endif
#ifdef SPOIL_DIVISION
    *(volatile size_t *)&count = used / (size + 1);
#endif
#ifdef SPOIL_CALL
    look_up();
#endif
#ifdef SPOIL_LENGTH
    for (volatile int i = 0; i < 10; i++)
        ;
#endif
}

__attribute__((visibility("default"))) void *malloc(size_t size) {
    spoil(size);
    if (fill > 0)
        return bin[--fill];
    return used < BLOCKS && size <= BLOCK_BYTES ? arena[used++] : NULL;
}

__attribute__((visibility("default"))) void free(void *block) {
    if (block != NULL)
        bin[fill++] = block;
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size) {
    char *block = malloc(n * size);
    for (size_t i = 0; i < n * size; i++)
        ((volatile char *)block)[i] = 0;
    return block;
}
