/* What else the allocator asks of the system: time, processors, chance, its
 * environment and files for its reports. */
#ifndef HAK_OS_SYSTEM_H
#define HAK_OS_SYSTEM_H

#include "base/base.h"
#include "base/format.h"

/* Milliseconds of a monotonic clock, a few milliseconds coarse, no system call. */
uint64_t os_now_ms(void);

/* Nanoseconds of a monotonic clock, as fine as the machine has it; mostly no system call. */
uint64_t os_now_ns(void);

void os_sleep_ms(uint64_t ms);

/* Microseconds of processor time that all threads of the process have used, or the calling one. A
 * call into the kernel. */
uint64_t os_process_cpu_us(void);
uint64_t os_thread_cpu_us(void);

/* Whether the process may have more than one thread: what the C library says, if that is
 * wanted and it can tell. No system call, but it goes on saying so when they have ended. */
bool os_may_be_threaded(bool ask_libc);

/* Grows with the number of threads: the links of /proc/self/task, a folder that has one for
 * itself, one for its parent and one for each folder in it. 0: not known. */
enum { OS_LINKS_OF_ONE_THREAD = 3 };
size_t os_thread_links(void);

/* Makes a thread that runs main and that nobody waits for, with a small stack and all
 * signals blocked. Called without locks, for the C library may allocate. */
bool os_start_thread(void *(*main)(void *));

/* Of the calling thread, as ps -L and top -H show it: at most 15 characters. */
void os_name_thread(const char *name);

/* Processors that this process may run on, at least 1. */
unsigned os_processor_count(void);

/* A random word, the same during the life of the process. */
uint64_t os_random_seed(void);

/* Bytes that nobody outside can guess, nor tell from one another: not those that the C library
 * has drawn its own secrets from. Less than that only where the kernel has none to give. */
void os_random_fill(void *bytes, size_t count);

/* The value of an environment variable, or NULL. Always NULL in a process that
 * runs with raised privileges. Valid until the environment changes. Works also
 * before the C library has set up its environment; then the text is valid for
 * ever. */
const char *os_environment(const char *name);

unsigned os_process_id(void);

/* Whether a dynamic linker started this program. May be asked while it is still
 * at work. */
bool os_has_dynamic_linker(void);

enum { OS_STANDARD_ERROR = 2 }; /* its file descriptor */

/* A buffer that writes to a file descriptor when full and at os_output_end. */
struct format_buffer os_output_begin(int descriptor, char *text, size_t capacity);

/* Writes the rest; 0, or the errno of the first write that failed. */
int os_output_end(struct format_buffer *buffer);

/* Reads a file from its start, cut to capacity - 1 bytes, and terminates it. False:
 * it cannot be read. No cancellation point, for malloc is none; errno is kept. */
bool os_file_read(const char *path, char *text, size_t capacity);

/* A new or emptied file to write to; -1 with errno as open(2). */
int os_file_create(const char *path);

/* A second descriptor for a file, out of the way of programs that close theirs, and later that
 * descriptor: the first one if there was no second to be had, -1 if both are no more what they
 * were. A program may close them all and open others, which must not be written to. */
struct os_kept_file {
    int first, second;
    uint64_t device, inode;
};
struct os_kept_file os_file_keep(int descriptor);
int os_file_kept(const struct os_kept_file *file);
void os_file_close(int descriptor);

#endif
