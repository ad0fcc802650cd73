/* HAKMEM: a general-purpose memory allocator for Linux. Public C interface.
 *
 * Every function here has a twin under its standard name (malloc, free, ...)
 * in libhakmem.so and libhakmem.a; the hak_ names reach HAKMEM also in a
 * program whose malloc is somebody else's. A block may be given back through
 * either family of names.
 *
 * Unless a line says otherwise:
 *   sizes        are bytes; any size up to PTRDIFF_MAX may be asked for
 *   blocks       are 16-byte aligned, contents undefined
 *   failure      NULL with errno = ENOMEM; the heap is left as it was
 *   threads      every function may be called from any thread at any time, in
 *                constructors, TLS destructors, atexit handlers and between
 *                fork and exec; none is async-signal-safe
 *   bad pointers are reported on standard error, then SIGABRT
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>
#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h> /* struct mallinfo, mallinfo2 */
#endif

#ifdef __cplusplus
extern "C" {
#define HAK_NOEXCEPT noexcept
#else
#define HAK_NOEXCEPT
#endif

#define HAK_VERSION_MAJOR 0
#define HAK_VERSION_MINOR 1
#define HAK_VERSION_PATCH 0

#define HAK_EXPORT __attribute__((visibility("default")))
#define HAK_ALLOCATES(...) __attribute__((malloc, warn_unused_result, alloc_size(__VA_ARGS__)))

/* "major.minor.patch" of the library at run time; a static string. */
HAK_EXPORT const char *hak_version(void) HAK_NOEXCEPT;

/* --- C (ISO C17 7.22.3) -------------------------------------------------- */

/* size 0 gives a unique block that must be freed. */
HAK_EXPORT void *hak_malloc(size_t size) HAK_NOEXCEPT HAK_ALLOCATES(1);

/* count * size bytes, all zero. A product that overflows is ENOMEM. */
HAK_EXPORT void *hak_calloc(size_t count, size_t size) HAK_NOEXCEPT HAK_ALLOCATES(1, 2);

/* Resizes ptr's block, moving it if need be; contents up to the smaller size
 * are kept, and on failure ptr stays valid. ptr NULL: hak_malloc(size). size 0
 * with a block: frees it and returns NULL, as glibc does. */
HAK_EXPORT void *hak_realloc(void *ptr, size_t size) HAK_NOEXCEPT
    __attribute__((warn_unused_result, alloc_size(2)));

/* NULL is ignored. errno is kept. */
HAK_EXPORT void hak_free(void *ptr) HAK_NOEXCEPT;

/* alignment: a power of two, else NULL with EINVAL. size need not be a
 * multiple of it. */
HAK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t size) HAK_NOEXCEPT HAK_ALLOCATES(2);

/* --- C23 7.24.3 ----------------------------------------------------------- */

/* Frees a block of malloc, calloc or realloc that was asked for with size. */
HAK_EXPORT void hak_free_sized(void *ptr, size_t size) HAK_NOEXCEPT;

/* Frees a block of aligned_alloc(alignment, size). */
HAK_EXPORT void hak_free_aligned_sized(void *ptr, size_t alignment, size_t size) HAK_NOEXCEPT;

/* --- POSIX, BSD and glibc ------------------------------------------------- */

/* Returns 0 and stores the block, or EINVAL (alignment is no power of two
 * multiple of sizeof(void *)) or ENOMEM, leaving *result and errno alone. */
HAK_EXPORT int hak_posix_memalign(void **result, size_t alignment, size_t size) HAK_NOEXCEPT;

/* As hak_aligned_alloc, but an alignment that is no power of two is rounded up
 * to one; over half of the address space: EINVAL. */
HAK_EXPORT void *hak_memalign(size_t alignment, size_t size) HAK_NOEXCEPT HAK_ALLOCATES(2);

/* Page-aligned; pvalloc also rounds the size up to whole pages. */
HAK_EXPORT void *hak_valloc(size_t size) HAK_NOEXCEPT HAK_ALLOCATES(1);
HAK_EXPORT void *hak_pvalloc(size_t size) HAK_NOEXCEPT HAK_ALLOCATES(1);

