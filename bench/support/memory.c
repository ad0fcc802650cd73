/* Reads the kernel's account of this process without allocating; memory.h says what counts. */
#define _GNU_SOURCE
#include "support/memory.h"

#include "support/driver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 8192, KIBIBYTE = 1024 };

static void read_whole(const char *path, char text[FILE_BYTES]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        driver_fail("the kernel's account of this process's memory is not in /proc");
    }
    size_t length = 0;
    ssize_t got;
    while ((got = read(fd, text + length, FILE_BYTES - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(fd);
    text[length] = '\0';
}

/* The value of a line such as "Pss:    1234 kB". */
static uint64_t bytes_of(const char *text, const char *name) {
    const char *line = strstr(text, name);
    if (line == NULL) {
        driver_fail("a line is missing in the kernel's account of this process's memory");
    }
    return strtoull(line + strlen(name), NULL, 10) * KIBIBYTE;
}

uint64_t memory_resident_bytes(void) {
    char text[FILE_BYTES];
    read_whole("/proc/self/smaps_rollup", text);
    return bytes_of(text, "\nPss:") - driver_tables_bytes();
}

uint64_t memory_peak_resident_bytes(void) {
    char text[FILE_BYTES];
    read_whole("/proc/self/status", text);
    return bytes_of(text, "\nVmHWM:");
}

uint64_t memory_private_bytes(void) {
    char text[FILE_BYTES];
    read_whole("/proc/self/smaps_rollup", text);
    return bytes_of(text, "\nPrivate_Clean:") + bytes_of(text, "\nPrivate_Dirty:");
}

void memory_add(struct memory_average *average, uint64_t resident_bytes, uint64_t live_bytes) {
    average->resident_sum += resident_bytes;
    average->live_sum += live_bytes;
    ++average->samples;
}

void memory_sample(struct memory_average *average, uint64_t live_bytes) {
    uint64_t start_ns = driver_now_ns();
    memory_add(average, memory_resident_bytes(), live_bytes);
    average->spent_ns += driver_now_ns() - start_ns;
}

struct memory_average memory_since(const struct memory_average *average,
                                   const struct memory_average *earlier) {
    return (struct memory_average){
        .resident_sum = average->resident_sum - earlier->resident_sum,
        .live_sum = average->live_sum - earlier->live_sum,
        .samples = average->samples - earlier->samples,
        .spent_ns = average->spent_ns - earlier->spent_ns,
    };
}

double memory_average_resident(const struct memory_average *average) {
    return (double)average->resident_sum / average->samples;
}

double memory_fragmentation(const struct memory_average *average) {
    return (double)average->resident_sum / (double)average->live_sum;
}
