/* What is written before the first block and never after (os/frozen.h) lies in pages that can be
 * made read-only, and nothing else does. */
#include "support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "modes/marks.h"
#include "modes/seal.h"
#include "os/frozen.h"
#include "os/memory.h"
#include "os/options.h"
#include "slab/classes.h"

struct variable {
    const char *name;
    void *start;
    size_t bytes;
};
#define VARIABLE(name) #name, (void *)&(name), sizeof(name)

static const struct variable frozen[] = {
    {VARIABLE(hak_options)},        {VARIABLE(size_classes)},      {VARIABLE(class_table)},
    {VARIABLE(window_first_slab)},  {VARIABLE(window_slab_count)}, {VARIABLE(window_map)},
    {VARIABLE(window_supers)},      {VARIABLE(seal_secrets)},      {VARIABLE(marks_pieces)},
    {VARIABLE(cache_reclaim_held)},
};
enum { FROZEN = sizeof frozen / sizeof frozen[0] };

static uint64_t initialised = 1, zero;

/* The linker's, as in os/frozen.c. */
hak_global char section_start[] __asm__("__start_" HAK_FROZEN_SECTION);
hak_global char section_end[] __asm__("__stop_" HAK_FROZEN_SECTION);

static bool is_frozen(const void *variable) {
    uintptr_t address = (uintptr_t)variable;
    return address >= align_up((uintptr_t)section_start, os_page_size()) &&
           address < align_down((uintptr_t)section_end, os_page_size());
}

static void require_pages_of_4_kib(void) {
    if (os_page_size() != 4096)
        skip();
}

static void lies_in_pages_of_its_own(void **state) {
    (void)state;
    require_pages_of_4_kib();
    for (size_t i = 0; i < FROZEN; i++) {
        const char *start = frozen[i].start;
        if (!is_frozen(start) || !is_frozen(start + frozen[i].bytes - 1))
            fail_msg("%s stays writable", frozen[i].name);
    }
    assert_true(is_frozen(options_profile()));
    assert_false(is_frozen(&initialised));
    assert_false(is_frozen(&zero));
    assert_false(is_frozen((void *)&os_freeze));
}

/* The signal that ends a child that writes there; 0 if none does. */
static int signal_of_a_write(volatile char *place, bool freezes) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); /* the framework's, a sanitizer's */
        if (freezes)
            os_freeze();
        *place = *place;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void may_not_be_written_once_frozen(void **state) {
    (void)state;
    require_pages_of_4_kib();
    for (size_t i = 0; i < FROZEN; i++) {
        char *last = (char *)frozen[i].start + frozen[i].bytes - 1;
        assert_int_equal(signal_of_a_write(last, false), 0);
        assert_int_equal(signal_of_a_write(frozen[i].start, true), SIGSEGV);
        assert_int_equal(signal_of_a_write(last, true), SIGSEGV);
    }
    assert_int_equal(signal_of_a_write((char *)&initialised, true), 0);
    assert_int_equal(signal_of_a_write((char *)&zero, true), 0);
}

int main(void) {
    os_memory_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_in_pages_of_its_own),
        cmocka_unit_test(may_not_be_written_once_frozen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
