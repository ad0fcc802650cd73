/* A program loads a library that links HAKMEM. Where HAKMEM is there already, the plugin
 * works with it. Where it is not, musl has no thread-local room for it, which the dynamic
 * linker says, and the program goes on; glibc keeps some: dlopen_plugin.c.
 *
 * usage: dlopen_refused PLUGIN refused|taken */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

typedef int work_function(unsigned seed);

static void expect_refusal(const char *path) {
    for (int i = 0; i < 3; i++) {
        CHECK(dlopen(path, RTLD_NOW) == NULL);
        CHECK(strstr(dlerror(), "initial-exec TLS") != NULL);
        CHECK(traffic_run(1, 1000));
    }
}

static void expect_work(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library != NULL);
    work_function *work = (work_function *)dlsym(library, "plugin_work");
    CHECK(work != NULL && work(1) == 0);
    CHECK(traffic_run(2, 1000));
    CHECK(dlclose(library) == 0);
}

int main(int argc, char **argv) {
    hang_guard();
    CHECK(argc == 3);
    if (strcmp(argv[2], "refused") == 0)
        expect_refusal(argv[1]);
    else
        expect_work(argv[1]);
    return process_ok();
}