/* hak_realloc(ptr, count * size); an overflow is ENOMEM and ptr stays valid. */
HAK_EXPORT void *hak_reallocarray(void *ptr, size_t count, size_t size) HAK_NOEXCEPT
    __attribute__((warn_unused_result, alloc_size(2, 3)));

/* hak_free under the name of SunOS. */
HAK_EXPORT void hak_cfree(void *ptr) HAK_NOEXCEPT;

/* Bytes that may be used in ptr's block, at least the size asked for; 0 for NULL. */
HAK_EXPORT size_t hak_malloc_usable_size(void *ptr) HAK_NOEXCEPT;

/* hak_purge. pad, the bytes to keep ready, is taken as a hint. Returns 1 if memory was
 * given back, else 0. */
HAK_EXPORT int hak_malloc_trim(size_t pad) HAK_NOEXCEPT;

/* Takes glibc's parameters, changes nothing, returns 1. */
HAK_EXPORT int hak_mallopt(int param, int value) HAK_NOEXCEPT;

/* glibc's summary of the heap; <malloc.h> describes the fields. arena is the
 * memory mapped for spans, hblkhd that of huge blocks, uordblks what programs
 * hold (blocks kept in thread caches included), fordblks the rest, keepcost
 * what hak_malloc_trim could give back. mallinfo's ints saturate at INT_MAX. */
#ifdef __GLIBC__
HAK_EXPORT struct mallinfo hak_mallinfo(void) HAK_NOEXCEPT;
HAK_EXPORT struct mallinfo2 hak_mallinfo2(void) HAK_NOEXCEPT;

/* XML on stream in the frame of glibc's malloc_info(3). options must be 0,
 * else -1 with EINVAL. */
HAK_EXPORT int hak_malloc_info(int options, FILE *stream) HAK_NOEXCEPT;
#endif

/* A table of the heap on standard error. */
HAK_EXPORT void hak_malloc_stats(void) HAK_NOEXCEPT;

/* --- jemalloc's non-standard calls ------------------------------------------ */

/* log2 of an alignment in the low 6 bits of flags; the other bits are ignored. */
#define HAK_LG_ALIGN(lg) ((int)(lg))

/* Frees ptr, a block asked for with size under flags. */
HAK_EXPORT void hak_sdallocx(void *ptr, size_t size, int flags) HAK_NOEXCEPT;

/* The usable size that a block of size under flags would have; 0 if it could
 * never be had. */
HAK_EXPORT size_t hak_nallocx(size_t size, int flags) HAK_NOEXCEPT;

/* --- HAKMEM's own ---------------------------------------------------------- */

enum hak_stats_format { HAK_STATS_TEXT, HAK_STATS_JSON };

/* Writes statistics of the heap to a file descriptor, without allocating.
 * Returns 0, or -1 with write(2)'s errno, or EINVAL for an unknown format. */
HAK_EXPORT int hak_stats_write(int fd, enum hak_stats_format format) HAK_NOEXCEPT;

/* For a thread about to sleep long, such as one of a pool without work: gives back
 * what HAKMEM keeps for it. The blocks in its cache go to where any thread can have
 * them, the pages of the cache to the kernel; what remains is 4 KiB at most, which the
 * next new thread takes over. Blocks that the thread holds stay as they are. Its next
 * call starts with a new cache, at the price of a thread's first. Changes nothing in a
 * thread that has not allocated yet or has ended. Never fails; errno is kept. */
HAK_EXPORT void hak_thread_idle(void) HAK_NOEXCEPT;

/* Gives all free memory back to the kernel that can be given back now: the blocks
 * cached by the calling thread, slabs without blocks, free spans, and pages without
 * blocks in slabs that have some. Other threads are asked to give up the blocks that
 * they cache, which each does in one of its next calls: what that makes free goes back
 * in time, as the profile says, or with the next hak_purge. Returns the bytes of the
 * pages given back; a few of them may never have been written to. Takes time in
 * proportion to the heap, but other threads hardly wait for it. errno is kept. */
