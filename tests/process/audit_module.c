/* A module for LD_AUDIT that links libhakmem.so: the dynamic linker loads it,
 * with a second copy of HAKMEM and of libc, into a namespace of its own before
 * the program's libraries, and calls it from inside dlopen and symbol look-up. */
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem/hakmem.h"

static char *kept[64];
static size_t calls;

static void allocate(void) {
    size_t i = calls++ % 64;
    if (kept[i] != NULL && kept[i][0] != 'a')
        abort();
    hak_free(kept[i]);
    kept[i] = hak_malloc(calls % 3000 + 1);
    if (kept[i] == NULL)
        abort();
    kept[i][0] = 'a';
    free(malloc(calls % 500));
}

unsigned la_version(unsigned version) {
    allocate();
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t namespace_id, uintptr_t *cookie) {
    (void)map, (void)namespace_id, (void)cookie;
    allocate();
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

void la_preinit(uintptr_t *cookie) {
    (void)cookie;
    allocate();
}
