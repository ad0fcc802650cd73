/* Reading HAKMEM_OPTIONS: a table of options, a parser over it.
 *
 *   HAKMEM_OPTIONS=profile=lean,stats=exit:json,stats_file=/tmp/a\,b.%p.json
 *
 * Nothing is lost by a mistake: the option keeps its default, one line says
 * what was wrong and what was expected, and the program goes on. */
#include "os/options.h"

#include <string.h>

#include "os/frozen.h"
#include "os/system.h"

/* All that the profiles differ in; docs/reference/options.md shows the same table. */
static const struct hak_profile profiles[] = {
    [PROFILE_SPEED] =
        {
            .name = "speed",
            .cache_total_bytes = 128 * MIB,
            .cache_heap_part = 16,
            .cache_thread_min_bytes = 256 * KIB,
            .cache_thread_max_bytes = 32 * MIB,
            .cache_class_bytes = 64 * KIB,
            .cache_class_blocks = 512,
            .cache_mid_blocks = 32,
            .warm_slabs = 4,
            .warm_supers = 1,
            .decay_ms = 1000,
            .kept_bytes = 8 * MIB,
            .trade_bytes_per_ms = 0,
            .populate_max_bytes = 1 * MIB,
            .thp = OS_THP_ALWAYS,
            .thp_from_bytes = 32 * MIB,
            .collapse_from_bytes = 0,
            .page_purge = PAGE_PURGE_NEVER,
        },
    [PROFILE_BALANCED] =
        {
            .name = "balanced",
            .cache_total_bytes = 48 * MIB,
            .cache_heap_part = 32,
            .cache_thread_min_bytes = 32 * KIB,
            .cache_thread_max_bytes = 16 * MIB,
            .cache_class_bytes = 32 * KIB,
            .cache_class_blocks = 512,
            .cache_mid_blocks = 24,
            .warm_slabs = 2,
            .warm_supers = 1,
            .decay_ms = 100,
            .kept_bytes = 512 * KIB,
            .trade_bytes_per_ms = 400 * KIB,
            .populate_max_bytes = 64 * KIB,
            .thp = OS_THP_DEFAULT,
            .thp_from_bytes = 0,
            .collapse_from_bytes = 32 * MIB,
            .page_purge = PAGE_PURGE_QUIET,
        },
    [PROFILE_LEAN] =
        {
            .name = "lean",
            .cache_total_bytes = 4 * MIB,
            .cache_heap_part = 0,
            .cache_thread_min_bytes = 8 * KIB,
            .cache_thread_max_bytes = 1 * MIB,
            .cache_class_bytes = 8 * KIB,
            .cache_class_blocks = 64,
            .cache_mid_blocks = 1,
            .warm_slabs = 0,
            .warm_supers = 0,
            .decay_ms = 10,
            .kept_bytes = 0,
            .trade_bytes_per_ms = 0,
            .populate_max_bytes = 0,
            .thp = OS_THP_NEVER,
            .thp_from_bytes = 0,
            .collapse_from_bytes = 0,
            .page_purge = PAGE_PURGE_ALWAYS,
        },
};

/* The debug flavour has what it costs to find errors on unless told otherwise. */
#ifdef HAK_DEBUG_DEFAULTS
enum { DEFAULT_HARDENED = 2, DEFAULT_HISTORY = 64 * 1024, DEFAULT_LEAKS = 1 };
#else
enum { DEFAULT_HARDENED = 0, DEFAULT_HISTORY = 0, DEFAULT_LEAKS = 0 };
#endif

#define DEFAULT_OPTIONS                                                                            \
    {                                                                                              \
        .profile = PROFILE_BALANCED, .thp = OS_THP_DEFAULT, .arena_size = 1 * TIB,                 \
        .decay_ms = OPTION_FROM_PROFILE, .soft_limit = LIMIT_AUTO, .guard_rate = 100000,           \
        .guard_slots = 64, .hardened = DEFAULT_HARDENED, .history = DEFAULT_HISTORY,               \
        .leaks = DEFAULT_LEAKS,                                                                    \
    }

