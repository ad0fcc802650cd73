/* HAKMEM has C++'s operators but needs no C++ library: here is a program that
 * has none. It must not get one, its operators must work as far as they can
 * without exceptions, and giving up must say so. */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef void *new_function(size_t size);
typedef void *new_nothrow_function(size_t size, const void *nothrow);
typedef void delete_function(void *block);

struct loaded {
    bool hakmem, cxx;
};

static int note_library(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct loaded *loaded = argument;
    loaded->hakmem |= strstr(info->dlpi_name, "libhakmem") != NULL;
    loaded->cxx |= strstr(info->dlpi_name, "libstdc++") != NULL;
    loaded->cxx |= strstr(info->dlpi_name, "libc++") != NULL;
    return 0;
}

static void no_cxx_library_is_loaded(void **state) {
    (void)state;
    struct loaded loaded = {false, false};
    dl_iterate_phdr(note_library, &loaded);
    assert_true(loaded.hakmem);
    assert_false(loaded.cxx);
}

static void *find(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL)
        fail_msg("%s is missing", name);
    return function;
}

static void operators_work(void **state) {
    (void)state;
    new_function *new_one = (new_function *)find("_Znwm");
    new_function *new_array = (new_function *)find("_Znam");
    delete_function *delete_one = (delete_function *)find("_ZdlPv");
    delete_function *delete_array = (delete_function *)find("_ZdaPv");
    for (size_t size = 0; size < 3000000; size = size * 3 + 1) {
        char *one = new_one(size), *array = new_array(size);
        assert_non_null(one);
        assert_non_null(array);
        assert_ptr_not_equal(one, array);
        memset(one, 1, size);
        memset(array, 2, size);
        delete_one(one);
        delete_array(array);
    }
}

static void nothrow_returns_null(void **state) {
    (void)state;
    new_nothrow_function *nothrow = (new_nothrow_function *)find("_ZnwmRKSt9nothrow_t");
    char tag;
    assert_null(nothrow(SIZE_MAX, &tag));
    assert_null(nothrow((size_t)PTRDIFF_MAX + 1, &tag));
    void *block = nothrow(100, &tag);
    assert_non_null(block);
    ((delete_function *)find("_ZdlPv"))(block);
}

/* Nothing can be thrown, and operator new may not return NULL. */
static void failing_new_aborts_with_a_report(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        void *block = ((new_function *)find("_Znwm"))(SIZE_MAX);
        _exit(block == NULL ? 1 : 2);
    }
    close(ends[1]);
    char text[512] = "";
    ssize_t length = read(ends[0], text, sizeof text - 1);
    assert_true(length > 0);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_int_equal(strncmp(text, "hakmem: out of memory: ", 23), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_cxx_library_is_loaded),
        cmocka_unit_test(operators_work),
        cmocka_unit_test(nothrow_returns_null),
        cmocka_unit_test(failing_new_aborts_with_a_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
