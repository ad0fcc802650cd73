/* A kernel that is not this one, in front of this one: larger pages, fewer addresses,
 * less memory to promise. Preloaded, it takes the place of the C library's calls.
 *
 *   LD_PRELOAD=libhakmem.so:libkernel.so KERNEL=page=65536,address_bits=39 PROGRAM
 *
 * (in this order: the dynamic linker makes the last one ready first)
 *
 *   page=BYTES           pages of 16 or 64 KiB. What would be rounded or refused on such a
 *                        kernel ends the process: every address and every length that is
 *                        no multiple of the page
 *   address_bits=N       addresses end at 2^N
 *   largest_map=BYTES    no mapping is larger, as under Valgrind
 *   newest_advice=N      madvise knows none with a higher number, as older kernels do not
 *   commit=BYTES         vm.overcommit_memory=2: private writable memory, touched or not,
 *                        may grow by so much, and MAP_NORESERVE counts for nothing
 *
 * Only calls through the dynamic linker's names come here: those of HAKMEM and of the
 * program, not the C library's own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define EXPORT __attribute__((visibility("default")))
/* The C libraries disagree about const and about types as wide as these. */
#define ADDRESS(pointer) ((uintptr_t)(pointer))

enum { REAL_PAGE = 4096, ANY_PLACE = MAP_FIXED | MAP_FIXED_NOREPLACE };

static struct {
    bool is_known;
    size_t page;
    uintptr_t address_end;
    size_t largest_map;
    size_t newest_advice;
    size_t commit_limit;
} kernel;

static void complain(const char *call, uintptr_t address, size_t bytes) {
    dprintf(STDERR_FILENO, "kernel: %s(%#zx, %#zx): no multiples of %#zx\n", call, (size_t)address,
            bytes, kernel.page);
    abort();
}

static size_t setting(const char *name, size_t otherwise) {
    const char *text = environ == NULL ? NULL : getenv("KERNEL");
    size_t length = strlen(name);
    while (text != NULL && *text != '\0') {
        if (strncmp(text, name, length) == 0 && text[length] == '=')
            return strtoul(text + length + 1, NULL, 0);
        text = strchr(text, ',');
        text += text != NULL;
    }
    return otherwise;
}

/* --- how much is promised ------------------------------------------------------ */

/* Bytes of private writable mappings outside [low, high). */
static size_t promised_outside(uintptr_t low, uintptr_t high) {
    char text[8192];
    size_t total = 0, held = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t got;
    while (file >= 0 && (got = read(file, text + held, sizeof text - 1 - held)) > 0) {
        held += (size_t)got;
        text[held] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            char *at;
            uintptr_t start = strtoul(line, &at, 16), stop = strtoul(at + 1, &at, 16);
            if (at[2] != 'w' || at[4] != 'p')
                continue;
            uintptr_t from = start > low ? start : low, to = stop < high ? stop : high;
            total += stop - start - (to > from ? to - from : 0);
        }
        held -= (size_t)(line - text);
        memmove(text, line, held);
    }
    if (file >= 0)
        close(file);
    return total;
}

/* Whether [address, address + bytes) may become private and writable. */
static bool may_promise(uintptr_t address, size_t bytes) {
    if (kernel.commit_limit == SIZE_MAX)
        return true;
    return promised_outside(address, address + bytes) + bytes <= kernel.commit_limit;
}

static void know(void) {
    if (kernel.is_known)
        return;
    kernel.page = setting("page", REAL_PAGE);
    size_t bits = setting("address_bits", 64);
    kernel.address_end = bits < 64 ? (uintptr_t)1 << bits : UINTPTR_MAX;
    kernel.largest_map = setting("largest_map", SIZE_MAX);
    kernel.newest_advice = setting("newest_advice", SIZE_MAX);
    size_t commit = setting("commit", SIZE_MAX);
    kernel.commit_limit = commit == SIZE_MAX ? commit : promised_outside(0, 0) + commit;
    /* Asked inside the dynamic linker, it is to be asked again. */
    kernel.is_known = environ != NULL;
}

static void demand_pages(const char *call, const void *address, size_t bytes) {
    know();
    if (ADDRESS(address) % kernel.page != 0 || bytes % kernel.page != 0)
        complain(call, ADDRESS(address), bytes);
}

static bool fits(uintptr_t address, size_t bytes) {
    return bytes <= kernel.largest_map && bytes <= kernel.address_end &&
           address <= kernel.address_end - bytes;
}

static void *refuse(void) {
    errno = ENOMEM;
    return MAP_FAILED;
}

/* --- where ---------------------------------------------------------------------- */

static void *real_mmap(uintptr_t address, size_t bytes, int protection, int flags, int file,
                       off_t offset) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

/* Below the end of a short address space: from the top down, again from the top when the
 * bottom is reached. */
