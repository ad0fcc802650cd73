/* Any text may stand in HAKMEM_OPTIONS. Whatever it is, each option has a value
 * afterwards that is allowed: written out and read again it is the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "os/memory.h"
#include "os/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const char *const names[] = {"profile",    "stats",       "stats_file", "arena_size",
                                    "decay_ms",   "shards",      "soft_limit", "hard_limit",
                                    "guard_rate", "guard_slots", "hardened",   "zero_on_free",
                                    "history",    "leaks",       "thp",        "verbose"};
enum { TEXT_MAX = 4096, VALUE_MAX = 1024, NAMES = sizeof names / sizeof names[0] };

static void print(const char *name, char value[VALUE_MAX]) {
    struct format_buffer out = format_begin(value, VALUE_MAX - 1);
    if (!options_print(name, &out))
        abort();
    value[out.length] = '\0';
}

/* name=value with its commas escaped. */
static void set_again(const char *name, const char *value) {
    char text[3 * VALUE_MAX];
    size_t length = strlen(name);
    memcpy(text, name, length);
    text[length++] = '=';
    for (; *value != '\0'; value++) {
        if (*value == ',')
            text[length++] = '\\';
        text[length++] = *value;
    }
    text[length] = '\0';
    options_parse(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count >= TEXT_MAX)
        return -1;
    char text[TEXT_MAX];
    memcpy(text, bytes, count);
    text[count] = '\0';
    os_memory_init();
    options_parse(text);
    for (unsigned i = 0; i < NAMES; i++) {
        char before[VALUE_MAX], after[VALUE_MAX];
        print(names[i], before);
        /* An empty path says "standard error", and cannot be said in the variable. */
        if (before[0] == '\0')
            continue;
        set_again(names[i], before);
        print(names[i], after);
        if (strcmp(before, after) != 0)
            abort();
    }
    char path[OPTION_PATH_CAPACITY];
    options_expand_path(text, path, sizeof path);
    if (strnlen(path, sizeof path) == sizeof path)
        abort();
    return 0;
}
