/* Hardened mode (options hardened, zero_on_free). See hardened.c. */
#ifndef HAK_MODES_HARDENED_H
#define HAK_MODES_HARDENED_H

#include "cache/cache.h"
#include "modes/quarantine.h"
#include "modes/seal.h"
#include "os/options.h"

/* Never changes once the first block is out. */
hak_inline bool hardened_is_on(void) { return hak_unlikely(hak_options.hardened != 0); }

/* What each block has more than was asked for. */
hak_inline size_t hardened_more_bytes(void) { return hardened_is_on() ? SEAL_BYTES : 0; }

/* At the start, when there is a window and before there are blocks; false: no memory. */
bool hardened_start(void);

/* What a thread that is watched for this mode keeps. */
struct hardened_thread {
    uint64_t random; /* state of its generator */
    struct quarantine quarantine;
};
void hardened_begin_thread(struct hardened_thread *state);

/* A block of a bin (a size class, or BIN_LARGE) is to become one of size bytes of the
 * program's: sealed, and with a thread another of the bin perhaps. False: out of memory, and
 * *block, which has gone back, is NULL; or this one is somebody else's, take the next: the
 * child of a fork may have reclaimed a bin that was copied while its thread worked on it. */
bool hardened_take(struct thread *thread, unsigned bin, void **block, size_t size, bool is_zero);

/* The same for what the thread's bin of the class has; NULL: it has none. */
void *hardened_take_cached(struct thread *thread, unsigned class, size_t size);

/* Frees a block, of a map entry, after every check. told_size: what the caller says that its
 * size is, SIZE_MAX if nothing; told_alignment: of which power of two it is a multiple. False:
 * not all went into bins that had room, and upkeep is due. */
bool hardened_give(struct thread *thread, uint16_t entry, void *block, size_t told_size,
                   size_t told_alignment);

/* What waits in the thread's quarantine goes to its bins. */
void hardened_flush(struct thread *thread);

/* The size of the program's block, which is checked; *room: up to the next block. operation:
 * what the program called, for people. */
size_t hardened_size(const void *block, const char *operation, size_t *room);

/* A large block of so much room is about to be resized in place, to bytes of room: what it
 * gives back holds nothing of the program's any more. */
void hardened_shrink(void *block, size_t room, size_t bytes);

/* A block has got another size or room. */
void hardened_reseal(void *block, size_t size);

#endif