static void *place_below(size_t bytes, int protection, int flags) {
    static _Atomic uintptr_t next;
    uintptr_t top = kernel.address_end - ((uintptr_t)1 << 30), bottom = (uintptr_t)4 << 30;
    uintptr_t step = bytes < (1 << 20) ? 1 << 20 : bytes;
    for (unsigned turns = 0; turns < 2;) {
        uintptr_t end = next == 0 ? top : next;
        if (end < bottom + bytes) {
            next = top;
            turns++;
            continue;
        }
        uintptr_t start = (end - bytes) / kernel.page * kernel.page;
        void *result = real_mmap(start, bytes, protection, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (result != MAP_FAILED) {
            next = start;
            return result;
        }
        if (errno != EEXIST)
            return MAP_FAILED;
        next = end - step;
    }
    return refuse();
}

static void *place(size_t bytes, int protection, int flags) {
    if (kernel.address_end != UINTPTR_MAX)
        return place_below(bytes, protection, flags);
    if (kernel.page == REAL_PAGE)
        return real_mmap(0, bytes, protection, flags, -1, 0);
    char *start = real_mmap(0, bytes + kernel.page, protection, flags, -1, 0);
    if (start == MAP_FAILED)
        return MAP_FAILED;
    size_t before = -ADDRESS(start) % kernel.page;
    if (before != 0)
        syscall(SYS_munmap, start, before);
    syscall(SYS_munmap, start + before + bytes, kernel.page - before);
    return start + before;
}

/* --- the calls ------------------------------------------------------------------ */

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (file >= 0)
        return real_mmap(ADDRESS(address), bytes, protection, flags, file, offset);
    demand_pages("mmap", address, bytes);
    bool is_fixed = (flags & ANY_PLACE) != 0;
    uintptr_t start = is_fixed ? ADDRESS(address) : 0;
    bool promises = (protection & PROT_WRITE) != 0 && (flags & MAP_PRIVATE) != 0;
    if (!fits(start, bytes) || (promises && !may_promise(start, bytes)))
        return refuse();
    return is_fixed ? real_mmap(start, bytes, protection, flags, -1, 0)
                    : place(bytes, protection, flags);
}

EXPORT int munmap(void *address, size_t bytes) {
    demand_pages("munmap", address, bytes);
    return (int)syscall(SYS_munmap, address, bytes);
}

EXPORT int mprotect(void *address, size_t bytes, int protection) {
    demand_pages("mprotect", address, bytes);
    if ((protection & PROT_WRITE) != 0 && !may_promise(ADDRESS(address), bytes)) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_mprotect, address, bytes, protection);
}

EXPORT int madvise(void *address, size_t bytes, int advice) {
    demand_pages("madvise", address, bytes);
    if ((size_t)advice > kernel.newest_advice) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

EXPORT void *mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, ...) {
    demand_pages("mremap", address, old_bytes);
    demand_pages("mremap", NULL, new_bytes);
    va_list more;
    va_start(more, flags);
    uintptr_t to = (flags & MREMAP_FIXED) != 0 ? ADDRESS(va_arg(more, void *)) : 0;
    va_end(more);
    size_t growth = new_bytes > old_bytes ? new_bytes - old_bytes : 0;
    if (!fits(to, new_bytes) || !may_promise(0, growth))
        return refuse();
    // NOLINTBEGIN(performance-no-int-to-ptr)
    if ((flags & MREMAP_FIXED) != 0) {
        demand_pages("mremap", (void *)to, 0);
        return (void *)syscall(SYS_mremap, address, old_bytes, new_bytes, flags, to);
    }
    void *result = (void *)syscall(SYS_mremap, address, old_bytes, new_bytes, 0);
    if (result != MAP_FAILED || (flags & MREMAP_MAYMOVE) == 0)
        return result;
    void *elsewhere = place(new_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (elsewhere == MAP_FAILED)
        return elsewhere;
    return (void *)syscall(SYS_mremap, address, old_bytes, new_bytes, flags | MREMAP_FIXED,
                           elsewhere);
    // NOLINTEND(performance-no-int-to-ptr)
}

/* A large page is in memory if any part of it is. */
EXPORT int mincore(void *address, size_t bytes, unsigned char *in_memory) {
    demand_pages("mincore", address, bytes);
    for (size_t i = 0; i < bytes / kernel.page; i++) {
        unsigned char parts[65536 / REAL_PAGE];
        char *page = (char *)address + i * kernel.page;
        if (syscall(SYS_mincore, page, kernel.page, parts) != 0)
            return -1;
        in_memory[i] = 0;
        for (size_t part = 0; part < kernel.page / REAL_PAGE; part++)
            in_memory[i] |= parts[part] & 1;
    }
    return 0;
}

/* Not through dlsym, which allocates: HAKMEM asks at its start. */
EXPORT unsigned long getauxval(unsigned long type) {
    know();
    unsigned long pair[2], value = 0;
    int file = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    while (file >= 0 && read(file, pair, sizeof pair) == (ssize_t)sizeof pair) {
        if (pair[0] == type)
            value = pair[1];
    }
    if (file >= 0)
        close(file);
    return type == AT_PAGESZ ? kernel.page : value;
}

EXPORT long sysconf(int name) {
    know();
    long (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_PAGESIZE ? (long)kernel.page : real(name);
}
