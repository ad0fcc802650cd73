/* The options: a table of what may be said of each, what each makes of it, and
 * what is said of the rest. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/options.h"

enum { TEXT = 4096 };

static struct hak_options defaults;

static int start(void **state) {
    (void)state;
    start_os("");
    defaults = hak_options;
    return 0;
}

static void parse(void *text) { options_parse(text); }

/* Parses over the defaults; what was said about it goes to `said`. */
static void parse_anew(const char *text, char said[TEXT]) {
    hak_options = defaults;
    char copy[TEXT];
    snprintf(copy, sizeof copy, "%s", text);
    catch_stderr(parse, copy, said, TEXT);
}

static void print(const char *name, char value[TEXT]) {
    struct format_buffer out = format_begin(value, TEXT - 1);
    assert_true(options_print(name, &out));
    value[out.length] = '\0';
}

static void assert_value(const char *name, const char *expected) {
    char value[TEXT];
    print(name, value);
    assert_string_equal(value, expected);
}

static const struct good {
    const char *text, *name, *value;
} good[] = {
    {"profile=speed", "profile", "speed"},
    {"profile=balanced", "profile", "balanced"},
    {"profile=lean", "profile", "lean"},
    {"stats=off", "stats", "off"},
    {"stats=exit", "stats", "exit"},
    {"stats=exit:json", "stats", "exit:json"},
    {"stats=exact", "stats", "exact"},
    {"stats=exact:json", "stats", "exact:json"},
    {"stats_file=/tmp/x", "stats_file", "/tmp/x"},
    {"stats_file=a=b", "stats_file", "a=b"},
    {"stats_file=a\\,b\\,", "stats_file", "a,b,"},
    {"stats_file=a\\b\\\\", "stats_file", "a\\b\\\\"},
    {"arena_size=32M", "arena_size", "33554432"},
    {"arena_size=65536K", "arena_size", "67108864"},
    {"arena_size=2G", "arena_size", "2147483648"},
    {"arena_size=1T", "arena_size", "1099511627776"},
    {"arena_size=33554433", "arena_size", "33554433"},
    {"decay_ms=0", "decay_ms", "0"},
    {"decay_ms=3600000", "decay_ms", "3600000"},
    {"shards=1", "shards", "1"},
    {"shards=256", "shards", "256"},
    {"thp=default", "thp", "default"},
    {"thp=always", "thp", "always"},
    {"thp=never", "thp", "never"},
    {"verbose=2", "verbose", "2"},
    /* The last one counts; empty pairs do not. */
    {"shards=3,shards=4", "shards", "4"},
    {",,shards=5,,", "shards", "5"},
};

static void test_good_values(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char said[TEXT];
        parse_anew(good[i].text, said);
        assert_string_equal(said, "");
        assert_value(good[i].name, good[i].value);
    }
}

static const struct bad {
    const char *text, *name, *allowed;
} bad[] = {
    {"profile=fast", "profile", "speed|balanced|lean"},
    {"profile=", "profile", "speed|balanced|lean"},
    {"profile", "profile", "speed|balanced|lean"},
    {"stats=on", "stats", "off|exit|exit:json|exact|exact:json"},
    {"stats_file=", "stats_file", "a path"},
    {"arena_size=31M", "arena_size", "32M to 1T"},
    {"arena_size=2T", "arena_size", "32M to 1T"},
    {"arena_size=64m", "arena_size", "32M to 1T"},
    {"arena_size=64MB", "arena_size", "32M to 1T"},
    {"arena_size=-1", "arena_size", "32M to 1T"},
    {"arena_size=18446744073709551616", "arena_size", "32M to 1T"},
    {"arena_size=17592186044416M", "arena_size", "32M to 1T"},
    {"arena_size=M", "arena_size", "32M to 1T"},
    {"decay_ms=3600001", "decay_ms", "0 to 3600000"},
    {"decay_ms=1K", "decay_ms", "0 to 3600000"},
    {"shards=0", "shards", "1 to 256"},
    {"shards=257", "shards", "1 to 256"},
    {"shards= 2", "shards", "1 to 256"},
    {"thp=yes", "thp", "default|always|never"},
    {"verbose=3", "verbose", "0 to 2"},
    {"verbose=x", "verbose", "0 to 2"},
};

