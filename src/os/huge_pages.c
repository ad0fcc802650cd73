/* Reading /sys/kernel/mm/transparent_hugepage.
 *
 *   enabled                    always [madvise] never    for the page of a whole table,
 *   hpage_pmd_size             2097152                   which has this size
 *   hugepages-64kB/enabled     always inherit [madvise] never
 *   hugepages-2048kB/enabled   always [inherit] madvise never
 *
 * The files of single sizes came with Linux 6.8; inherit means as in the first file. Of
 * the sizes that advice brings the kernel takes the largest that fits. */
#include "os/huge_pages.h"

#include <string.h>

#include "base/format.h"
#include "os/memory.h"
#include "os/system.h"

enum { TEXT_BYTES = 128, PATH_BYTES = 128 };

/* The word in brackets is what is chosen. */
static bool chosen_is(const char *text, const char *word) {
    const char *begin = strchr(text, '[');
    size_t length = strlen(word);
    return begin != NULL && strncmp(begin + 1, word, length) == 0 && begin[1 + length] == ']';
}

static bool gives_on_advice(const char *text) {
    return chosen_is(text, "madvise") || chosen_is(text, "always");
}

static size_t number_in(const char *text) {
    size_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (size_t)(*text - '0');
    return number;
}

/* Whether one size is given; without a file of its own the whole table's is. */
static bool is_given(huge_page_reader *read, size_t bytes, size_t table_bytes, bool by_default) {
    char name[64];
    char text[TEXT_BYTES];
    struct format_buffer out = format_begin(name, sizeof name - 1);
    format_add(&out, "hugepages-%zukB/enabled", bytes / KIB);
    name[out.length] = '\0';
    if (!read(name, text, sizeof text))
        return bytes == table_bytes && by_default;
    return gives_on_advice(text) || (chosen_is(text, "inherit") && by_default);
}

size_t huge_page_bytes(huge_page_reader *read, size_t page_bytes, size_t most_bytes) {
    char text[TEXT_BYTES];
    bool by_default = read("enabled", text, sizeof text) && gives_on_advice(text);
    size_t table_bytes = read("hpage_pmd_size", text, sizeof text) ? number_in(text) : 0;
    for (size_t bytes = most_bytes; bytes > page_bytes; bytes /= 2) {
        if (is_given(read, bytes, table_bytes, by_default))
            return bytes;
    }
    return 0;
}

static bool read_setting(const char *name, char *text, size_t capacity) {
    char path[PATH_BYTES];
    struct format_buffer out = format_begin(path, sizeof path - 1);
    format_add(&out, "/sys/kernel/mm/transparent_hugepage/%s", name);
    path[out.length] = '\0';
    return os_file_read(path, text, capacity);
}

size_t os_huge_page_bytes(size_t most_bytes) {
    return huge_page_bytes(read_setting, os_page_size(), most_bytes);
}
