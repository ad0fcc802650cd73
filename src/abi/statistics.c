/* Statistics of the heap, for people (text) and machines (JSON). Nothing here
 * allocates: reports must work when memory is out, and at exit, when the
 * program's other libraries are gone. */
#include <errno.h>
#include <string.h>

#include "abi/figures.h"
#include "abi/interface.h"
#include "hakmem/hakmem.h"
#include "modes/exact.h"
#include "modes/leaks.h"
#include "os/calls.h"
#include "os/metadata.h"
#include "os/options.h"
#include "os/system.h"

enum { OUTPUT_BYTES = 1024 };

/* --- JSON --------------------------------------------------------------------- */

static const char *const call_names[OS_CALL_KINDS] = {
    [OS_CALL_RESERVE] = "reserve", [OS_CALL_COMMIT] = "commit",     [OS_CALL_MAP] = "map",
    [OS_CALL_UNMAP] = "unmap",     [OS_CALL_REMAP] = "remap",       [OS_CALL_PURGE] = "purge",
    [OS_CALL_ADVISE] = "advise",   [OS_CALL_POPULATE] = "populate", [OS_CALL_GUARD] = "guard",
    [OS_CALL_FREEZE] = "freeze",   [OS_CALL_LOOK] = "look",         [OS_CALL_SIGNAL] = "signal",
    [OS_CALL_THREAD] = "thread",   [OS_CALL_KEY] = "key",           [OS_CALL_READ] = "read",
    [OS_CALL_ASK] = "ask",
};

static void json_calls(struct format_buffer *out) {
    format_text(out, "  \"system_calls\": {");
    for (unsigned kind = 0; kind < OS_CALL_KINDS; kind++)
        format_add(out, "%s\"%s\": %lu", kind == 0 ? "" : ", ", call_names[kind],
                   (unsigned long)os_call_count(kind));
    format_text(out, "},\n");
}

/* By rank; named for what they protect (docs/reference/statistics.md). */
static const char *const lock_names[RANK_COUNT] = {
    [RANK_GROWTH] = "growth",       [RANK_PURGE] = "purge",     [RANK_START] = "start",
    [RANK_CALLBACKS] = "callbacks", [RANK_GUARD] = "guard",     [RANK_REGISTRY] = "registry",
    [RANK_PAGES] = "pages",         [RANK_OPENING] = "opening", [RANK_CLASS] = "classes",
    [RANK_SPANS] = "spans",         [RANK_ARENA] = "arena",     [RANK_HUGE] = "huge",
    [RANK_METADATA] = "metadata",
};

static void json_locks(struct format_buffer *out, const struct figures *f) {
    format_add(out, "  \"slow_calls\": %lu,\n  \"locks\": {", (unsigned long)f->slow_calls);
    for (unsigned rank = 0; rank < RANK_COUNT; rank++)
        format_add(out, "%s\n    \"%s\": {\"acquired\": %lu, \"contended\": %lu}",
                   rank == 0 ? "" : ",", lock_names[rank], (unsigned long)f->locks[rank].acquired,
                   (unsigned long)f->locks[rank].contended);
    format_text(out, "\n  },\n");
}

static void json_limit(struct format_buffer *out, const char *name, size_t bytes) {
    if (bytes == NO_LIMIT)
        format_add(out, "\"%s\": null, ", name);
    else
        format_add(out, "\"%s\": %zu, ", name, bytes);
}

static void json_limits(struct format_buffer *out, const struct limits_stats *limits) {
    format_add(out, "  \"heap_bytes\": %zu,\n  \"limits\": {", limits->heap_bytes);
    json_limit(out, "soft_bytes", limits->soft_bytes);
    json_limit(out, "hard_bytes", limits->hard_bytes);
    json_limit(out, "cgroup_bytes", limits->cgroup_bytes);
    format_add(out, "\"soft_passed\": %lu, \"hard_refused\": %lu},\n",
               (unsigned long)limits->passed, (unsigned long)limits->refused);
}

static void json_classes(struct format_buffer *out, const struct figures *f,
                         const struct exact_totals *exact) {
    format_text(out, "  \"classes\": [");
    const char *separator = "\n";
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        const struct class_stats *c = &f->classes[class];
        if (c->taken == 0)
            continue;
        unsigned long unparked = atomic_load_explicit(&cache_unparked[class], memory_order_relaxed);
        format_add(out,
                   "%s    {\"size\": %zu, \"taken\": %lu, \"given\": %lu, \"unparked\": %lu, "
                   "\"slab_bytes\": %zu",
                   separator, class_size(class), (unsigned long)c->taken, (unsigned long)c->given,
                   unparked, c->slab_bytes);
        if (exact != NULL)
            format_add(out, ", \"mallocs\": %lu, \"frees\": %lu, \"asked_bytes\": %lu",
                       (unsigned long)exact->takes[class], (unsigned long)exact->gives[class],
                       (unsigned long)exact->asked_bytes[class]);
        format_text(out, "}");
        separator = ",\n";
    }
    format_text(out, "\n  ],\n");
}

