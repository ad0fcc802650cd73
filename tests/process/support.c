#include "support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void check_failed(const char *file, int line, const char *condition) {
    dprintf(STDERR_FILENO, "%s:%d: %s does not hold\n", file, line, condition);
    _exit(1);
}

extern const char *hak_version(void) __attribute__((weak));

void process_begin(void) {
    /* A program that was linked with the static library has no other way to see
     * it than the symbol itself. */
    CHECK(hak_version != NULL || dlsym(RTLD_DEFAULT, "hak_version") != NULL);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    hang_guard();
}

void hang_guard(void) {
    const char *seconds = getenv("HANG_SECONDS");
    alarm(seconds == NULL ? 120 : (unsigned)atoi(seconds));
}

int process_ok(void) {
    puts("ok");
    return 0;
}

static uint64_t next_random(struct traffic *traffic) {
    traffic->random ^= traffic->random << 13;
    traffic->random ^= traffic->random >> 7;
    traffic->random ^= traffic->random << 17;
    return traffic->random;
}

/* The stamps are at both ends, where overlapping neighbours write first. */
static void stamp(char *block, size_t size) {
    memset(block, (int)size & 0xff, size < 8 ? size : 8);
    memset(block + size - (size < 8 ? size : 8), (int)size & 0xff, size < 8 ? size : 8);
}

static bool stamp_holds(const char *block, size_t size, size_t stamped_size, bool both_ends) {
    size_t length = size < 8 ? size : 8;
    for (size_t i = 0; i < length; i++) {
        if (block[i] != (char)stamped_size)
            return false;
        if (both_ends && block[size - 1 - i] != (char)stamped_size)
            return false;
    }
    return true;
}

static size_t random_size(struct traffic *traffic) {
    uint64_t random = next_random(traffic);
    unsigned kind = (unsigned)(random >> 40) % 64;
    size_t limit = kind < 50 ? 512 : kind < 58 ? 8 * KIB : kind < 63 ? 40 * KIB : 256 * KIB;
    return random % limit + 1;
}

void traffic_begin(struct traffic *traffic, unsigned seed) {
    memset(traffic, 0, sizeof *traffic);
    traffic->random = 0x9e3779b97f4a7c15u * (seed + 1);
}

static bool give(struct traffic *traffic, size_t i) {
    char *block = traffic->slots[i].block;
    traffic->slots[i].block = NULL;
    if (block == NULL)
        return true;
    bool whole = stamp_holds(block, traffic->slots[i].size, traffic->slots[i].size, true);
    free(block);
    return whole;
}

static bool resize(struct traffic *traffic, size_t i, size_t size) {
    size_t old = traffic->slots[i].size;
    char *block = realloc(traffic->slots[i].block, size);
    if (block == NULL)
        return false;
    traffic->slots[i].block = block;
    traffic->slots[i].size = size;
    bool whole = stamp_holds(block, old < size ? old : size, old, false);
    stamp(block, size);
    return whole;
}

static bool take(struct traffic *traffic, size_t i, size_t size) {
    bool zero = next_random(traffic) % 4 == 0;
    char *block = zero ? calloc(1, size) : malloc(size);
    if (block == NULL)
        return false;
    if (zero && (block[0] != 0 || block[size / 2] != 0 || block[size - 1] != 0))
        return false;
    traffic->slots[i].block = block;
    traffic->slots[i].size = size;
    stamp(block, size);
    return true;
}

bool traffic_steps(struct traffic *traffic, unsigned count) {
    for (unsigned step = 0; step < count; step++) {
        size_t i = next_random(traffic) % TRAFFIC_SLOTS;
        size_t size = random_size(traffic);
        if (traffic->slots[i].block != NULL && step % 5 == 0) {
            if (!resize(traffic, i, size))
                return false;
        } else if (!give(traffic, i) || !take(traffic, i, size)) {
            return false;
        }
    }
    return true;
}

bool traffic_end(struct traffic *traffic) {
    bool whole = true;
    for (size_t i = 0; i < TRAFFIC_SLOTS; i++)
        whole &= give(traffic, i);
    return whole;
}

bool traffic_run(unsigned seed, unsigned count) {
    struct traffic traffic;
    traffic_begin(&traffic, seed);
    bool whole = traffic_steps(&traffic, count);
    return traffic_end(&traffic) && whole;
}

/* Without stdio, which allocates: asked also when there is no memory left. */
size_t process_status(const char *field) {
    char text[4096], name[64];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    ssize_t length = read(file, text, sizeof text - 1);
    CHECK(length > 0);
    close(file);
    text[length] = '\0';
    snprintf(name, sizeof name, "\n%s:", field);
    const char *line = strstr(text, name);
    CHECK(line != NULL);
    return strtoul(line + strlen(name), NULL, 10);
}

size_t process_mappings(void) {
    char text[4096];
    size_t count = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    for (ssize_t length; (length = read(file, text, sizeof text)) != 0;) {
        CHECK(length > 0);
        for (ssize_t i = 0; i < length; i++)
            count += text[i] == '\n';
    }
    close(file);
    return count;
}

void process_trim(void) {
    int (*trim)(size_t);
    *(void **)&trim = dlsym(RTLD_DEFAULT, "malloc_trim");
    CHECK(trim != NULL);
    trim(0);
}

void wait_for_success(int child) {
    int status = -1;
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