static const struct hak_options defaults = DEFAULT_OPTIONS;
hak_frozen struct hak_options hak_options = DEFAULT_OPTIONS;

hak_frozen struct hak_profile options_in_force;

enum option_kind { OPTION_CHOICE, OPTION_NUMBER, OPTION_BYTES, OPTION_LIMIT, OPTION_PATH };

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;              /* of its field in struct hak_options */
    const char *const *choices; /* of OPTION_CHOICE, in the order of its enum */
    uint64_t low, high;         /* of OPTION_NUMBER and OPTION_BYTES; low: of OPTION_LIMIT */
    const char *allowed;        /* for people */
    const char *meaning;
};

static const char *const profile_choices[] = {"speed", "balanced", "lean", NULL};
static const char *const stats_choices[] = {"off",   "exit",       "exit:json",
                                            "exact", "exact:json", NULL};
static const char *const thp_choices[] = {"default", "always", "never", NULL};

#define FIELD(name) #name, .offset = offsetof(struct hak_options, name)

static const struct option options[] = {
    {FIELD(profile), .kind = OPTION_CHOICE, .choices = profile_choices,
     .allowed = "speed|balanced|lean", .meaning = "how much memory is kept warm"},
    {FIELD(stats), .kind = OPTION_CHOICE, .choices = stats_choices,
     .allowed = "off|exit|exit:json|exact|exact:json",
     .meaning = "statistics at exit; exact counts every call"},
    {FIELD(stats_file), .kind = OPTION_PATH, .allowed = "a path, %p is the process id",
     .meaning = "where statistics go instead of standard error"},
    {FIELD(arena_size), .kind = OPTION_BYTES, .low = 32 * MIB, .high = 1 * TIB,
     .allowed = "32M to 1T", .meaning = "addresses that blocks below 1 GiB may take"},
    {FIELD(soft_limit), .kind = OPTION_LIMIT, .low = 1 * MIB,
     .allowed = "1M or more, 0 for none, auto: 80 % of the cgroup's limit",
     .meaning = "bytes of heap from which on free memory goes to the kernel at once"},
    {FIELD(hard_limit), .kind = OPTION_LIMIT, .low = 1 * MIB,
     .allowed = "1M or more, 0 for none, auto: 90 % of the cgroup's limit",
     .meaning = "bytes of heap at which more is refused with ENOMEM"},
    {FIELD(decay_ms), .kind = OPTION_NUMBER, .low = 0, .high = 3600000, .allowed = "0 to 3600000",
     .meaning = "milliseconds until free pages go to the kernel"},
    {FIELD(shards), .kind = OPTION_NUMBER, .low = 1, .high = MAX_SHARDS, .allowed = "1 to 256",
     .meaning = "heaps with locks of their own, one per processor"},
    {FIELD(guard_rate), .kind = OPTION_NUMBER, .low = 0, .high = UINT32_MAX,
     .allowed = "1 to 4294967295, 0 for none",
     .meaning = "one in so many blocks lies alone between inaccessible pages"},
    {FIELD(guard_slots), .kind = OPTION_NUMBER, .low = 1, .high = 65536, .allowed = "1 to 65536",
     .meaning = "guarded blocks at a time, freed ones included; no limit at guard_rate=1"},
    {FIELD(thp), .kind = OPTION_CHOICE, .choices = thp_choices, .allowed = "default|always|never",
     .meaning = "transparent huge pages"},
    {FIELD(hardened), .kind = OPTION_NUMBER, .low = 0, .high = 2, .allowed = "0 to 2",
     .meaning = "1: every free is checked, blocks have canaries; 2: freed memory is watched, too"},
    {FIELD(zero_on_free), .kind = OPTION_NUMBER, .low = 0, .high = 1, .allowed = "0 or 1",
     .meaning = "with hardened: freed memory is zeroed"},
    {FIELD(history), .kind = OPTION_NUMBER, .low = 0, .high = 1 << 24, .allowed = "0 to 16777216",
     .meaning = "with hardened: the latest takes and frees, remembered with their stacks"},
    {FIELD(leaks), .kind = OPTION_NUMBER, .low = 0, .high = 1, .allowed = "0 or 1",
     .meaning = "with hardened: blocks that nothing points to at exit, with their stacks"},
    {FIELD(verbose), .kind = OPTION_NUMBER, .low = 0, .high = 2, .allowed = "0 to 2",
     .meaning = "notes on standard error: 1 at the start, 2 also at the end"},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static const struct option *find_option(const char *name) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    }
    return NULL;
}

