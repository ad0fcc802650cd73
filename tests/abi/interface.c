/* Finding the functions under test, and helpers that tests share. */
#include "interface.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct interface api;

static const char *mode;

struct slot {
    const char *name;
    void **function;
    bool glibc_has_it; /* Debian 12's glibc, among the names that programs link to */
};

#define SLOT(name, glibc_has_it)                                                                   \
    { #name, (void **)&api.name, glibc_has_it }

static const struct slot slots[] = {
    SLOT(malloc, true),       SLOT(calloc, true),        SLOT(realloc, true),
    SLOT(reallocarray, true), SLOT(free, true),          SLOT(cfree, false),
    SLOT(memalign, true),     SLOT(aligned_alloc, true), SLOT(posix_memalign, true),
    SLOT(valloc, true),       SLOT(pvalloc, true),       SLOT(malloc_usable_size, true),
    SLOT(malloc_trim, true),  SLOT(mallopt, true),       SLOT(malloc_stats, true),
    SLOT(free_sized, false),  SLOT(sdallocx, false),     SLOT(free_aligned_sized, false),
    SLOT(nallocx, false),
#ifdef __GLIBC__
    SLOT(mallinfo, true),     SLOT(mallinfo2, true),     SLOT(malloc_info, true),
#endif
};

bool abi_is_glibc(void) { return strcmp(mode, "glibc") == 0; }

/* The dynamic linker only warns when a preload fails; a test that then passes
 * on glibc's malloc would prove nothing. */
static void check_origin(const char *name, void *function) {
    Dl_info info;
    bool ours = dladdr(function, &info) != 0 && strstr(info.dli_fname, "libhakmem") != NULL;
    if (ours == abi_is_glibc()) {
        fprintf(stderr, "mode %s, but %s is from %s\n", mode, name, info.dli_fname);
        exit(2);
    }
}

static void load_interface(void) {
    const char *prefix = strcmp(mode, "hak") == 0 ? "hak_" : "";
    for (size_t i = 0; i < TEST_COUNT_OF(slots); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, slots[i].name);
        void *function = dlsym(RTLD_DEFAULT, name);
        if (function == NULL && (!abi_is_glibc() || slots[i].glibc_has_it)) {
            fprintf(stderr, "mode %s, but %s is missing\n", mode, name);
            exit(2);
        }
        if (function != NULL)
            check_origin(name, function);
        memcpy(slots[i].function, &function, sizeof function);
    }
}

bool abi_is_hardened(void) {
    const char *options = getenv("HAKMEM_OPTIONS");
    return !abi_is_glibc() && options != NULL && strstr(options, "hardened=") != NULL;
}

int abi_main(int argc, char **argv, const struct abi_test *tests, size_t count) {
    static const char *const modes[] = {"glibc", "preload", "linked", "hak"};
    for (size_t i = 0; argc == 2 && i < TEST_COUNT_OF(modes); i++) {
        if (strcmp(argv[1], modes[i]) == 0)
            mode = modes[i];
    }
    if (mode == NULL) {
        fprintf(stderr, "usage: %s glibc|preload|linked|hak\n", argv[0]);
        return 2;
    }
    load_interface();

    static struct CMUnitTest chosen[64];
    size_t chosen_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (abi_is_glibc() && tests[i].except != NULL) {
            printf("left out of glibc: %s: %s\n", tests[i].name, tests[i].except);
            continue;
        }
        chosen[chosen_count++] =
            (struct CMUnitTest){.name = tests[i].name, .test_func = tests[i].run};
    }
    return _cmocka_run_group_tests(mode, chosen, chosen_count, NULL, NULL);
}

/* Word by word, for blocks are large and the machine is shared. The words of two
 * seeds, or of two places, differ in most of their bytes. */
static uint64_t pattern_word(size_t index, unsigned seed) {
    uint64_t word = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xd6e8feb86659fd93u;
    return word ^ word >> 32;
}

void pattern_fill(void *block, size_t size, unsigned seed) {
    unsigned char *bytes = block;
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word = pattern_word(at, seed);
        size_t left = size - at;
        memcpy(bytes + at, &word, left < sizeof word ? left : sizeof word);
    }
}

bool pattern_holds(const void *block, size_t size, unsigned seed) {
    const unsigned char *bytes = block;
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word = pattern_word(at, seed);
        size_t left = size - at;
        if (memcmp(bytes + at, &word, left < sizeof word ? left : sizeof word) != 0)
            return false;
    }
    return true;
}

bool is_all_zero(const void *block, size_t size) {
    const unsigned char *bytes = block;
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Field `which` of /proc/self/statm, in pages: 0 size, 1 resident, 2 shared. */
static size_t statm_pages(unsigned which) {
    unsigned long fields[3];
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu %lu", &fields[0], &fields[1], &fields[2]), 3);
    fclose(file);
    return fields[which];
}

size_t resident_bytes(void) {
    return (statm_pages(1) - statm_pages(2)) * (size_t)sysconf(_SC_PAGESIZE);
}

size_t virtual_bytes(void) { return statm_pages(0) * (size_t)sysconf(_SC_PAGESIZE); }
