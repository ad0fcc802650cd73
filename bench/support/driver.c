/* The shared part of the drivers; driver.h has the contract. Nothing here calls
 * malloc, directly or through stdio: what a driver reports is its own. */
#define _GNU_SOURCE
#include "support/driver.h"

#include "support/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TABLE_UNIT_BYTES = 4096 };

uint64_t driver_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t tables_bytes;

void *driver_table(size_t bytes) {
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) {
        driver_fail("no memory for the driver's own table");
    }
    tables_bytes += (bytes + TABLE_UNIT_BYTES - 1) & ~(uint64_t)(TABLE_UNIT_BYTES - 1);
    return table;
}

uint64_t driver_tables_bytes(void) { return tables_bytes; }

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

size_t driver_optional(int argc, char **argv, int position, size_t otherwise, size_t low,
                       size_t high) {
    return argc > position ? driver_number(argv[position], low, high) : otherwise;
}

void driver_add_metric(struct driver_result *result, const char *name, double value) {
    if (result->metric_count == DRIVER_METRICS) {
        driver_fail("too many metrics");
    }
    result->metrics[result->metric_count++] = (struct driver_metric){name, value};
}

/* Appends to a line; one that would not fit ends the program, so that none is printed in half. */
__attribute__((format(printf, 3, 4))) static void append(char *line, size_t limit,
                                                         const char *format, ...) {
    size_t length = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(line + length, limit - length, format, arguments);
    va_end(arguments);
    if (added < 0 || (size_t)added >= limit - length) {
        driver_fail("the result does not fit into its line");
    }
}

void driver_print(const struct driver_result *result) {
    double seconds = (double)(result->end_ns - result->start_ns) * 1e-9;
    uint64_t peak =
        result->peak_rss_bytes != 0 ? result->peak_rss_bytes : memory_peak_resident_bytes();
    char line[1024] = "";
    append(line, sizeof line,
           "{\"benchmark\": \"%s\", \"ops\": %llu, \"seconds\": %.9f, \"ns_per_op\": %.4f, "
           "\"checksum\": \"%016llx\", \"peak_rss_bytes\": %llu",
           result->benchmark, (unsigned long long)result->ops, seconds,
           seconds * 1e9 / (double)result->ops, (unsigned long long)result->checksum,
           (unsigned long long)peak);
    if (result->cpu_ns != 0) {
        append(line, sizeof line, ", \"cpu_ns_per_op\": %.4f",
               (double)result->cpu_ns / (double)result->ops);
    }
    for (uint32_t i = 0; i < result->metric_count; ++i) {
        append(line, sizeof line, ", \"%s\": %.10g", result->metrics[i].name,
               result->metrics[i].value);
    }
    append(line, sizeof line, "}\n");
    size_t length = strlen(line);
    if (write(STDOUT_FILENO, line, length) != (ssize_t)length) {
        driver_fail("cannot write the result");
    }
}