static void write_json(struct format_buffer *out, const struct figures *f,
                       const struct exact_totals *exact) {
    format_add(out,
               "{\n  \"schema\": 1,\n  \"version\": \"%s\",\n  \"pid\": %u,\n"
               "  \"profile\": \"%s\",\n  \"shards\": %u,\n  \"threads\": %u,\n"
               "  \"blocks_taken\": %lu,\n  \"blocks_given\": %lu,\n",
               hak_version(), os_process_id(), options_profile()->name, slab_shard_count(),
               registry_count(), (unsigned long)f->blocks_taken, (unsigned long)f->blocks_given);
    format_add(out,
               "  \"live_bytes\": %zu,\n  \"mapped_bytes\": %zu,\n  \"reserved_bytes\": %zu,\n"
               "  \"free_dirty_bytes\": %zu,\n  \"metadata_bytes\": %zu,\n",
               f->live_bytes, f->mapped_bytes, f->arena.reserved_bytes,
               f->spans.dirty_bytes + f->arena.dirty_bytes, os_metadata_bytes());
    json_limits(out, &f->limits);
    json_calls(out);
    json_locks(out, f);
    format_add(out, "  \"huge_pages\": {\"collapsed\": %lu, \"split\": %lu},\n",
               (unsigned long)f->huge_pages.collapsed, (unsigned long)f->huge_pages.split);
    json_classes(out, f, exact);
    format_add(out, "  \"large\": {\"count\": %zu, \"bytes\": %zu, \"taken\": %lu, \"given\": %lu",
               f->spans.large_count, f->spans.large_bytes, (unsigned long)f->spans.large_taken,
               (unsigned long)f->spans.large_given);
    if (exact != NULL)
        format_add(out, ", \"mallocs\": %lu, \"frees\": %lu, \"asked_bytes\": %lu",
                   (unsigned long)exact->takes[BIN_LARGE], (unsigned long)exact->gives[BIN_LARGE],
                   (unsigned long)exact->asked_bytes[BIN_LARGE]);
    format_add(
        out,
        "},\n  \"huge\": {\"count\": %zu, \"bytes\": %zu, \"taken\": %lu, "
        "\"given\": %lu},\n  \"guarded\": {\"taken\": %lu, \"live\": %zu, \"freed\": %zu}\n}\n",
        f->huge.count, f->huge.bytes, (unsigned long)f->huge.taken, (unsigned long)f->huge.given,
        (unsigned long)f->guard.taken, f->guard.live, f->guard.freed);
}

/* --- text ----------------------------------------------------------------------- */

static void text_classes(struct format_buffer *out, const struct figures *f,
                         const struct exact_totals *exact) {
    format_text(out, "  size class       taken       given  slabs KiB");
    format_text(out, exact != NULL ? "     mallocs       frees\n" : "\n");
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        const struct class_stats *c = &f->classes[class];
        if (c->taken == 0)
            continue;
        format_add(out, "  %10zu %11lu %11lu %10zu", class_size(class), (unsigned long)c->taken,
                   (unsigned long)c->given, c->slab_bytes / KIB);
        if (exact != NULL)
            format_add(out, " %11lu %11lu", (unsigned long)exact->takes[class],
                       (unsigned long)exact->gives[class]);
        format_text(out, "\n");
    }
}

/* Those that were taken at all. */
static void text_locks(struct format_buffer *out, const struct figures *f) {
    format_add(out, "  slow calls: %lu\n  locks taken (contended):", (unsigned long)f->slow_calls);
    for (unsigned rank = 0; rank < RANK_COUNT; rank++) {
        if (f->locks[rank].acquired != 0)
            format_add(out, " %s %lu (%lu)", lock_names[rank],
                       (unsigned long)f->locks[rank].acquired,
                       (unsigned long)f->locks[rank].contended);
    }
    format_text(out, "\n");
}

static void text_limits(struct format_buffer *out, const struct limits_stats *limits) {
    const struct {
        const char *name;
        size_t bytes;
    } all[] = {{"soft limit", limits->soft_bytes},
               {"hard limit", limits->hard_bytes},
               {"cgroup", limits->cgroup_bytes}};
    format_add(out, "  heap %zu KiB", limits->heap_bytes / KIB);
    for (unsigned i = 0; i < 3; i++) {
        if (all[i].bytes != NO_LIMIT)
            format_add(out, ", %s %zu KiB", all[i].name, all[i].bytes / KIB);
    }
    format_add(out, "; soft limit passed %lu times, hard limit refused %lu\n",
               (unsigned long)limits->passed, (unsigned long)limits->refused);
}

