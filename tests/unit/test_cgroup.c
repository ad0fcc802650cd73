/* Limits of control groups, out of texts as kernels and containers write them. */
#include "support.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "os/cgroup.h"
#include "os/system.h"

/* The files that there are: path, text, path, text ... NULL. */
static const char *const *files;

static bool read_file(const char *path, char *text, size_t capacity) {
    for (const char *const *file = files; *file != NULL; file += 2) {
        if (strcmp(file[0], path) == 0) {
            snprintf(text, capacity, "%s", file[1]);
            return true;
        }
    }
    return false;
}

static void expect_at(int line, const char *cgroups, const char *mounts, const char *const *there,
                      uint64_t memory_bytes, unsigned processors) {
    files = there;
    struct cgroup_limits limits = cgroup_find(cgroups, mounts, read_file);
    if (limits.memory_bytes != memory_bytes || limits.processors != processors)
        fail_msg("line %d: %llu bytes, %u processors", line,
                 (unsigned long long)limits.memory_bytes, limits.processors);
}
#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define expect(...) expect_at(__LINE__, __VA_ARGS__)

/* --- version 2 ------------------------------------------------------------------ */

#define V2_MOUNTS                                                                                  \
    "22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"                                      \
    "24 22 0:22 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"       \
    "30 28 0:25 / /tmp rw - tmpfs tmpfs rw\n"

static void test_version_2(void **state) {
    (void)state;
    const char *cgroups = "0::/system.slice/web.service\n";
#define WEB "/sys/fs/cgroup/system.slice/web.service"
    expect(cgroups, V2_MOUNTS,
           FILES((WEB "/memory.max"), "268435456\n", (WEB "/memory.high"), "max\n",
                 (WEB "/cpu.max"), "150000 100000\n"),
           268435456, 2);
    /* high is lower; no quota */
    expect(cgroups, V2_MOUNTS,
           FILES((WEB "/memory.max"), "268435456\n", (WEB "/memory.high"), "200000000\n",
                 (WEB "/cpu.max"), "max 100000\n"),
           200000000, UINT_MAX);
    /* nothing set, no files at all */
    expect(cgroups, V2_MOUNTS, FILES((WEB "/memory.max"), "max\n"), CGROUP_UNLIMITED, UINT_MAX);
    expect(cgroups, V2_MOUNTS, FILES("/other", ""), CGROUP_UNLIMITED, UINT_MAX);
    /* zero is a limit; a small quota is one processor */
    expect(cgroups, V2_MOUNTS, FILES((WEB "/memory.max"), "0\n", (WEB "/cpu.max"), "5000 100000\n"),
           0, 1);
}

static void test_the_smallest_on_the_path(void **state) {
    (void)state;
    const char *cgroups = "0::/system.slice/web.service\n";
    expect(cgroups, V2_MOUNTS,
           FILES((WEB "/memory.max"), "900\n", "/sys/fs/cgroup/system.slice/memory.max", "500\n",
                 "/sys/fs/cgroup/memory.max", "800\n", (WEB "/cpu.max"), "max 100000\n",
                 "/sys/fs/cgroup/system.slice/cpu.max", "800000 100000\n", "/sys/fs/cgroup/cpu.max",
                 "300000 100000\n"),
           500, 3);
    expect(cgroups, V2_MOUNTS,
           FILES((WEB "/memory.max"), "900\n", "/sys/fs/cgroup/system.slice/memory.max", "max\n",
                 "/sys/fs/cgroup/memory.max", "800\n"),
           800, UINT_MAX);
    /* not above the mount point, and no neighbour's */
    expect(cgroups, V2_MOUNTS,
           FILES((WEB "/memory.max"), "900\n", "/sys/fs/memory.max", "1\n", "/memory.max", "1\n",
                 (WEB "2/memory.max"), "1\n"),
           900, UINT_MAX);
}

static void test_containers_of_version_2(void **state) {
    (void)state;
    /* a namespace of its own: the container's group is the root */
    expect(
        "0::/\n", V2_MOUNTS,
        FILES("/sys/fs/cgroup/memory.max", "1000\n", "/sys/fs/cgroup/cpu.max", "200000 100000\n"),
        1000, 2);
    /* moved to a group outside of the namespace */
    expect(
        "0::/../other\n", V2_MOUNTS,
        FILES("/sys/fs/cgroup/memory.max", "1000\n", "/sys/fs/cgroup/../other/memory.max", "1\n"),
        1000, UINT_MAX);
    /* names that only look like it */
    expect("0::/..other\n", V2_MOUNTS, FILES("/sys/fs/cgroup/..other/memory.max", "7\n"), 7,
           UINT_MAX);
    /* the host's path, only a part of the hierarchy mounted */
    expect("0::/docker/5f/init\n", "9 8 0:2 /docker/5f /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
           FILES("/sys/fs/cgroup/init/memory.max", "max\n", "/sys/fs/cgroup/memory.max", "1000\n"),
           1000, UINT_MAX);
    expect("0::/docker/5f\n", "9 8 0:2 /docker/5f /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
           FILES("/sys/fs/cgroup/memory.max", "1000\n"), 1000, UINT_MAX);
    /* mounted twice: the one that shows the path, though it comes second */
    expect("0::/b\n",
           "9 8 0:2 /a /one rw - cgroup2 c rw\n"
           "9 8 0:2 /b /two rw - cgroup2 c rw\n",
           FILES("/one/memory.max", "1\n", "/two/memory.max", "2\n"), 2, UINT_MAX);
    /* neither shows it; /bb is not below /b */
    expect("0::/bb\n", "9 8 0:2 /b /one rw - cgroup2 c rw\n", FILES("/one/memory.max", "1\n"), 1,
           UINT_MAX);
}

