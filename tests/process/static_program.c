/* A program without a dynamic linker: libhakmem.a in it, threads, fork, the
 * whole interface at work. Also run with raised privileges, by its driver: then
 * the environment must not steer it. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "hakmem/hakmem.h"
#include "support.h"

static void *work(void *argument) {
    CHECK(traffic_run((unsigned)(uintptr_t)argument, 5000));
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[6];
    for (uintptr_t i = 0; i < 6; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 6; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void check_interface(void) {
    void *volatile block = malloc(100);
    CHECK(hak_malloc_usable_size(block) == malloc_usable_size(block)); /* so malloc is ours */
    hak_free(block);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 4096, 100) == 0 && (uintptr_t)aligned % 4096 == 0);
    free(aligned);
    char *copy = strdup("libc's own calls come to us as well");
    CHECK(copy != NULL && hak_malloc_usable_size(copy) >= 36);
    free(copy);
#ifdef __GLIBC__
    CHECK(mallopt(M_ARENA_MAX, 1) == 1);
    CHECK(mallinfo2().arena > 0);
#endif
    volatile size_t impossible = SIZE_MAX;
    errno = 0;
    CHECK(malloc(impossible) == NULL && errno == ENOMEM);
}

int main(void) {
    process_begin();
    printf("secure %lu\n", getauxval(AT_SECURE));
    char profile[16];
    CHECK(hak_option_get("profile", profile, sizeof profile) > 0);
    printf("profile %s\n", profile);
    check_interface();
    run_threads();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_threads();
        _exit(0);
    }
    wait_for_success(child);
    return process_ok();
}