static void *field_of(const struct option *option, struct hak_options *set) {
    return (char *)set + option->offset;
}

/* Digits, with K, M, G or T behind them where bytes are meant. */
static bool parse_number(const char *text, bool bytes, uint64_t *result) {
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (at == text)
        return false;
    if (bytes && *at != '\0') {
        static const char units[] = "KMGT";
        const char *unit = strchr(units, *at++);
        if (unit == NULL)
            return false;
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (value > UINT64_MAX >> shift)
            return false;
        value <<= shift;
    }
    *result = value;
    return *at == '\0';
}

static bool parse_choice(const struct option *option, const char *text, void *field) {
    for (unsigned i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            memcpy(field, &i, sizeof i);
            return true;
        }
    }
    return false;
}

/* Bytes, 0, or "auto". */
static bool parse_limit(const struct option *option, const char *text, uint64_t *result) {
    *result = LIMIT_AUTO;
    if (strcmp(text, "auto") == 0)
        return true;
    return parse_number(text, true, result) &&
           (*result == 0 || (*result >= option->low && *result < LIMIT_AUTO));
}

static bool set_value(const struct option *option, const char *text) {
    void *field = field_of(option, &hak_options);
    uint64_t number;
    switch (option->kind) {
    case OPTION_CHOICE:
        return parse_choice(option, text, field);
    case OPTION_NUMBER:
    case OPTION_BYTES:
        if (!parse_number(text, option->kind == OPTION_BYTES, &number) || number < option->low ||
            number > option->high)
            return false;
        memcpy(field, &number, sizeof number);
        return true;
    case OPTION_LIMIT:
        if (!parse_limit(option, text, &number))
            return false;
        memcpy(field, &number, sizeof number);
        return true;
    case OPTION_PATH:
        if (*text == '\0' || strlen(text) >= OPTION_PATH_CAPACITY)
            return false;
        memcpy(field, text, strlen(text) + 1);
        return true;
    }
    return false;
}

static void print_value(const struct option *option, struct hak_options *set,
                        struct format_buffer *out) {
    const void *field = field_of(option, set);
    uint64_t number = 0;
    unsigned choice = 0;
    switch (option->kind) {
    case OPTION_CHOICE:
        memcpy(&choice, field, sizeof choice);
        format_text(out, option->choices[choice]);
        break;
    case OPTION_NUMBER:
    case OPTION_BYTES:
        memcpy(&number, field, sizeof number);
        if (field == &set->decay_ms && number == OPTION_FROM_PROFILE)
            number = profiles[set->profile].decay_ms;
        if (field == &set->shards && number == 0)
            number = hak_min(os_processor_count(), (unsigned)MAX_SHARDS);
        format_add(out, "%lu", number);
        break;
    case OPTION_LIMIT:
        memcpy(&number, field, sizeof number);
        if (number == LIMIT_AUTO)
            format_text(out, "auto");
        else
            format_add(out, "%lu", number);
        break;
    case OPTION_PATH:
        format_text(out, field);
        break;
    }
}

static void print_help(void) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char text[OPTION_PATH_CAPACITY];
        struct format_buffer value = format_begin(text, sizeof text - 1);
        print_value(&options[i], &hak_options, &value);
        text[value.length] = '\0';
        hak_warn("%s=%s (%s): %s", options[i].name, text, options[i].allowed, options[i].meaning);
    }
}

