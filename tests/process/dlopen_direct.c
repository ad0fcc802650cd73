/* A program opens libhakmem.so itself, RTLD_LOCAL, and uses the hak_ names next
 * to the system's malloc: two allocators in one process. Then it forks, and ends
 * with blocks of both alive.
 *
 * usage: dlopen_direct libhakmem.so */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static void *(*hak_malloc)(size_t);
static void *(*hak_realloc)(void *, size_t);
static void (*hak_free)(void *);
static size_t (*hak_usable)(void *);

static void *find(void *library, const char *name) {
    void *function = dlsym(library, name);
    CHECK(function != NULL);
    return function;
}

static void *mix(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    char *ours[200], *theirs[200];
    for (size_t i = 0; i < 200; i++) {
        size_t size = (i * 523 + (size_t)seed * 31) % 6000 + 1;
        ours[i] = hak_malloc(size);
        theirs[i] = malloc(size);
        CHECK(ours[i] != NULL && theirs[i] != NULL);
        memset(ours[i], 'o', size);
        memset(theirs[i], 't', size);
        CHECK(hak_usable(ours[i]) >= size);
    }
    CHECK(traffic_run(seed, 3000));
    for (size_t i = 0; i < 200; i++) {
        CHECK(ours[i][0] == 'o' && theirs[i][0] == 't');
        ours[i] = hak_realloc(ours[i], 7000);
        CHECK(ours[i] != NULL && ours[i][0] == 'o');
        hak_free(ours[i]);
        free(theirs[i]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    hang_guard();
    CHECK(argc == 2);
    free(malloc(100));
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    /* Local: malloc stays the system's. */
    CHECK(dlsym(RTLD_DEFAULT, "hak_malloc") == NULL);
    Dl_info info;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) != 0);
    CHECK(strstr(info.dli_fname, "libhakmem") == NULL);
    *(void **)&hak_malloc = find(library, "hak_malloc");
    *(void **)&hak_realloc = find(library, "hak_realloc");
    *(void **)&hak_free = find(library, "hak_free");
    *(void **)&hak_usable = find(library, "hak_malloc_usable_size");

    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, mix, (void *)i) == 0);
    for (unsigned i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            mix((void *)(uintptr_t)i);
            _exit(0);
        }
        wait_for_success(child);
    }
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(dlclose(library) == 0);
    mix((void *)99); /* nodelete: the names stay good */
    return process_ok();
}
