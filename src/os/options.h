/* The options of HAKMEM_OPTIONS, and the profiles, which are named sets of
 * numbers. Read once, before the first block is handed out; plain data then. */
#ifndef HAK_OS_OPTIONS_H
#define HAK_OS_OPTIONS_H

#include "base/base.h"
#include "base/format.h"
#include "os/memory.h"

enum hak_profile_name { PROFILE_SPEED, PROFILE_BALANCED, PROFILE_LEAN };

/* Of pages without blocks in slabs that have some: never; where the slab has not changed for
 * a while, in programs with threads, and wherever they are while the heap shrinks; or
 * wherever they are, always. */
enum page_purge { PAGE_PURGE_NEVER, PAGE_PURGE_QUIET, PAGE_PURGE_ALWAYS };

/* How much memory is kept warm. One row a profile in options.c. */
struct hak_profile {
    const char *name;
    size_t cache_total_bytes;      /* all thread caches together; law 5's budget; */
    unsigned cache_heap_part;      /* or one so-many-th of the heap if that is more; 0: never */
    size_t cache_thread_min_bytes; /* of that to one thread: at least, at most */
    size_t cache_thread_max_bytes;
    size_t cache_class_bytes;    /* one bin: blocks of fewer bytes, */
    unsigned cache_class_blocks; /* but not more than this, */
    unsigned cache_mid_blocks;   /* and of blocks of 2 to 32 KiB not fewer than this */
    unsigned warm_slabs;         /* of one empty slab that a busy class keeps: at most so long */
    unsigned warm_supers;        /* free SuperSlabs that a shard keeps */
    uint64_t decay_ms;           /* free pages go back to the kernel after this time, */
    size_t kept_bytes;           /* but for so many, all shards together; */
    uint64_t trade_bytes_per_ms; /* or, while the heap grows, this many before it */
    size_t populate_max_bytes;   /* of a fresh slab faulted in by one call; 0: none */
    enum os_thp thp;
    size_t thp_from_bytes;      /* huge pages are asked for once the heap is so large */
    size_t collapse_from_bytes; /* of a heap so large, what is in memory all over; 0: never */
    enum page_purge page_purge; /* of pages without blocks in slabs in use, unasked */
};

enum stats_mode { STATS_OFF, STATS_EXIT, STATS_EXIT_JSON, STATS_EXACT, STATS_EXACT_JSON };

enum { OPTION_PATH_CAPACITY = 512 };

struct hak_options {
    unsigned profile;                      /* enum hak_profile_name */
    unsigned stats;                        /* enum stats_mode */
    unsigned thp;                          /* enum os_thp */
    uint64_t shards;                       /* 0: one per processor */
    uint64_t arena_size;                   /* bytes of the window of addresses */
    uint64_t soft_limit;                   /* bytes of heap, 0: none, or LIMIT_AUTO */
    uint64_t hard_limit;                   /* the same */
    uint64_t decay_ms;                     /* OPTION_FROM_PROFILE: as the profile says */
    uint64_t guard_rate;                   /* one in so many blocks is guarded; 0: none */
    uint64_t guard_slots;                  /* guarded blocks at a time, freed ones included */
    uint64_t hardened;                     /* 0: off, 1: checks, 2: and freed memory is watched */
    uint64_t zero_on_free;                 /* 0 or 1; with hardened alone */
    uint64_t history;                      /* events remembered for reports; with hardened alone */
    uint64_t leaks;                        /* 0 or 1; the same */
    uint64_t verbose;                      /* 0: silent, 1: notes at the start, 2: and at the end */
    char stats_file[OPTION_PATH_CAPACITY]; /* empty: standard error */
};

#define OPTION_FROM_PROFILE UINT64_MAX

/* A limit that follows from what the process's cgroup allows. */
#define LIMIT_AUTO UINT64_MAX

enum { MAX_SHARDS = 256 };

/* Valid after options_load. */
hak_global struct hak_options hak_options;

/* Reads HAKMEM_OPTIONS. What it cannot understand it reports in one line each
 * and leaves at its default. */
void options_load(void);

/* Reads one text of name=value pairs over what is set already. */
void options_parse(const char *text);

/* The numbers of the profile in force, options applied. */
hak_global struct hak_profile options_in_force;
hak_inline const struct hak_profile *options_profile(void) { return &options_in_force; }

/* The value in force as text; false if no option has that name. */
bool options_print(const char *name, struct format_buffer *out);

/* path with %p replaced by the process id; cut to capacity. */
void options_expand_path(const char *path, char *out, size_t capacity);

#endif
