/* Pages from the kernel.
 *
 *   reserve   address space only: PROT_NONE, not in core files
 *   commit    memory may be touched: a fresh private mapping laid over the
 *             reservation, which also brings it back into core files; the
 *             kernel gives a page when it is first written
 *   purge     the page goes back, the space stays committed
 *
 * Fresh and successfully purged pages are zero; the span layer keeps count of
 * which are, so that calloc need not clear them again.
 *
 * Purging uses MADV_DONTNEED, not MADV_FREE: resident figures must be true. */
#include "os/memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/calls.h"
#include "os/frozen.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* Linux 5.7; older kernels refuse */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels know no such advice */
#endif

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#ifndef MADV_COLD
#define MADV_COLD 20 /* Linux 5.4 */
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#define MADV_GUARD_REMOVE 103
#endif

enum { ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

/* Both are written at the start, under the lock of front/thread.c. */
hak_frozen size_t os_page_bytes;
static bool refuses_huge_pages;

static _Atomic bool lacks_populate; /* the kernel is too old for it */
static _Atomic bool has_guards;     /* marks were seen to work, */
static _Atomic bool lacks_guards;   /* or not, or memory is locked; from then on for ever */

void os_memory_init(void) { os_page_bytes = getauxval(AT_PAGESZ); }

void os_memory_use_thp(enum os_thp thp) { refuses_huge_pages = thp == OS_THP_NEVER; }

static void *map(enum os_call kind, void *address, size_t bytes, int protection, int flags) {
    if (!os_call_begins(kind))
        return NULL;
    int saved_errno = errno;
    void *result = mmap(address, bytes, protection, flags, -1, 0);
    errno = saved_errno;
    return result == MAP_FAILED ? NULL : result;
}

static bool advise(enum os_call kind, void *address, size_t bytes, int advice) {
    if (!os_call_begins(kind))
        return false;
    int saved_errno = errno;
    bool done = madvise(address, bytes, advice) == 0;
    errno = saved_errno;
    return done;
}

/* Of ThreadSanitizer's own library; the program may have it when this library does not. */
void __tsan_init(void) __attribute__((weak));

bool os_may_choose_addresses(void) { return __tsan_init == NULL; }

void *os_reserve(size_t bytes) {
    void *start = map(OS_CALL_RESERVE, NULL, bytes, PROT_NONE, ANONYMOUS);
    if (start != NULL)
        advise(OS_CALL_ADVISE, start, bytes, MADV_DONTDUMP);
    return start;
}

enum os_reserved os_reserve_at(void *address, size_t bytes) {
    if (!os_call_begins(OS_CALL_RESERVE))
        return OS_REFUSED;
    int saved_errno = errno;
    void *start = mmap(address, bytes, PROT_NONE, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    bool occupied = start == MAP_FAILED && errno == EEXIST;
    errno = saved_errno;
    if (start == MAP_FAILED)
        return occupied ? OS_OCCUPIED : OS_REFUSED;
    /* Kernels before 4.17 take the address as a mere hint. */
    if (start != address) {
        os_unmap(start, bytes);
        return OS_OCCUPIED;
    }
    advise(OS_CALL_ADVISE, start, bytes, MADV_DONTDUMP);
    return OS_RESERVED;
}

/* Every mapping that may be written: all alike, so that neighbours join. */
static void *map_memory(enum os_call kind, void *address, size_t bytes, int flags) {
    void *start =
        map(kind, address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags);
    if (start != NULL && refuses_huge_pages)
        advise(OS_CALL_ADVISE, start, bytes, MADV_NOHUGEPAGE);
    return start;
}

bool os_commit(void *address, size_t bytes) {
    return map_memory(OS_CALL_COMMIT, address, bytes, MAP_FIXED) != NULL;
}

void os_ask_huge_pages(void *address, size_t bytes) {
    advise(OS_CALL_ADVISE, address, bytes, MADV_HUGEPAGE);
}

bool os_collapse(void *address, size_t bytes) {
    return advise(OS_CALL_ADVISE, address, bytes, MADV_COLLAPSE);
}

/* The advice is about one page, and so the kernel splits the huge one that it is a part of. */
void os_split_huge_page(void *address) {
    advise(OS_CALL_ADVISE, address, os_page_size(), MADV_COLD);
}

void *os_map_table(size_t bytes) { return map(OS_CALL_MAP, NULL, bytes, PROT_READ, ANONYMOUS); }

bool os_table_make_writable(void *address, size_t bytes) {
    if (!os_call_begins(OS_CALL_COMMIT))
        return false;
    int saved_errno = errno;
    bool done = mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
    errno = saved_errno;
    return done;
}

/* Addresses first, then memory for those that stay: the slack around an alignment must
 * not count as memory where the kernel promises no more than it has. */
void *os_map_aligned(size_t bytes, size_t alignment) {
    if (alignment <= os_page_size())
        return map_memory(OS_CALL_MAP, NULL, bytes, 0);
    size_t slack = alignment - os_page_size();
    if (bytes > PTRDIFF_MAX - slack)
        return NULL;
    char *start = map(OS_CALL_MAP, NULL, bytes + slack, PROT_NONE, ANONYMOUS);
    if (start == NULL)
        return NULL;
    size_t before = align_up((uintptr_t)start, alignment) - (uintptr_t)start;
    if (before != 0)
        os_unmap(start, before);
    if (slack != before)
        os_unmap(start + before + bytes, slack - before);
    if (os_commit(start + before, bytes))
        return start + before;
    os_unmap(start + before, bytes);
    return NULL;
}

/* Where that would make one mapping too many the addresses stay, but no memory. */
void os_unmap(void *address, size_t bytes) {
    int saved_errno = errno;
    if (!os_call_begins(OS_CALL_UNMAP) || munmap(address, bytes) != 0)
        madvise(address, bytes, MADV_DONTNEED);
    errno = saved_errno;
}

void *os_remap(void *address, size_t old_bytes, size_t new_bytes) {
    if (!os_call_begins(OS_CALL_REMAP))
        return NULL;
    int saved_errno = errno;
    void *result = mremap(address, old_bytes, new_bytes, MREMAP_MAYMOVE);
    errno = saved_errno;
    return result == MAP_FAILED ? NULL : result;
}

bool os_move_pages(void *from, void *to, size_t bytes) {
    if (!os_call_begins(OS_CALL_REMAP))
        return false;
    int saved_errno = errno;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    bool moved = mremap(from, bytes, bytes, flags, to) != MAP_FAILED;
    errno = saved_errno;
    /* The kernel leaves an empty mapping at from that nobody else can have got
     * meanwhile; a fresh one over it joins its neighbours again, if it is advised as
     * they are. */
    if (moved)
        os_commit(from, bytes);
    return moved;
}

bool os_purge(void *address, size_t bytes) {
    return advise(OS_CALL_PURGE, address, bytes, MADV_DONTNEED);
}

static void touch(volatile char *start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += os_page_size())
        start[at] = 0;
}

/* False: refused, or the kernel has no such call. */
static bool populate_by_call(void *address, size_t bytes) {
    if (atomic_load_explicit(&lacks_populate, memory_order_relaxed))
        return false;
    int saved_errno = errno;
    bool done = madvise(address, bytes, MADV_POPULATE_WRITE) == 0;
    if (!done && errno == EINVAL)
        atomic_store_explicit(&lacks_populate, true, memory_order_relaxed);
    errno = saved_errno;
    return done;
}

bool os_populate_kept(void *address, size_t bytes) {
    return os_call_begins(OS_CALL_POPULATE) && populate_by_call(address, bytes);
}

bool os_populate(void *address, size_t bytes) {
    if (!os_call_begins(OS_CALL_POPULATE))
        return false;
    if (populate_by_call(address, bytes))
        return true;
    if (!atomic_load_explicit(&lacks_populate, memory_order_relaxed))
        return false;
    touch(address, bytes);
    return true;
}

/* Emulators may take the advice and do nothing. Who writes to the page is the kernel, which says so
 * where a program would fault. */
static bool is_inaccessible(void *address) {
    return syscall(SYS_getrandom, address, 1, GRND_NONBLOCK) != 1;
}

/* By a mark in the page tables that faults: no mapping changes. */
static bool mark(void *address, size_t bytes) {
    if (os_guard_splits() || madvise(address, bytes, MADV_GUARD_INSTALL) != 0)
        return false;
    if (atomic_load_explicit(&has_guards, memory_order_relaxed))
        return true;
    bool works = is_inaccessible(address);
    atomic_store_explicit(&has_guards, works, memory_order_relaxed);
    return works;
}

bool os_guard_splits(void) { return atomic_load_explicit(&lacks_guards, memory_order_relaxed); }

bool os_guard(void *address, size_t bytes) {
    if (!os_call_begins(OS_CALL_GUARD))
        return false;
    int saved_errno = errno;
    bool done = mark(address, bytes);
    if (!done) {
        atomic_store_explicit(&lacks_guards, true, memory_order_relaxed);
        done =
            mprotect(address, bytes, PROT_NONE) == 0 && madvise(address, bytes, MADV_DONTNEED) == 0;
    }
    errno = saved_errno;
    return done;
}

/* Some of the pages may have been guarded in one way and some in the other. */
bool os_unguard(void *address, size_t bytes) {
    if (!os_call_begins(OS_CALL_GUARD))
        return false;
    int saved_errno = errno;
    bool splits = os_guard_splits();
    bool done = !splits || mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
    bool unmarked = madvise(address, bytes, MADV_GUARD_REMOVE) == 0;
    errno = saved_errno;
    return done && (unmarked || splits);
}

size_t os_resident_pages(void *address, size_t bytes) {
    if (!os_call_begins(OS_CALL_LOOK))
        return 0;
    unsigned char in_memory[OS_RESIDENT_MAX_PAGES];
    size_t pages = hak_min(bytes / os_page_size(), (size_t)OS_RESIDENT_MAX_PAGES);
    int saved_errno = errno;
    bool told = mincore(address, pages * os_page_size(), in_memory) == 0;
    errno = saved_errno;
    size_t resident = 0;
    for (size_t i = 0; told && i < pages; i++)
        resident += in_memory[i] & 1;
    return resident;
}
