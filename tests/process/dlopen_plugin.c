/* A program on the system's malloc loads a library that links HAKMEM, uses it
 * from threads that were there before and from new ones, unloads it while
 * threads that used it live on, and loads it again.
 *
 * usage: dlopen_plugin PLUGIN FOLDER COPIES
 *   The folder has filler0.so, filler1.so and so on, more than static TLS has room
 *   for; loading them first leaves only little of it. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

typedef int work_function(unsigned seed);
typedef void *take_function(size_t size);
typedef void give_function(void *block);

static work_function *work;
static take_function *take;
static give_function *give;
static void *library;

static void load(const char *path, int mode) {
    library = dlopen(path, mode);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    work = (work_function *)dlsym(library, "plugin_work");
    take = (take_function *)dlsym(library, "plugin_take");
    give = (give_function *)dlsym(library, "plugin_give");
    CHECK(work != NULL && take != NULL && give != NULL);
}

static pthread_barrier_t barrier;

/* Born before the library is there, and dead only after it is gone. */
static void *outlive(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    pthread_barrier_wait(&barrier); /* library loaded */
    pthread_barrier_wait(&barrier);
    CHECK(work(seed) == 0);
    void *block = take(100 + seed);
    CHECK(block != NULL);
    give(block);
    pthread_barrier_wait(&barrier); /* library unloaded */
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *work_once(void *argument) {
    CHECK(work((unsigned)(uintptr_t)argument) == 0);
    return NULL;
}

static void run_in_new_threads(void) {
    pthread_t threads[20];
    for (uintptr_t i = 0; i < 20; i++)
        CHECK(pthread_create(&threads[i], NULL, work_once, (void *)i) == 0);
    for (size_t i = 0; i < 20; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Loads one filler after the other until static TLS is used up, then gives back
 * `spare` of them, so that 16 bytes each are free again. */
static void fill_static_tls(const char *folder, unsigned copies, unsigned spare) {
    void *fillers[512];
    unsigned loaded = 0;
    CHECK(copies <= 512);
    while (loaded < copies) {
        char path[512];
        snprintf(path, sizeof path, "%s/filler%u.so", folder, loaded);
        fillers[loaded] = dlopen(path, RTLD_NOW);
        if (fillers[loaded] == NULL)
            break;
        loaded++;
    }
    CHECK(loaded > spare && loaded < copies);
    for (unsigned i = 0; i < spare; i++)
        CHECK(dlclose(fillers[--loaded]) == 0);
}

static int find_hakmem(struct dl_phdr_info *info, size_t size, void *tls_bytes) {
    (void)size;
    if (strstr(info->dlpi_name, "libhakmem") == NULL)
        return 0;
    *(size_t *)tls_bytes = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)tls_bytes = info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

int main(int argc, char **argv) {
    hang_guard();
    CHECK(argc == 4);
    size_t tls_bytes;
    CHECK(dl_iterate_phdr(find_hakmem, &tls_bytes) == 0); /* not here yet */
    fill_static_tls(argv[2], (unsigned)atoi(argv[3]), 1);

    pthread_t threads[8];
    CHECK(pthread_barrier_init(&barrier, NULL, 9) == 0);
    for (uintptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, outlive, (void *)i) == 0);
    pthread_barrier_wait(&barrier);
    load(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(dl_iterate_phdr(find_hakmem, &tls_bytes) == 1);
    CHECK(tls_bytes <= 2 * sizeof(void *));
    pthread_barrier_wait(&barrier);
    CHECK(work(1) == 0);
    run_in_new_threads();
    void *kept = take(5000);
    pthread_barrier_wait(&barrier);
    CHECK(dlclose(library) == 0);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);

    for (unsigned round = 0; round < 30; round++) {
        load(argv[1], RTLD_LAZY | RTLD_GLOBAL);
        give(kept);
        CHECK(work(round) == 0);
        run_in_new_threads();
        kept = take(round * 1000 + 1);
        CHECK(kept != NULL);
        CHECK(dlclose(library) == 0);
    }
    return process_ok();
}
