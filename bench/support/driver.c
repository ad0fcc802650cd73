/* The shared part of the drivers; driver.h has the contract. Nothing here calls
 * malloc, directly or through stdio: what a driver reports is its own. */
#define _GNU_SOURCE
#include "support/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

uint64_t driver_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void *driver_table(size_t bytes) {
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) {
        driver_fail("no memory for the driver's own table");
    }
    return table;
}

void driver_fail(const char *message) {
    char line[256];
    int length = snprintf(line, sizeof line, "%s: %s\n", program_invocation_short_name, message);
    if (length > 0 && write(STDERR_FILENO, line, strnlen(line, sizeof line)) < 0) {
        _exit(2);
    }
    _exit(1);
}

size_t driver_number(const char *text, size_t low, size_t high) {
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || value < low || value > high) {
        driver_fail("a number is missing or out of range");
    }
    return value;
}

/* VmHWM, the most memory that was ever resident, in bytes. */
static uint64_t peak_rss_bytes(void) {
    char status[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        driver_fail("cannot open /proc/self/status");
    }
    ssize_t length = read(fd, status, sizeof status - 1);
    close(fd);
    status[length > 0 ? length : 0] = '\0';
    const char *line = strstr(status, "VmHWM:");
    if (line == NULL) {
        driver_fail("no VmHWM in /proc/self/status");
    }
    return strtoull(line + strlen("VmHWM:"), NULL, 10) * 1024;
}

void driver_print(const struct driver_result *result) {
    double seconds = (double)(result->end_ns - result->start_ns) * 1e-9;
    char line[512];
    int length =
        snprintf(line, sizeof line,
                 "{\"benchmark\": \"%s\", \"ops\": %llu, \"seconds\": %.9f, "
                 "\"ns_per_op\": %.4f, \"cpu_ns_per_op\": %.4f, "
                 "\"checksum\": \"%016llx\", \"peak_rss_bytes\": %llu}\n",
                 result->benchmark, (unsigned long long)result->ops, seconds,
                 seconds * 1e9 / (double)result->ops, (double)result->cpu_ns / (double)result->ops,
                 (unsigned long long)result->checksum, (unsigned long long)peak_rss_bytes());
    if (length < 0 || write(STDOUT_FILENO, line, (size_t)length) != length) {
        driver_fail("cannot write the result");
    }
}
