/* Every size, however it was asked for, written to one byte too far. usage: overflow
 *
 * Each is a child of its own, which must raise SIGABRT after one line that begins with the
 * kind; beside it another goes to the last byte, and nothing may happen. Prints how many. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static void *volatile hidden;

static char *by_malloc(size_t size) { return malloc(size); }
static char *by_calloc(size_t size) { return calloc(1, size); }
static char *by_growing(size_t size) { return realloc(malloc(size / 3 + 1), size); }
static char *by_shrinking(size_t size) { return realloc(malloc(size + size / 4 + 40), size); }
static char *by_aligned_alloc(size_t size) { return aligned_alloc(64, size); }
static char *by_memalign(size_t size) { return memalign(4096, size); }
static char *by_wide_memalign(size_t size) { return memalign((size_t)256 * 1024, size); }

static const struct way {
    const char *name;
    char *(*take)(size_t size);
    size_t least;
} ways[] = {
    {"malloc", by_malloc, 0},
    {"calloc", by_calloc, 0},
    {"realloc to more", by_growing, 1},
    {"realloc to less", by_shrinking, 1},
    {"aligned_alloc(64)", by_aligned_alloc, 0},
    {"memalign(4096)", by_memalign, 0},
    {"memalign(256K)", by_wide_memalign, 0},
};

enum last { LAST_BYTE, CHANGED_BYTE_BEHIND, ZERO_BEHIND };

static void write_and_free(const struct way *way, size_t size, enum last last) {
    char *block = way->take(size);
    CHECK(block != NULL);
    CHECK(malloc_usable_size(block) == size);
    hidden = block;
    char *at = hidden;
    if (last == LAST_BYTE && size != 0)
        at[size - 1] ^= 0x55;
    if (last == CHANGED_BYTE_BEHIND)
        at[size] ^= 0x55;
    if (last == ZERO_BEHIND)
        at[size] = 0;
    free(block);
}

/* All that comes, for who has nobody to read from it is ended by another signal. */
static size_t read_all(int end, char *text, size_t capacity) {
    char rest[600];
    size_t length = 0;
    ssize_t part;
    while ((part = read(end, rest, sizeof rest)) > 0) {
        size_t kept = (size_t)part < capacity - length ? (size_t)part : capacity - length;
        memcpy(text + length, rest, kept);
        length += kept;
    }
    CHECK(part == 0);
    return length;
}

/* Whether a child that does so ends with a report. */
static bool is_reported(const struct way *way, size_t size, enum last last) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
        write_and_free(way, size, last);
        _exit(0);
    }
    close(ends[1]);
    char text[600];
    size_t length = read_all(ends[0], text, sizeof text - 1);
    close(ends[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (length == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    CHECK(length > 0);
    text[length] = '\0';
    static const char kind[] = "hakmem: heap overflow: ";
    if (strncmp(text, kind, strlen(kind)) == 0 && WIFSIGNALED(status) &&
        WTERMSIG(status) == SIGABRT)
        return true;
    fprintf(stderr, "%s of %zu bytes: status %d, %s", way->name, size, status, text);
    exit(1);
}

static size_t checked;

static void check_size(const struct way *way, size_t size) {
    static const enum last lasts[] = {LAST_BYTE, CHANGED_BYTE_BEHIND, ZERO_BEHIND};
    for (size_t i = 0; i < sizeof lasts / sizeof lasts[0]; i++) {
        if (is_reported(way, size, lasts[i]) == (lasts[i] != LAST_BYTE))
            continue;
        fprintf(stderr, "%s of %zu bytes, %zu: %s\n", way->name, size, i,
                lasts[i] == LAST_BYTE ? "reported" : "not reported");
        exit(1);
    }
    checked++;
}

int main(void) {
    process_begin();
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        for (size_t size = ways[i].least; size <= 48; size++)
            check_size(&ways[i], size);
        /* Around the edges of size classes, of slabs, of large blocks. */
        for (size_t edge = 64; edge <= 2 * MIB; edge += edge < 256 ? 16 : edge * 3 / 4 / 16 * 16) {
            for (size_t less = 0; less <= 9; less += less == 0 ? 7 : 1)
                check_size(&ways[i], edge - less);
        }
        static const size_t others[] = {100 * KIB, MIB - 8, MIB - 7, MIB, 3 * MIB, 3 * MIB + 65528};
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++)
            check_size(&ways[i], others[j]);
    }
    check_size(&ways[0], GIB - 8);
    check_size(&ways[0], GIB + 4096);
    check_size(&ways[0], GIB + 5);
    printf("%zu sizes\n", checked);
    return 0;
}
