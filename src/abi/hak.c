/* HAKMEM under its own names (include/hakmem/hakmem.h), for programs whose
 * malloc is somebody else's, and for tests under sanitizers. */
#include "hakmem/hakmem.h"

#include <errno.h>

#include "abi/interface.h"
#include "os/options.h"
#include "os/system.h"

#define TEXT(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *hak_version(void) {
    return VERSION_TEXT(HAK_VERSION_MAJOR, HAK_VERSION_MINOR, HAK_VERSION_PATCH);
}

void *hak_malloc(size_t size) { return abi_malloc(size); }
void hak_free(void *block) { abi_free(block); }
void *hak_calloc(size_t count, size_t size) { return abi_calloc(count, size); }
void *hak_realloc(void *block, size_t size) { return abi_realloc(block, size); }
void *hak_aligned_alloc(size_t alignment, size_t size) {
    return abi_aligned_alloc(alignment, size);
}
int hak_posix_memalign(void **result, size_t alignment, size_t size) {
    return abi_posix_memalign(result, alignment, size);
}
void *hak_memalign(size_t alignment, size_t size) { return abi_memalign(alignment, size); }
void *hak_valloc(size_t size) { return abi_valloc(size); }
void *hak_pvalloc(size_t size) { return abi_pvalloc(size); }
void *hak_reallocarray(void *block, size_t count, size_t size) {
    return abi_reallocarray(block, count, size);
}
size_t hak_malloc_usable_size(void *block) { return abi_usable_size(block); }
void hak_cfree(void *block) { abi_free(block); }

void hak_free_sized(void *block, size_t size) { abi_free_sized(block, size, 1); }
void hak_free_aligned_sized(void *block, size_t alignment, size_t size) {
    abi_free_sized(block, size, alignment);
}
void hak_sdallocx(void *block, size_t size, int flags) {
    abi_free_sized(block, size, abi_flags_alignment(flags));
}
size_t hak_nallocx(size_t size, int flags) { return abi_nallocx(size, flags); }

int hak_malloc_trim(size_t pad) {
    (void)pad;
    return front_purge() != 0;
}
size_t hak_purge(void) { return front_purge(); }
void hak_thread_idle(void) { front_thread_idle(); }
int hak_is_sparse(const void *block) { return front_is_sparse(block); }
int hak_check_heap(void) {
    int saved_errno = errno;
    front_check_heap();
    errno = saved_errno;
    return 0;
}

int hak_mallopt(int param, int value) {
    (void)param;
    (void)value;
    return 1;
}
void hak_malloc_stats(void) { abi_stats_write(OS_STANDARD_ERROR, false); }

int hak_stats_write(int fd, enum hak_stats_format format) {
    if (format != HAK_STATS_TEXT && format != HAK_STATS_JSON) {
        errno = EINVAL;
        return -1;
    }
    int error = abi_stats_write(fd, format == HAK_STATS_JSON);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

long hak_option_get(const char *name, char *buffer, size_t capacity) {
    char text[OPTION_PATH_CAPACITY + 1];
    struct format_buffer value = format_begin(text, sizeof text);
    front_start();
    if (!options_print(name, &value)) {
        errno = EINVAL;
        return -1;
    }
    if (capacity != 0) {
        size_t length = hak_min(value.length, capacity - 1);
        for (size_t i = 0; i < length; i++)
            buffer[i] = text[i];
        buffer[length] = '\0';
    }
    return (long)value.length;
}

/* --- limits ------------------------------------------------------------------- */

static void call(const struct front_callback *callback, const struct front_limit_event *event) {
    hak_limit_function *function = (hak_limit_function *)callback->function;
    struct hak_limit_event told = {
        .limit = event->limit == FRONT_SOFT_LIMIT ? HAK_SOFT_LIMIT : HAK_HARD_LIMIT,
        .limit_bytes = event->limit_bytes,
        .heap_bytes = event->heap_bytes,
        .asked_bytes = event->asked_bytes,
    };
    function(&told, callback->context);
}

static struct front_callback callback_of(hak_limit_function *function, void *context) {
    return (struct front_callback){call, (void (*)(void))function, context};
}

int hak_limit_callback(hak_limit_function *function, void *context) {
    if (function != NULL && front_start() && front_callback_add(callback_of(function, context)))
        return 0;
    errno = function == NULL ? EINVAL : ENOMEM;
    return -1;
}

int hak_limit_callback_remove(hak_limit_function *function, void *context) {
    if (function != NULL && front_callback_remove(callback_of(function, context)))
        return 0;
    errno = EINVAL;
    return -1;
}
