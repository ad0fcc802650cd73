/* What the programs of this folder share. Each is one way for a process to
 * live; it prints "ok" and ends in 0, or says what was wrong and ends in 1. */
#ifndef TESTS_PROCESS_SUPPORT_H
#define TESTS_PROCESS_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_failed(__FILE__, __LINE__, #condition);                                          \
    } while (0)

/* Prints and ends the process at once, without exit handlers. */
void check_failed(const char *file, int line, const char *condition) __attribute__((noreturn));

/* First line of main: HAKMEM must be in this process, no core file, hang_guard. */
void process_begin(void);

/* An alarm that ends a process that hangs, before the driver's timeout does. A
 * child of fork has none and sets its own. Seconds: HANG_SECONDS of the
 * environment, or 120. */
void hang_guard(void);

/* Last line of main. */
int process_ok(void);

/* A mix of takes, gives and resizes of 1 byte to 256 KiB in which every block
 * carries stamps that are checked before it goes. One thread each. */
enum { TRAFFIC_SLOTS = 200 };

struct traffic {
    uint64_t random;
    struct {
        char *block;
        size_t size;
    } slots[TRAFFIC_SLOTS];
};

void traffic_begin(struct traffic *traffic, unsigned seed);

/* False when a block was refused or damaged. */
bool traffic_steps(struct traffic *traffic, unsigned count);
bool traffic_end(struct traffic *traffic);

/* All three. */
bool traffic_run(unsigned seed, unsigned count);

/* A number from /proc/self/status, such as "VmRSS" or "Threads"; sizes in KiB. */
size_t process_status(const char *field);

/* Lines of /proc/self/maps. */
size_t process_mappings(void);

/* Calls a function before the constructors of all libraries, or where the C library knows
 * no such moment before those of the program. */
#ifdef __GLIBC__
#define CALL_AT_FIRST(function)                                                                    \
    __attribute__((section(".preinit_array"), used)) static void (*function##_entry)(void) =       \
        function
#else
#define CALL_AT_FIRST(function)                                                                    \
    __attribute__((constructor(101))) static void function##_entry(void) { function(); }           \
    _Static_assert(1, "takes the semicolon")
#endif

/* malloc_trim of the library that is preloaded; not every C library has one. */
void process_trim(void);

/* Waits for a child and checks that it ended in 0. */
void wait_for_success(int child);

#ifdef __cplusplus
}
#endif

#endif