static void write_text(struct format_buffer *out, const struct figures *f,
                       const struct exact_totals *exact) {
    format_add(out, "hakmem %s, pid %u, profile %s, %u shards, %u threads\n", hak_version(),
               os_process_id(), options_profile()->name, slab_shard_count(), registry_count());
    format_add(out,
               "  live %zu KiB, mapped %zu KiB, of that free %zu KiB (dirty %zu KiB), "
               "metadata %zu KiB\n",
               f->live_bytes / KIB, f->mapped_bytes / KIB,
               (f->spans.free_bytes + f->arena.free_bytes) / KIB,
               (f->spans.dirty_bytes + f->arena.dirty_bytes) / KIB, os_metadata_bytes() / KIB);
    text_limits(out, &f->limits);
    format_text(out, "  system calls:");
    for (unsigned kind = 0; kind < OS_CALL_KINDS; kind++)
        format_add(out, " %s %lu", call_names[kind], (unsigned long)os_call_count(kind));
    format_text(out, "\n");
    text_locks(out, f);
    if (f->huge_pages.collapsed != 0)
        format_add(out, "  huge pages made of single ones: %lu, split again: %lu\n",
                   (unsigned long)f->huge_pages.collapsed, (unsigned long)f->huge_pages.split);
    text_classes(out, f, exact);
    format_add(out, "       large %11lu %11lu %10zu\n", (unsigned long)f->spans.large_taken,
               (unsigned long)f->spans.large_given, f->spans.large_bytes / KIB);
    format_add(out, "        huge %11lu %11lu %10zu\n", (unsigned long)f->huge.taken,
               (unsigned long)f->huge.given, f->huge.bytes / KIB);
    format_add(out, "  guarded blocks: %lu taken, %zu live, %zu freed\n",
               (unsigned long)f->guard.taken, f->guard.live, f->guard.freed);
}

int abi_stats_write(int descriptor, bool json) {
    if (!front_start())
        return ENOMEM;
    char text[OUTPUT_BYTES];
    struct format_buffer out = os_output_begin(descriptor, text, sizeof text);
    struct figures figures = figures_gather();
    struct exact_totals totals;
    const struct exact_totals *exact = NULL;
    if (exact_is_on()) {
        exact_sum(&totals);
        exact = &totals;
    }
    if (json)
        write_json(&out, &figures, exact);
    else
        write_text(&out, &figures, exact);
    return os_output_end(&out);
}

/* Where it goes what is said at exit: programs may have closed standard error by then, so a
 * descriptor of it is kept from the start. */
static struct os_kept_file exit_file = {.first = -1, .second = -1};

void abi_stats_at_load(void) {
    bool prints_stats = hak_options.stats != STATS_OFF && hak_options.stats_file[0] == '\0';
    if (prints_stats || hak_options.leaks != 0 || hak_options.verbose >= 2)
        exit_file = os_file_keep(OS_STANDARD_ERROR);
}

static int open_exit_file(void) {
    char path[OPTION_PATH_CAPACITY + 32];
    options_expand_path(hak_options.stats_file, path, sizeof path);
    int descriptor = os_file_create(path);
    if (descriptor < 0)
        hak_warn("option stats_file: cannot write '%s' (errno %d); using standard error", path,
                 errno);
    return descriptor < 0 ? OS_STANDARD_ERROR : descriptor;
}

void abi_stats_at_exit(void) {
    if (!front_start())
        return;
    int standard_error = os_file_kept(&exit_file);
    if (standard_error >= 0)
        hak_print_to(standard_error);
    if (hak_options.leaks != 0 && standard_error >= 0)
        leaks_report();
    if (hak_options.stats != STATS_OFF) {
        bool json = hak_options.stats == STATS_EXIT_JSON || hak_options.stats == STATS_EXACT_JSON;
        bool has_file = hak_options.stats_file[0] != '\0';
        int descriptor = has_file ? open_exit_file() : standard_error;
        if (descriptor >= 0)
            abi_stats_write(descriptor, json);
        if (has_file && descriptor != OS_STANDARD_ERROR)
            os_file_close(descriptor);
    }
    if (hak_options.verbose >= 2 && standard_error >= 0) {
        struct figures f = figures_gather();
        hak_warn("pid %u ends: %lu blocks taken, %lu given, %zu KiB live, %zu KiB mapped",
                 os_process_id(), (unsigned long)f.blocks_taken, (unsigned long)f.blocks_given,
                 f.live_bytes / KIB, f.mapped_bytes / KIB);
    }
}
