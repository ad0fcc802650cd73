/* The end of a process: handlers of atexit and on_exit, registered early and
 * late and by each other, destructors, and the flush of a stream, which comes
 * after all of them: each takes and gives memory while other threads still run
 * and allocate until the very last moment. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static char *kept[100];
static unsigned handlers_run;

static void take_kept(void) {
    for (size_t i = 0; i < 100; i++) {
        kept[i] = malloc(i * 50 + 1);
        CHECK(kept[i] != NULL);
        memset(kept[i], 'k', i * 50 + 1);
    }
}

static void give_kept(void) {
    for (size_t i = 0; i < 100; i++) {
        CHECK(kept[i][i * 50] == 'k');
        free(kept[i]);
    }
}

static void last_handler(void) {
    handlers_run++;
    CHECK(traffic_run(5, 2000));
    give_kept();
    CHECK(handlers_run == 3);
}

static void handler_of_a_handler(void) {
    handlers_run++;
    CHECK(traffic_run(6, 2000));
}

static char *kept_text;

static void first_handler(void) {
    handlers_run++;
    CHECK(strcmp(kept_text, "text") == 0);
    free(kept_text);
    CHECK(traffic_run(7, 2000));
    CHECK(atexit(handler_of_a_handler) == 0);
}

static void *allocate_for_ever(void *argument) {
    struct traffic traffic;
    traffic_begin(&traffic, (unsigned)(uintptr_t)argument);
    for (;;)
        CHECK(traffic_steps(&traffic, 1000));
    return NULL;
}

__attribute__((destructor)) static void destructor(void) { CHECK(traffic_run(8, 2000)); }

/* The last code of a process that may be a program's own. */
static ssize_t write_last(void *cookie, const char *text, size_t length) {
    (void)cookie;
    CHECK(traffic_run(9, 2000));
    usleep(20000);
    return write(STDOUT_FILENO, text, length);
}

int main(void) {
    process_begin();
    CHECK(atexit(last_handler) == 0);
    take_kept();
    kept_text = strdup("text");
    CHECK(atexit(first_handler) == 0);
    for (uintptr_t i = 0; i < 6; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, allocate_for_ever, (void *)i) == 0);
    }
    usleep(20000);
    FILE *last = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_last});
    CHECK(last != NULL && fputs("ok\n", last) >= 0);
    exit(0);
}
