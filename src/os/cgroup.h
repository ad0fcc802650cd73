/* What the process's control groups allow it: memory and processors. See cgroup.c.
 * Nothing here allocates, takes a lock or sets errno. Thread safe. */
#ifndef HAK_OS_CGROUP_H
#define HAK_OS_CGROUP_H

#include "base/base.h"

#define CGROUP_UNLIMITED UINT64_MAX

struct cgroup_limits {
    uint64_t memory_bytes; /* the smallest on the path to the root; CGROUP_UNLIMITED */
    unsigned processors;   /* the smallest CPU quota, rounded up; UINT_MAX: none */
};

/* Those of this process now: a dozen small files are read. */
struct cgroup_limits cgroup_read(void);

/* --- for tests --------------------------------------------------------------- */

/* When set: what cgroup_read returns. */
hak_global const struct cgroup_limits *cgroup_test_limits;

/* Reads a file into text, which it terminates; false if it cannot be read. */
typedef bool cgroup_reader(const char *path, char *text, size_t capacity);

/* cgroup_read over texts: those of /proc/self/cgroup and /proc/self/mountinfo. */
struct cgroup_limits cgroup_find(const char *cgroups, const char *mounts, cgroup_reader *read);

#endif
