/* What the interface is built from. Errors are NULL or false here; only abi sets
 * errno. See slow.c, blocks.c, thread.c, fork.c. */
#ifndef HAK_FRONT_FRONT_H
#define HAK_FRONT_FRONT_H

#include "front/fast.h"
#include "modes/hardened.h"
#include "span/limits.h"

/* --- slow.c: what the fast path leaves --- */

/* A block to be had. bin: its size class, or BIN_LARGE. */
struct request {
    unsigned bin;
    bool wants_zero;  /* zero pages are worth more than pages that are there */
    size_t size;      /* as asked for: hardened blocks have hardened_more_bytes more */
    size_t alignment; /* of BIN_LARGE: a power of two */
};

/* After front_start. NULL when out of memory or size is over PTRDIFF_MAX. *is_zero: the block is
 * known to read as zero. */
void *front_serve(struct request request, bool *is_zero);

/* A block of at least size bytes (0: of the smallest class), else as above. */
void *front_malloc_slow(size_t size);

/* Only after front_start: it needs the table of classes. */
hak_inline unsigned front_bin_of(size_t size) {
    size_t more = hardened_more_bytes();
    if (size > CLASS_SIZE_MAX - more)
        return BIN_LARGE;
    return class_of(hak_max(size + more, (size_t)1));
}

/* The same at multiples of a power of two; size <= PTRDIFF_MAX. */
hak_inline unsigned front_aligned_bin(size_t size, size_t alignment) {
    if (alignment > SLAB_BYTES || size > CLASS_SIZE_MAX)
        return BIN_LARGE;
    size = class_aligned_size(size + hardened_more_bytes(), alignment);
    return size > CLASS_SIZE_MAX ? (unsigned)BIN_LARGE : class_of(size);
}

void front_free_slow(void *block);

/* The same for a caller who knows what was asked for: size bytes, or FRONT_ANY_SIZE, at a
 * multiple of alignment. */
#define FRONT_ANY_SIZE SIZE_MAX
void front_free_sized_slow(void *block, size_t size, size_t alignment);

/* --- blocks.c: the other ways to get and change a block --- */

/* size bytes, all zero. */
void *front_zeroed(size_t size);

/* alignment: a power of two. */
void *front_aligned(size_t alignment, size_t size);

/* A block of size > 0 with the contents of block, which is then freed; NULL: as
 * it was. */
void *front_resize(void *block, size_t size);

/* operation: what the program called, for reports. */
size_t front_usable_bytes(const void *block, const char *operation);

/* Whether the caller had better move a block elsewhere: see cache_is_sparse. */
bool front_is_sparse(const void *block);

/* What front_usable_bytes would say of a block of size and alignment; 0: such a
 * block cannot be had. */
size_t front_good_size(size_t size, size_t alignment);
bool front_has_told_good_sizes(void); /* it has been called */

/* --- thread.c: threads and the start of it all --- */

/* The calling thread, born now if need be. NULL once the thread has ended, and
 * when there is no memory for a cache: it then works without one. */
struct thread *front_thread(void);

/* The calling thread gives up its cache, and gets another when it next needs one. */
void front_thread_idle(void);

/* The shard that a thread without a cache works on. */
unsigned front_shard_without_thread(void);

/* Starts HAKMEM if nothing has yet. False: no address space. */
bool front_start(void);

/* The library's constructor runs: from now on thread-local state stays. Starts, as front_start. */
bool front_loaded(void);

hak_global struct os_lock front_start_lock;

/* The calling thread works without a cache from here on. */
void front_go_without_cache(void);

/* Whether a thread that ends leaves the registry. */
bool front_sees_threads_end(void);

/* --- scavenger.c: purging while nobody calls --- */

/* What a slow call has to say of free memory, without locks held: is_dirty, there is some that
 * time alone will make old enough to be purged. */
void scavenger_after_malloc(bool is_dirty);
void scavenger_after_free(bool is_dirty);

/* In the child of a fork: the thread is gone. */
void scavenger_forget(void);

/* --- limits.c: soft_limit and hard_limit --- */

enum front_limit { FRONT_SOFT_LIMIT, FRONT_HARD_LIMIT };
struct front_limit_event {
    enum front_limit limit;
    size_t limit_bytes, heap_bytes, asked_bytes;
};

/* A function of the program's, whose type only abi knows, and so how to call it. */
struct front_callback {
    void (*call)(const struct front_callback *callback, const struct front_limit_event *event);
    void (*function)(void); /* NULL: none */
    void *context;
};

/* hak_limit_callback and its end. False: no room; no such call-back. */
bool front_callback_add(struct front_callback callback);
bool front_callback_remove(struct front_callback callback);
void front_callbacks_forked(void); /* in the child */
hak_global struct os_lock front_callbacks_lock;

/* The heap is over its soft limit, at the end of a slow call. */
void front_heed_soft_limit(const struct thread *thread);

/* A taking failed, after limits_refused_count() had been refused_before. True: a
 * call-back has been told that the limit was why; it may have freed enough. */
bool front_heed_hard_limit(uint64_t refused_before, size_t asked_bytes);

/* --- fork.c --- */

void front_register_fork(void);

/* Calls visit for every lock of the allocator, in rank order: for fork, which takes
 * them, and for statistics. */
typedef void front_lock_visit(enum lock_rank rank, struct os_lock *lock, void *context);
void front_each_lock(front_lock_visit *visit, void *context);

/* --- trim.c --- */

/* Gives everything free back to the kernel: the calling thread's bins, empty
 * slabs, free spans. Returns bytes given back. */
size_t front_trim(void);

/* The same, and pages without live blocks in slabs in use; other threads are asked to
 * empty their bins. */
size_t front_purge(void);

/* --- check.c --- */

/* Looks for something in the heap that contradicts something else; after front_start. */
bool front_find_contradiction(struct finding *finding);

/* The same; reports it and ends the process. */
void front_check_heap(void);

#endif