/* One line that names the option, what is allowed and the default then used. */
static void test_bad_values(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char said[TEXT], standard[TEXT], beginning[TEXT], ending[TEXT];
        hak_options = defaults;
        print(bad[i].name, standard);
        parse_anew(bad[i].text, said);
        snprintf(beginning, sizeof beginning, "hakmem: option %s: ", bad[i].name);
        snprintf(ending, sizeof ending, "default '%.100s'\n", standard);
        assert_memory_equal(said, beginning, strlen(beginning));
        assert_non_null(strstr(said, bad[i].allowed));
        assert_non_null(strstr(said, ending));
        assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said));
        assert_value(bad[i].name, standard);
    }
}

static void test_unknown_names(void **state) {
    (void)state;
    static const char *const texts[] = {"profil=lean", "=1", "shards =1", "Shards=1", "help=1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char said[TEXT];
        parse_anew(texts[i], said);
        assert_memory_equal(said, "hakmem: unknown option '", 24);
        assert_non_null(strstr(said, "profile, stats, "));
        assert_memory_equal(&hak_options, &defaults, sizeof defaults);
    }
}

/* What is wrong does not keep the rest from being right. */
static void test_mixed(void **state) {
    (void)state;
    char said[TEXT];
    parse_anew("nonsense,shards=7,thp=maybe,profile=lean", said);
    assert_value("shards", "7");
    assert_value("profile", "lean");
    assert_value("thp", "default");
    assert_non_null(strstr(said, "unknown option 'nonsense'"));
    assert_non_null(strstr(said, "option thp: bad value 'maybe'"));
}

static void test_help(void **state) {
    (void)state;
    static const char *const names[] = {"profile",  "stats",  "stats_file", "arena_size",
                                        "decay_ms", "shards", "thp",        "verbose"};
    char said[TEXT];
    parse_anew("shards=9,help,verbose=1", said);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "hakmem: %s=", names[i]);
        assert_non_null(strstr(said, line));
    }
    /* The values in force, those behind it included. */
    assert_non_null(strstr(said, "shards=9 "));
    assert_non_null(strstr(said, "verbose=1 "));
}

static void test_long_values(void **state) {
    (void)state;
    char text[TEXT], said[TEXT], path[OPTION_PATH_CAPACITY + 1];
    memset(path, 'p', sizeof path);
    path[OPTION_PATH_CAPACITY - 1] = '\0';
    snprintf(text, sizeof text, "stats_file=%s,shards=6", path);
    parse_anew(text, said);
    assert_string_equal(said, "");
    assert_value("stats_file", path);
    path[OPTION_PATH_CAPACITY - 1] = 'p';
    path[OPTION_PATH_CAPACITY] = '\0';
    snprintf(text, sizeof text, "stats_file=%s,shards=6", path);
    parse_anew(text, said);
    assert_non_null(strstr(said, "option stats_file: bad value"));
    assert_value("stats_file", "");
    assert_value("shards", "6");
}

/* decay_ms comes from the profile unless it is said. */
static void test_profile_in_force(void **state) {
    (void)state;
    char said[TEXT];
    parse_anew("profile=lean", said);
    assert_string_equal(options_profile()->name, "lean");
    assert_value("decay_ms", "10");
    parse_anew("decay_ms=123,profile=speed", said);
    assert_string_equal(options_profile()->name, "speed");
    assert_int_equal(options_profile()->decay_ms, 123);
    assert_value("decay_ms", "123");
    parse_anew("", said);
    assert_string_equal(options_profile()->name, "balanced");
}

static void test_environment(void **state) {
    (void)state;
    hak_options = defaults;
    setenv("HAKMEM_OPTIONS", "shards=11", 1);
    options_load();
    assert_value("shards", "11");
    hak_options = defaults;
    unsetenv("HAKMEM_OPTIONS");
    options_load();
    assert_memory_equal(&hak_options, &defaults, sizeof defaults);
}

static void test_unknown_print(void **state) {
    (void)state;
    char text[8];
    struct format_buffer out = format_begin(text, sizeof text);
    assert_false(options_print("nonsense", &out));
    assert_int_equal(out.length, 0);
}

static void test_expand_path(void **state) {
    (void)state;
    char expected[TEXT], path[TEXT];
    snprintf(expected, sizeof expected, "/tmp/%d.%d%%x%%", getpid(), getpid());
    options_expand_path("/tmp/%p.%p%x%", path, sizeof path);
    assert_string_equal(path, expected);
    char small[6];
    options_expand_path("/a/long/path", small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    assert_memory_equal(small, "/a/l", 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_values),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_long_values),
        cmocka_unit_test(test_profile_in_force),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_unknown_print),
        cmocka_unit_test(test_expand_path),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