/* --- version 1, and both ---------------------------------------------------------- */

#define V1_MOUNTS                                                                                  \
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"                          \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct\n"         \
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                            \
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"                   \
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"

static void test_version_1(void **state) {
    (void)state;
    const char *cgroups = "9:name=systemd:/s\n5:cpuset:/\n4:memory:/a/b\n1:cpu,cpuacct:/a\n0::/\n";
    expect(cgroups, V1_MOUNTS,
           FILES("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n",
                 "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n",
                 "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n",
                 "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n",
                 "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n",
                 "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n",
                 "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
           1048576, 3);
    /* a quota of none at all, and one without its period */
    expect(cgroups, V1_MOUNTS,
           FILES("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854710272\n",
                 "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n",
                 "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n",
                 "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n"),
           CGROUP_UNLIMITED, UINT_MAX);
}

static void test_container_of_version_1(void **state) {
    (void)state;
    const char *mounts = "35 31 0:32 /docker/5f /sys/fs/cgroup/memory ro,nosuid master:20 - cgroup "
                         "cgroup rw,memory\n";
    const char *const *there = FILES("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
    expect("4:memory:/docker/5f\n", mounts, there, 4096, UINT_MAX);
    expect("4:memory:/\n", mounts, there, 4096, UINT_MAX);
    expect("4:memory:/elsewhere\n", mounts, there, 4096, UINT_MAX);
}

static void test_hybrid(void **state) {
    (void)state;
    /* memory in version 1, cpu in version 2 */
    expect("4:memory:/a\n1:name=systemd:/a\n0::/a\n",
           V1_MOUNTS "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
           FILES("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n",
                 "/sys/fs/cgroup/unified/a/cpu.max", "400000 100000\n"),
           4096, 4);
}

/* --- texts that are not as they should be ------------------------------------------- */

static void test_escapes(void **state) {
    (void)state;
    expect("0::/a b\n", "24 22 0:22 / /my\\040groups\\134x rw - cgroup2 cgroup2 rw\n",
           FILES("/my groups\\x/a b/memory.max", "77\n"), 77, UINT_MAX);
}

static void test_odd_texts(void **state) {
    (void)state;
    static const char *const odd[] = {
        "",
        "\n\n",
        "0",
        "0:",
        "0::",
        "::::\n",
        "4:memory:",
        "-",
        " - \n",
        "a b c d e f - cgroup2",
        "/",
        "0::/a",
        "0::a",
        "1 2 3 / - - -",
        "1 2 3 /x /y z - cgroup c memory",
    };
    enum { COUNT = sizeof odd / sizeof odd[0] };
    for (unsigned i = 0; i < COUNT; i++) {
        for (unsigned j = 0; j < COUNT; j++)
            expect(odd[i], odd[j], FILES("/nowhere", ""), CGROUP_UNLIMITED, UINT_MAX);
    }
    static const char *const numbers[] = {"",      "\n",   "abc\n",
                                          "12x\n", "-5\n", "99999999999999999999999\n"};
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        expect("0::/\n", V2_MOUNTS,
               FILES("/sys/fs/cgroup/memory.max", numbers[i], "/sys/fs/cgroup/cpu.max", numbers[i]),
               CGROUP_UNLIMITED, UINT_MAX);
    /* a last line without its end */
    expect("0::/", "24 22 0:22 / /g rw - cgroup2 cgroup2 rw", FILES("/g/memory.max", "5"), 5,
           UINT_MAX);
    /* a path longer than any buffer */
    static char path[5000];
    memset(path, 'x', sizeof path - 1);
    for (unsigned i = 0; i < 4; i++)
        path[i] = "0::/"[i];
    expect(path, V2_MOUNTS, FILES("/sys/fs/cgroup/memory.max", "5"), CGROUP_UNLIMITED, UINT_MAX);
}

/* Every prefix of good texts, at the end of readable memory for the sanitizers. */
static void test_cut_texts(void **state) {
    (void)state;
    char cut[sizeof V1_MOUNTS];
    for (size_t length = 0; length < sizeof cut; length++) {
        memcpy(cut, V1_MOUNTS, length);
        cut[length == sizeof cut ? length - 1 : length] = '\0';
        files = FILES("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n");
        struct cgroup_limits limits = cgroup_find("4:memory:/a\n", cut, read_file);
        assert_true(limits.memory_bytes == 4096 || limits.memory_bytes == CGROUP_UNLIMITED);
    }
}

static void test_this_process(void **state) {
    (void)state;
    start_os("");
    struct cgroup_limits limits = cgroup_read();
    assert_true(limits.memory_bytes > 0 && limits.processors > 0);
    char text[64];
    assert_true(os_file_read("/proc/self/stat", text, sizeof text));
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_false(os_file_read("/proc/self/no-such-file", text, sizeof text));
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_the_smallest_on_the_path),
        cmocka_unit_test(test_containers_of_version_2),
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_container_of_version_1),
        cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_odd_texts),
        cmocka_unit_test(test_cut_texts),
        cmocka_unit_test(test_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
