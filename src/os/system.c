/* The small services of the system. */
#include "os/system.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/calls.h"
#include "os/memory.h"

uint64_t os_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t os_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t used_us(clockid_t clock) {
    struct timespec used;
    clock_gettime(clock, &used);
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

uint64_t os_process_cpu_us(void) { return used_us(CLOCK_PROCESS_CPUTIME_ID); }
uint64_t os_thread_cpu_us(void) { return used_us(CLOCK_THREAD_CPUTIME_ID); }

void os_sleep_ms(uint64_t ms) {
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    int saved_errno = errno;
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    errno = saved_errno;
}

/* glibc's own word for it, since 2.32; <sys/single_threaded.h> would demand it. */
extern char __libc_single_threaded __attribute__((weak));

bool os_may_be_threaded(bool ask_libc) {
    return !ask_libc || &__libc_single_threaded == NULL || __libc_single_threaded == 0;
}

size_t os_thread_links(void) {
    if (!os_call_begins(OS_CALL_ASK))
        return 0;
    struct stat tasks;
    int saved_errno = errno;
    bool is_known = stat("/proc/self/task", &tasks) == 0;
    errno = saved_errno;
    return is_known ? tasks.st_nlink : 0;
}

bool os_start_thread(void *(*main)(void *)) {
    enum { STACK_BYTES = 128 * 1024 }; /* most of it for other libraries' thread-local data */
    pthread_attr_t attributes;
    if (!os_call_begins(OS_CALL_THREAD) || pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* A new thread has its maker's mask. By the C library's own call, which leaves out the
     * signal by which setuid reaches every thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

void os_name_thread(const char *name) { prctl(PR_SET_NAME, name); }

/* The kernel is asked itself: libc's function lies by itself, and would be the only one of its
 * 64 KiB that the kernel then maps. Its cpu_set_t ends at 1,024 processors, too. */
unsigned os_processor_count(void) {
    uint64_t mask[8192 / WORD_BITS];
    int saved_errno = errno;
    long bytes =
        os_call_begins(OS_CALL_ASK) ? syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) : -1;
    errno = saved_errno;
    unsigned count = 0;
    for (size_t w = 0; bytes > 0 && w < (size_t)bytes / sizeof mask[0]; w++)
        count += bit_count(mask[w]);
    return count > 0 ? count : 1;
}

uint64_t os_random_seed(void) {
    /* The kernel leaves 16 random bytes to each program at its start. */
    const void *bytes = (const void *)getauxval(AT_RANDOM); // NOLINT(performance-no-int-to-ptr)
    uint64_t seed = os_now_ms();
    if (bytes != NULL)
        memcpy(&seed, bytes, sizeof seed);
    return seed;
}

/* The finalizer of splitmix64. */
static uint64_t scrambled(uint64_t word) {
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

void os_random_fill(void *bytes, size_t count) {
    int saved_errno = errno;
    long got =
        os_call_begins(OS_CALL_ASK) ? syscall(SYS_getrandom, bytes, count, GRND_NONBLOCK) : -1;
    errno = saved_errno;
    for (size_t i = got < 0 ? 0 : (size_t)got; i < count; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)scrambled(os_random_seed() + i);
}

bool os_has_dynamic_linker(void) { return getauxval(AT_BASE) != 0; }

unsigned os_process_id(void) { return (unsigned)getpid(); }

/* "NAME=value" is name's? Then its value. */
static const char *value_if_named(const char *entry, const char *name) {
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

/* The environment as the kernel keeps it, for calls so early that the C
 * library has not set environ: inside the dynamic linker. */
static const char *value_in_proc(const char *name) {
    enum { CAPACITY = 128 * 1024 };
    static char *text;
    static size_t length;
    if (text == NULL) {
        text = os_map_aligned(CAPACITY, 1);
        int file = -1;
        if (text != NULL && os_call_begins(OS_CALL_READ))
            file = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
        if (file < 0)
            return NULL;
        ssize_t got;
        while (length < CAPACITY - 1 &&
               (got = read(file, text + length, CAPACITY - 1 - length)) > 0)
            length += (size_t)got;
        close(file);
    }
    for (size_t at = 0; at < length; at += strlen(text + at) + 1) {
        const char *value = value_if_named(text + at, name);
        if (value != NULL)
            return value;
    }
    return NULL;
}

const char *os_environment(const char *name) {
    if (getauxval(AT_SECURE) != 0)
        return NULL;
    if (environ == NULL) {
        int saved_errno = errno;
        const char *value = value_in_proc(name);
        errno = saved_errno;
        return value;
    }
    for (char **entry = environ; *entry != NULL; entry++) {
        const char *value = value_if_named(*entry, name);
        if (value != NULL)
            return value;
    }
    return NULL;
}

static void drain(struct format_buffer *buffer) {
    size_t done = 0;
    while (done < buffer->length && buffer->drain_error == 0) {
        ssize_t written = write(buffer->drain_target, buffer->text + done, buffer->length - done);
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR)
            buffer->drain_error = errno;
    }
    buffer->length = 0;
}

struct format_buffer os_output_begin(int descriptor, char *text, size_t capacity) {
    struct format_buffer buffer = format_begin(text, capacity);
    buffer.drain = drain;
    buffer.drain_target = descriptor;
    return buffer;
}

int os_output_end(struct format_buffer *buffer) {
    drain(buffer);
    return buffer->drain_error;
}

bool os_file_read(const char *path, char *text, size_t capacity) {
    int saved_errno = errno;
    size_t length = 0;
    long got = -1;
    int file = -1;
    if (os_call_begins(OS_CALL_READ))
        file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        do {
            got = syscall(SYS_read, file, text + length, capacity - 1 - length);
            length += got > 0 ? (size_t)got : 0;
        } while ((got > 0 && length < capacity - 1) || (got < 0 && errno == EINTR));
        syscall(SYS_close, file);
    }
    text[length] = '\0';
    errno = saved_errno;
    return got >= 0;
}

int os_file_create(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static bool is_same_file(int descriptor, const struct os_kept_file *file) {
    struct stat status;
    return descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == file->device &&
           status.st_ino == file->inode;
}

struct os_kept_file os_file_keep(int descriptor) {
    enum { OUT_OF_THE_WAY = 200 };
    int saved_errno = errno;
    struct stat status;
    struct os_kept_file file = {.first = -1, .second = -1};
    if (os_call_begins(OS_CALL_ASK) && fstat(descriptor, &status) == 0)
        file = (struct os_kept_file){
            .first = descriptor,
            .second = fcntl(descriptor, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY),
            .device = status.st_dev,
            .inode = status.st_ino,
        };
    errno = saved_errno;
    return file;
}

int os_file_kept(const struct os_kept_file *file) {
    int saved_errno = errno;
    int kept = is_same_file(file->second, file)  ? file->second
               : is_same_file(file->first, file) ? file->first
                                                 : -1;
    errno = saved_errno;
    return kept;
}

void os_file_close(int descriptor) { close(descriptor); }
