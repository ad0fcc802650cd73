/* Random operation sequences against the model: many short ones, which begin
 * with an almost untouched heap of slots each, and a few long ones, in which
 * slabs fill, drain, come back and change their class. With file names as
 * arguments: replays those sequences instead. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "interpreter.h"

#ifndef MODEL_SCALE
#error "MODEL_SCALE: how much this build can run; 100 is all"
#endif

enum { SHORT_SEQUENCES = 8 * MODEL_SCALE, SHORT_BYTES = 2000, LONG_BYTES = 6000 * MODEL_SCALE };

static struct interpreter run;
static bool expects_refusals;

static void test_short_sequences(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SHORT_SEQUENCES; seed++) {
        run = (struct interpreter){.tag_seed = seed, .expects_refusals = expects_refusals};
        interpreter_run_random(&run, seed, SHORT_BYTES);
        interpreter_end(&run);
        assert_true(run.blocks_taken > 50);
    }
    interpreter_expect_empty_heap();
}

static void test_long_sequences(void **state) {
    (void)state;
    static const size_t live_max_bytes[] = {512 << 10, 4 << 20, 32 << 20};
    for (uint64_t seed = 0; seed < sizeof live_max_bytes / sizeof live_max_bytes[0]; seed++) {
        run = (struct interpreter){.tag_seed = seed,
                                   .live_max_bytes = live_max_bytes[seed],
                                   .expects_refusals = expects_refusals};
        interpreter_run_random(&run, seed << 32, LONG_BYTES);
        interpreter_end(&run);
        assert_true(run.blocks_taken > LONG_BYTES / 50);
    }
    interpreter_expect_empty_heap();
}

/* The model would notice: as if the allocator had let somebody else write into a
 * live block. */
static void run_with_a_stray_write(void) {
    run = (struct interpreter){.tag_seed = 7, .expects_refusals = expects_refusals};
    interpreter_run_random(&run, 7, SHORT_BYTES);
    run.by_address[run.live_count / 2]->start[0] ^= 1;
    interpreter_end(&run);
}

static void test_model_notices(void **state) {
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        run_with_a_stray_write();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    char text[512] = "";
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "model: operation "));
    assert_non_null(strstr(text, "was changed at offset 0"));
    close(pipes[0]);
    close(pipes[1]);
}

static int replay(const char *path) {
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    run = (struct interpreter){.tag_seed = 1};
    interpreter_run(&run, bytes, count);
    interpreter_end(&run);
    printf("%s: %llu operations\n", path, (unsigned long long)run.operations);
    return 0;
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_sequences),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_model_notices),
    };
    expects_refusals = count == 2 && strcmp(arguments[1], "--may-refuse") == 0;
    if (count == 1 || expects_refusals)
        return cmocka_run_group_tests(tests, NULL, NULL);
    int status = 0;
    for (int i = 1; i < count; i++)
        status |= replay(arguments[i]);
    return status;
}
