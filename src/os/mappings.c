/* proc(5), /proc/PID/maps, a line a mapping:
 *
 *   7f3fc98ca000-7f3fc98cc000 rw-p 001d7000 fe:00 1234   /lib/x86_64-linux-gnu/libc.so.6
 *
 * The kernel makes each line when it is read, so what is mapped meanwhile may be missed.
 *
 * And /proc/PID/pagemap, a word a page, of which two bits matter here:
 *
 *   | 63 present | ... | 56 mapped once, by this process | ... | */
#include "os/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/calls.h"
#include "os/memory.h"

enum { LINE_START_BYTES = 40 }; /* two addresses and the rights */

struct parser {
    char line[LINE_START_BYTES + 1];
    size_t length; /* of the line so far, at most LINE_START_BYTES of it kept */
    void (*visit)(uintptr_t start, uintptr_t end, void *context);
    void *context;
};

static void end_line(struct parser *parser) {
    parser->line[hak_min(parser->length, (size_t)LINE_START_BYTES)] = '\0';
    parser->length = 0;
    char *at;
    uintptr_t start = strtoul(parser->line, &at, 16);
    if (*at != '-')
        return;
    uintptr_t end = strtoul(at + 1, &at, 16);
    if (strncmp(at, " rw", 3) == 0)
        parser->visit(start, end, parser->context);
}

static void take(struct parser *parser, char character) {
    if (character == '\n') {
        end_line(parser);
    } else {
        if (parser->length < LINE_START_BYTES)
            parser->line[parser->length] = character;
        parser->length++;
    }
}

bool os_visit_mappings(void (*visit)(uintptr_t start, uintptr_t end, void *context),
                       void *context) {
    struct parser parser = {.visit = visit, .context = context};
    char text[1024];
    int saved_errno = errno;
    int file = -1;
    if (os_call_begins(OS_CALL_READ))
        file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    long got = -1;
    while (file >= 0 && ((got = syscall(SYS_read, file, text, sizeof text)) > 0 ||
                         (got < 0 && errno == EINTR))) {
        for (long i = 0; i < got; i++)
            take(&parser, text[i]);
    }
    if (file >= 0)
        syscall(SYS_close, file);
    errno = saved_errno;
    return got == 0;
}

bool os_read_memory(uintptr_t from, void *to, size_t bytes) {
    if (!os_call_begins(OS_CALL_READ))
        return false;
    struct iovec here = {to, bytes};
    struct iovec there = {(void *)from, bytes}; // NOLINT(performance-no-int-to-ptr)
    int saved_errno = errno;
    long got = syscall(SYS_process_vm_readv, getpid(), &here, 1UL, &there, 1UL, 0UL);
    errno = saved_errno;
    return got == (long)bytes;
}

static size_t own_among(const uint64_t *entries, size_t count) {
    const uint64_t own = UINT64_C(1) << 63 | UINT64_C(1) << 56;
    size_t pages = 0;
    for (size_t i = 0; i < count; i++)
        pages += (entries[i] & own) == own;
    return pages;
}

size_t os_own_pages(const void *start, size_t bytes) {
    enum { ENTRIES = 512 }; /* of 2 MiB: one call into the kernel */
    uint64_t entries[ENTRIES];
    size_t page = (uintptr_t)start / os_page_size();
    size_t end = page + bytes / os_page_size();
    size_t own = 0;
    int saved_errno = errno;
    int file = -1;
    if (os_call_begins(OS_CALL_READ))
        file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    while (file >= 0 && page < end) {
        size_t wanted = hak_min(end - page, (size_t)ENTRIES) * sizeof *entries;
        long got = syscall(SYS_pread64, file, entries, wanted, page * sizeof *entries);
        if (got <= 0)
            break;
        own += own_among(entries, (size_t)got / sizeof *entries);
        page += (size_t)got / sizeof *entries;
    }
    if (file >= 0)
        syscall(SYS_close, file);
    errno = saved_errno;
    return own;
}