HAK_EXPORT size_t hak_purge(void) HAK_NOEXCEPT;

/* For programs that can move their own objects: 1 if memory would be saved by moving the
 * block at ptr, for it lies in a slab that could become empty while fuller slabs have room
 * for what is in it; else 0, as for large blocks, NULL and other allocators' blocks. Ask
 * right before moving each block, in the thread that moves it:
 *
 *     if (hak_is_sparse(old) && (moved = malloc(size)) != NULL) {
 *         memcpy(moved, old, size);
 *         ... let all that points to old point to moved ...
 *         free(old);
 *     }
 *
 * After a 1 the thread's next block of this size comes from a fuller slab. Going over all
 * objects two or three times packs them; hak_purge then gives back at once what has
 * become free. ptr must stay in use meanwhile. A hint about this moment: other threads
 * go on. Takes a lock for a moment, and some tens of nanoseconds. */
HAK_EXPORT int hak_is_sparse(const void *ptr) HAK_NOEXCEPT;

/* Looks at all of HAKMEM's bookkeeping and returns 0 when it is whole. At the first thing that
 * contradicts another, reports it on standard error, naming address, slab and size class
 *
 *     hakmem: corrupted heap: slab 0x3a5c9f400000 of size class 64: 12 free blocks noted, ...
 *
 * and raises SIGABRT, no lock held: it never returns anything but 0. It says nothing of the
 * contents of blocks. For tests and for programs that suspect corruption, between two steps
 * of which one may be to blame.
 *
 * May be called from any thread at any time, also while others allocate and free, but not from
 * a signal handler; whatever they do is no contradiction. Caches of other threads are left out,
 * and some sums, which only a process with a single thread can be sure of
 * (docs/reference/checking.md). Takes time in proportion to the heap, about a millisecond for each
 * GiB in small blocks. Other threads wait at most while one shard is looked at; purging waits until
 * it is over. Changes nothing; errno is kept. */
HAK_EXPORT int hak_check_heap(void) HAK_NOEXCEPT;

/* The value in force of an option of HAKMEM_OPTIONS as text, into buffer of
 * capacity bytes, always terminated. Returns the length of the whole text,
 * which is cut when it does not fit; -1 with EINVAL for an unknown name. */
HAK_EXPORT long hak_option_get(const char *name, char *buffer, size_t capacity) HAK_NOEXCEPT;

/* What a program can do about the options soft_limit and hard_limit: docs/reference/limits.md. */
enum hak_limit { HAK_SOFT_LIMIT, HAK_HARD_LIMIT };

struct hak_limit_event {
    enum hak_limit limit; /* the one that was reached */
    size_t limit_bytes;   /* where it lies */
    size_t heap_bytes;    /* what the heap takes now */
    size_t asked_bytes;   /* HAK_HARD_LIMIT: of the call that was refused; else 0 */
};

typedef void hak_limit_function(const struct hak_limit_event *event, void *context);

/* Has function called, with context, from now on
 *
 *   HAK_SOFT_LIMIT  when the heap has passed soft_limit, though all that was free has
 *                   been given back; again when it has fallen by a sixteenth between
 *   HAK_HARD_LIMIT  when hard_limit has refused memory: if function frees enough, the
 *                   call that asked for it succeeds all the same
 *
 * in the thread whose call reached the limit, before that call returns, so that this
 * thread holds whatever locks it held when it called. The event is valid during the call.
 * function may allocate and free (what it does itself is not told to it again), register
 * and remove; it must return, not jump or throw. One thread at a time is in functions
 * registered here; a limit reached meanwhile by another is not told.
 *
 * Up to 16 pairs of function and context, each called once. Returns 0; -1 with EINVAL for
 * NULL, with ENOMEM when there are too many. */
HAK_EXPORT int hak_limit_callback(hak_limit_function *function, void *context) HAK_NOEXCEPT;

/* The end of it; a call under way in another thread may still go on. Returns 0; -1 with
 * EINVAL for a pair that is not registered. */
HAK_EXPORT int hak_limit_callback_remove(hak_limit_function *function, void *context) HAK_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