static void report_bad_value(const struct option *option, const char *text) {
    char value[OPTION_PATH_CAPACITY];
    struct hak_options fallback = defaults;
    struct format_buffer out = format_begin(value, sizeof value - 1);
    print_value(option, &fallback, &out);
    value[out.length] = '\0';
    memcpy(field_of(option, &hak_options), field_of(option, &fallback),
           option->kind == OPTION_CHOICE ? sizeof(unsigned)
           : option->kind == OPTION_PATH ? OPTION_PATH_CAPACITY
                                         : sizeof(uint64_t));
    hak_warn("option %s: bad value '%s', allowed: %s; using the default '%s'", option->name, text,
             option->allowed, value);
}

static void report_unknown(const char *name) {
    char names[256];
    struct format_buffer out = format_begin(names, sizeof names - 1);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        format_add(&out, "%s%s", options[i].name, i + 1 < OPTION_COUNT ? ", " : "");
    names[out.length] = '\0';
    hak_warn("unknown option '%s', allowed: %s, help; it is ignored and every default kept", name,
             names);
}

/* One "name=value", its escapes already resolved; cut in two in place. */
static bool apply(char *pair) {
    if (*pair == '\0')
        return false;
    char *value = strchr(pair, '=');
    if (value == NULL && strcmp(pair, "help") == 0)
        return true;
    if (value != NULL)
        *value++ = '\0';
    const struct option *option = find_option(pair);
    if (option == NULL)
        report_unknown(pair);
    else if (value == NULL)
        report_bad_value(option, "");
    else if (!set_value(option, value))
        report_bad_value(option, value);
    return false;
}

static void settle_profile(void) {
    options_in_force = profiles[hak_options.profile];
    if (hak_options.decay_ms != OPTION_FROM_PROFILE)
        options_in_force.decay_ms = hak_options.decay_ms;
    if (hak_options.thp != OS_THP_DEFAULT) {
        options_in_force.thp = hak_options.thp;
        options_in_force.thp_from_bytes = 0;
        options_in_force.collapse_from_bytes = 0;
    }
    /* It purges parts of large blocks, which must not be parts of huge pages then. */
    if (hak_options.zero_on_free != 0)
        options_in_force.collapse_from_bytes = 0;
}

/* What goes with hardened mode goes with it, unless it was asked for: then somebody should hear. */
static void settle_hardened(void) {
    if (hak_options.hardened != 0)
        return;
    if (hak_options.history == defaults.history)
        hak_options.history = 0;
    if (hak_options.leaks == defaults.leaks)
        hak_options.leaks = 0;
}

void options_parse(const char *text) {
    bool help = false;
    while (*text != '\0') {
        char pair[OPTION_PATH_CAPACITY + 64];
        size_t length = 0;
        for (; *text != '\0' && *text != ','; text++) {
            if (text[0] == '\\' && text[1] == ',')
                text++;
            if (length < sizeof pair - 1)
                pair[length++] = *text;
        }
        pair[length] = '\0';
        help |= apply(pair);
        if (*text == ',')
            text++;
    }
    settle_profile();
    settle_hardened();
    if (help)
        print_help();
}

void options_load(void) {
    const char *text = os_environment("HAKMEM_OPTIONS");
    options_parse(text == NULL ? "" : text);
}

bool options_print(const char *name, struct format_buffer *out) {
    const struct option *option = find_option(name);
    if (option == NULL)
        return false;
    print_value(option, &hak_options, out);
    return true;
}

void options_expand_path(const char *path, char *out, size_t capacity) {
    struct format_buffer buffer = format_begin(out, capacity - 1);
    for (; *path != '\0'; path++) {
        if (path[0] == '%' && path[1] == 'p') {
            format_add(&buffer, "%u", os_process_id());
            path++;
        } else {
            format_add(&buffer, "%c", *path);
        }
    }
    out[buffer.length] = '\0';
}
