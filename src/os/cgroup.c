/* Finding the limits of the control groups that a process is in.
 *
 *   /proc/self/cgroup                        /proc/self/mountinfo
 *     4:memory:/app/web    hierarchy, path     ... /app /sys/fs/cgroup/memory ... - cgroup ...
 * memory 1:cpu:/app/web                           ... /    /sys/fs/cgroup/cpu    ... - cgroup ...
 * cpu 0::/app/web          version 2           ... /    /sys/fs/cgroup        ... - cgroup2 ...
 *                                                  ^root ^point
 *
 *   directory = point + (path without root), and from there up to point:
 *
 *     version 2   memory.max memory.high cpu.max ("quota period")
 *     version 1   memory.limit_in_bytes, cpu.cfs_quota_us / cpu.cfs_period_us
 *
 * Each group's limit holds for all below it, so the smallest one counts. A system may
 * have both versions at once, with a controller in either: all are looked at.
 *
 * In a container the path is often "/", seen from the container's own root, or one of
 * the host's that is mounted nowhere here. What is then visible of the hierarchy is its
 * mount point, and the container's limits stand there. */
#include "os/cgroup.h"

#include <limits.h>
#include <string.h>

#include "os/memory.h"
#include "os/system.h"

enum {
    PATH_CAPACITY = 1024,         /* a longer one is as good as none */
    VALUE_CAPACITY = 64,          /* of one number or two */
    CGROUPS_CAPACITY = 16 * 1024, /* lines behind it are not seen, nor are mounts */
    TEXTS_CAPACITY = 1024 * 1024,
};

/* A piece of a text, not terminated. */
struct piece {
    const char *start;
    size_t length;
};

/* Takes the piece up to the next separator off a text; the separator goes, too. */
static struct piece next_piece(struct piece *text, char separator) {
    const char *stop = text->length == 0 ? NULL : memchr(text->start, separator, text->length);
    size_t length = stop == NULL ? text->length : (size_t)(stop - text->start);
    struct piece piece = {text->start, length};
    size_t gone = stop == NULL ? length : length + 1;
    text->start += gone;
    text->length -= gone;
    return piece;
}

static bool is_text(struct piece piece, const char *text) {
    return piece.length == strlen(text) && memcmp(piece.start, text, piece.length) == 0;
}

/* Whether a list with commas has a word. */
static bool has_word(struct piece list, const char *word) {
    while (list.length != 0) {
        if (is_text(next_piece(&list, ','), word))
            return true;
    }
    return false;
}

/* --- the two texts --------------------------------------------------------------- */

/* The path of the process in the hierarchy of a controller; in that of version 2 for
 * controller NULL. */
static bool find_path(const char *cgroups, const char *controller, struct piece *path) {
    struct piece rest = {cgroups, strlen(cgroups)};
    while (rest.length != 0) {
        struct piece line = next_piece(&rest, '\n');
        struct piece number = next_piece(&line, ':');
        struct piece controllers = next_piece(&line, ':');
        *path = line;
        if (controller == NULL ? is_text(number, "0") && controllers.length == 0
                               : has_word(controllers, controller))
            return true;
    }
    return false;
}

/* A hierarchy as mounted: which part of it, and where. */
struct mount {
    struct piece root, point;
};

static bool is_below(struct piece path, struct piece root) {
    if (is_text(root, "/"))
        return true;
    return path.length >= root.length && memcmp(path.start, root.start, root.length) == 0 &&
           (path.length == root.length || path.start[root.length] == '/');
}

/* One line: whether it is the mount of a controller's hierarchy. */
static bool parse_mount(struct piece line, const char *controller, struct mount *mount) {
    for (int i = 0; i < 3; i++) /* its number, its parent's, the device */
        next_piece(&line, ' ');
    mount->root = next_piece(&line, ' ');
    mount->point = next_piece(&line, ' ');
    /* Its options and any number of others, up to a lone dash. */
    while (line.length != 0 && !is_text(next_piece(&line, ' '), "-")) {
    }
    struct piece type = next_piece(&line, ' ');
    next_piece(&line, ' ');
    if (controller == NULL)
        return is_text(type, "cgroup2");
    return is_text(type, "cgroup") && has_word(line, controller);
}

