/* What every file of HAKMEM may use: names for what the compiler must know,
 * and arithmetic on sizes. No state, no calls.
 *
 * Three strengths of check:
 *   hak_assert   debug builds only: states what the author believes
 *   (modes)      hardened mode: checks that cost, where a mode asked for them
 *   hak_panic    always: a broken promise of the caller's, or of our own
 */
#ifndef HAK_BASE_BASE_H
#define HAK_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/panic.h"

#define hak_likely(x) __builtin_expect(!!(x), 1)
#define hak_unlikely(x) __builtin_expect(!!(x), 0)
#define hak_noinline __attribute__((noinline))
#define hak_cold __attribute__((cold, noinline))
#define hak_inline static inline __attribute__((always_inline))

/* Has a compiler keep a value where functions return theirs: else it takes another register, and
 * moves it there in the end. No instruction by itself. */
#if defined(__x86_64__)
#define hak_in_result_register(value) __asm__("" : "+a"(value))
#else
#define hak_in_result_register(value) ((void)(value))
#endif

/* Declares a variable that files of the library share: without "hidden" each
 * access would go through a table of addresses. */
#define hak_global extern __attribute__((visibility("hidden")))

/* Fields written by different threads are kept this far apart. */
#define HAK_CACHE_LINE 64u
#define hak_line_aligned _Alignas(HAK_CACHE_LINE)

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)

/* Whether this library is itself compiled for ThreadSanitizer. */
#if defined(__SANITIZE_THREAD__)
#define HAK_TSAN 1
#elif defined(__has_feature)
#define HAK_TSAN __has_feature(thread_sanitizer)
#else
#define HAK_TSAN 0
#endif

#if HAK_DEBUG
#define hak_assert(condition)                                                                      \
    ((condition) ? (void)0 : hak_assert_failed(#condition, __FILE__, __LINE__))
#else
#define hak_assert(condition) ((void)sizeof(condition))
#endif

#define hak_min(a, b) ((a) < (b) ? (a) : (b))
#define hak_max(a, b) ((a) > (b) ? (a) : (b))
#define hak_clamp(x, low, high) hak_min(hak_max(x, low), high)

hak_inline bool is_power_of_two(size_t x) { return x != 0 && (x & (x - 1)) == 0; }

/* alignment is a power of two; the caller rules out overflow. */
hak_inline size_t align_up(size_t x, size_t alignment) {
    return (x + alignment - 1) & ~(alignment - 1);
}

hak_inline size_t align_down(size_t x, size_t alignment) { return x & ~(alignment - 1); }

hak_inline bool is_aligned(uintptr_t x, size_t alignment) { return (x & (alignment - 1)) == 0; }

hak_inline size_t divide_up(size_t x, size_t divisor) { return (x + divisor - 1) / divisor; }

#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
