/* A library that links libhakmem.so, for programs that know nothing of it. Its
 * malloc is the program's (libc comes first in the global scope); its hak_ names
 * are HAKMEM's. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem/hakmem.h"

int plugin_work(unsigned seed);
void *plugin_take(size_t size);
void plugin_give(void *block);

void *plugin_take(size_t size) { return hak_malloc(size); }
void plugin_give(void *block) { hak_free(block); }

int plugin_work(unsigned seed) {
    enum { COUNT = 500 };
    char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = (i * 7919 + seed) % 9000 + 1;
        blocks[i] = i % 2 ? hak_malloc(size) : hak_calloc(1, size);
        if (blocks[i] == NULL)
            return 1;
        memset(blocks[i], (int)i, size);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (blocks[i][0] != (char)i)
            return 2;
        blocks[i] = hak_realloc(blocks[i], 10000);
        if (blocks[i] == NULL || blocks[i][0] != (char)i)
            return 3;
        hak_free(blocks[i]);
    }
    /* The other family, whatever it is here. */
    void *other = malloc(seed % 1000 + 1);
    free(other);
    return other == NULL ? 4 : 0;
}