/* The first that shows path, or else the first at all. */
static bool find_mount(const char *mounts, const char *controller, struct piece path,
                       struct mount *found) {
    struct piece rest = {mounts, strlen(mounts)};
    struct mount mount;
    bool is_found = false;
    while (rest.length != 0) {
        if (!parse_mount(next_piece(&rest, '\n'), controller, &mount))
            continue;
        bool shows_path = is_below(path, mount.root);
        if (shows_path || !is_found)
            *found = mount;
        is_found = true;
        if (shows_path)
            break;
    }
    return is_found;
}

/* A directory, and how much of its path is the mount point. */
struct directory {
    char path[PATH_CAPACITY];
    size_t length, top;
};

static bool append(struct directory *directory, const char *text, size_t length) {
    if (length >= PATH_CAPACITY - directory->length)
        return false;
    memcpy(directory->path + directory->length, text, length);
    directory->length += length;
    directory->path[directory->length] = '\0';
    return true;
}

static bool is_octal(const char *at) {
    return at[0] >= '0' && at[0] <= '3' && at[1] >= '0' && at[1] <= '7' && at[2] >= '0' &&
           at[2] <= '7';
}

/* In mountinfo blanks and such are written \040. */
static bool append_escaped(struct directory *directory, struct piece text) {
    for (size_t i = 0; i < text.length; i++) {
        char c = text.start[i];
        if (c == '\\' && i + 3 < text.length && is_octal(text.start + i + 1)) {
            const char *digits = text.start + i + 1;
            c = (char)((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
            i += 3;
        }
        if (!append(directory, &c, 1))
            return false;
    }
    return true;
}

/* What is left of path below root; nothing if it is not below it, or leads out of what
 * this process may see ("/../other"). */
static struct piece rest_below(struct piece path, struct piece root) {
    struct piece nothing = {path.start, 0};
    if (!is_below(path, root))
        return nothing;
    size_t gone = is_text(root, "/") ? 0 : root.length;
    struct piece rest = {path.start + gone, path.length - gone};
    struct piece names = rest;
    next_piece(&names, '/');
    bool leads_out = is_text(next_piece(&names, '/'), "..");
    return leads_out || rest.length == 1 ? nothing : rest;
}

static bool find_directory(const char *cgroups, const char *mounts, const char *controller,
                           struct directory *directory) {
    struct piece path;
    struct mount mount;
    if (!find_path(cgroups, controller, &path) || !find_mount(mounts, controller, path, &mount))
        return false;
    struct piece rest = rest_below(path, mount.root);
    directory->length = 0;
    if (!append_escaped(directory, mount.point))
        return false;
    directory->top = directory->length;
    return append(directory, rest.start, rest.length);
}

/* --- the files of the groups ---------------------------------------------------- */

/* A number, or CGROUP_UNLIMITED for "max", "-1" and what is none. */
static uint64_t parse_limit(struct piece text) {
    uint64_t value = 0;
    if (text.length == 0)
        return CGROUP_UNLIMITED;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.start[i];
        if (c < '0' || c > '9' || value > (UINT64_MAX - 9) / 10)
            return CGROUP_UNLIMITED;
        value = value * 10 + (uint64_t)(c - '0');
    }
    return value;
}

/* Reads the first line of a file of a group; an empty one if there is none. */
static struct piece read_value(struct directory *directory, const char *name, cgroup_reader *read,
                               char *text) {
    size_t length = directory->length;
    bool is_read = append(directory, "/", 1) && append(directory, name, strlen(name)) &&
                   read(directory->path, text, VALUE_CAPACITY);
    directory->length = length;
    directory->path[length] = '\0';
    struct piece all = {text, is_read ? strlen(text) : 0};
    return next_piece(&all, '\n');
}

static uint64_t read_limit(struct directory *directory, const char *name, cgroup_reader *read) {
    char text[VALUE_CAPACITY];
    return parse_limit(read_value(directory, name, read, text));
}

static void see_memory(struct cgroup_limits *limits, uint64_t bytes) {
    /* Version 1 writes "none" as the largest multiple of a page. */
    if (bytes < (UINT64_C(1) << 62))
        limits->memory_bytes = hak_min(limits->memory_bytes, bytes);
}

static void see_quota(struct cgroup_limits *limits, uint64_t quota_us, uint64_t period_us) {
    if (quota_us == CGROUP_UNLIMITED || period_us == CGROUP_UNLIMITED || period_us == 0)
        return;
    uint64_t processors = quota_us / period_us + (quota_us % period_us != 0);
    processors = hak_max(processors, (uint64_t)1);
    limits->processors = (unsigned)hak_min((uint64_t)limits->processors, processors);
}

typedef void look_function(struct directory *directory, struct cgroup_limits *limits,
                           cgroup_reader *read);

static void look_at_version_2(struct directory *directory, struct cgroup_limits *limits,
                              cgroup_reader *read) {
    see_memory(limits, read_limit(directory, "memory.max", read));
    see_memory(limits, read_limit(directory, "memory.high", read));
    char text[VALUE_CAPACITY];
    struct piece period = read_value(directory, "cpu.max", read, text);
    struct piece quota = next_piece(&period, ' ');
    see_quota(limits, parse_limit(quota), parse_limit(period));
}

static void look_at_memory(struct directory *directory, struct cgroup_limits *limits,
                           cgroup_reader *read) {
    see_memory(limits, read_limit(directory, "memory.limit_in_bytes", read));
}

static void look_at_cpu(struct directory *directory, struct cgroup_limits *limits,
                        cgroup_reader *read) {
    uint64_t quota_us = read_limit(directory, "cpu.cfs_quota_us", read);
    see_quota(limits, quota_us, read_limit(directory, "cpu.cfs_period_us", read));
}

/* From a directory up to its mount point. */
static void climb(struct directory *directory, look_function *look, struct cgroup_limits *limits,
                  cgroup_reader *read) {
    for (;;) {
        look(directory, limits, read);
        if (directory->length <= directory->top)
            return;
        while (directory->length > directory->top && directory->path[--directory->length] != '/') {
        }
        directory->path[directory->length] = '\0';
    }
}

struct cgroup_limits cgroup_find(const char *cgroups, const char *mounts, cgroup_reader *read) {
    static const struct {
        const char *controller;
        look_function *look;
    } hierarchies[] = {{NULL, look_at_version_2}, {"memory", look_at_memory}, {"cpu", look_at_cpu}};
    struct cgroup_limits limits = {CGROUP_UNLIMITED, UINT_MAX};
    struct directory directory;
    for (unsigned i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) {
        if (find_directory(cgroups, mounts, hierarchies[i].controller, &directory))
            climb(&directory, hierarchies[i].look, &limits, read);
    }
    return limits;
}

const struct cgroup_limits *cgroup_test_limits;

struct cgroup_limits cgroup_read(void) {
    if (cgroup_test_limits != NULL)
        return *cgroup_test_limits;
    struct cgroup_limits limits = {CGROUP_UNLIMITED, UINT_MAX};
    char *cgroups = os_map_aligned(TEXTS_CAPACITY, 1);
    if (cgroups == NULL)
        return limits;
    char *mounts = cgroups + CGROUPS_CAPACITY;
    if (os_file_read("/proc/self/cgroup", cgroups, CGROUPS_CAPACITY) &&
        os_file_read("/proc/self/mountinfo", mounts, TEXTS_CAPACITY - CGROUPS_CAPACITY))
        limits = cgroup_find(cgroups, mounts, os_file_read);
    os_unmap(cgroups, TEXTS_CAPACITY);
    return limits;
}
