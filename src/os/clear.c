/* Clearing memory that lies in no cache of the processor.
 *
 *   store     line in a cache?  --yes-->  written there
 *                               --no--->  fetched from memory, then written in the cache
 *   stream                      ------->  written to memory, and in no cache afterwards
 *   libc      what memset does with so many bytes: on many processors one instruction for all
 *
 * Where the caches have the lines, memset is fastest, and it leaves them there. So a few lines are
 * read, and the clock tells where they came from: a cache takes some 20 ns for one, memory 80 and
 * more. Thus nobody need know how large the caches are, nor who else has used them meanwhile.
 *
 * Where memory has them, which way is fastest depends on the processor: streaming takes a third of
 * the time of stores on one, a quarter more than they on another, and memset lies between them. So
 * each use is timed, and the next one goes the way that has been fastest; the others are tried
 * again now and then.
 *
 * Past the caches only for blocks so long that programs mostly go through them in order, or use
 * little of them (docs/decisions/0060-past-the-caches.md, 0067). */
#include "os/clear.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
enum { HAS_WAYS = true };
#else
enum { HAS_WAYS = false }; /* memset writes whole lines without fetching them, where it can */
#endif

#include "os/memory.h"
#include "os/system.h"

enum {
    GLANCE_WORTH_BYTES = 256 << 10, /* it costs as much as clearing 4 to 16 KiB */
    GLANCES = 16,
    CACHED_NS = 50,   /* at most, on average: a cache had it */
    PAGE_STRIDE = 37, /* from one to the next, times a 16th of the pages: odd, so they differ, */
    LINE_STRIDE = 23, /* and nothing that a processor would guess */

    TRIAL_EVERY = 16, /* uses: one goes another way, each in turn */
    RISES_BY = 4,     /* to a way's pace a fourth is added of what the latest use took longer */
    MIB_SHIFT = 20,
    SLOWEST_NS = 1000000000, /* a MiB */
};

/* Each address needs the word read before it, else all would be read at once: its part is none, but
 * neither compiler nor processor knows. */
bool os_is_cached(const void *start, size_t bytes) {
    volatile uint64_t nothing = 0;
    uint64_t mask = nothing;
    size_t page = os_page_size();
    size_t pages = bytes / page;
    size_t stride = PAGE_STRIDE * (pages / GLANCES + 1);
    size_t lines = page / HAK_CACHE_LINE;
    uint64_t word = 0;
    uint64_t begin_ns = os_now_ns();
    for (size_t i = 0; i < GLANCES; i++) {
        size_t line = i * stride % pages * lines + i * LINE_STRIDE % lines;
        const char *at = (const char *)start + line * HAK_CACHE_LINE + (word & mask);
        word = *(const volatile uint64_t *)(const void *)at;
    }
    uint64_t passed_ns = os_now_ns() - begin_ns + (word & mask);
    return passed_ns <= (uint64_t)GLANCES * CACHED_NS;
}

#if defined(__SSE2__)
/* The page tables are asked two pages early. */
hak_inline void clear_lines(char *start, const char *end, bool streams) {
    const __m128i zero = _mm_setzero_si128();
    size_t page = os_page_size();
    for (char *line = start; line < end; line += HAK_CACHE_LINE) {
        if (is_aligned((uintptr_t)line, page)) {
            if (streams)
                _mm_prefetch(line + 2 * page, _MM_HINT_NTA);
            else
                _mm_prefetch(line + 2 * page, _MM_HINT_T0);
        }
        __m128i *part = (__m128i *)(void *)line;
        for (size_t i = 0; i < HAK_CACHE_LINE / sizeof zero; i++) {
            if (streams)
                _mm_stream_si128(&part[i], zero);
            else
                _mm_store_si128(&part[i], zero);
        }
        __asm__ volatile("" : : : "memory"); /* else a compiler calls memset for all of it */
    }
}

static void store_lines(char *start, const char *end) { clear_lines(start, end, false); }

static void stream_lines(char *start, const char *end) {
    clear_lines(start, end, true);
    /* atomic: cold, correctness; its partner is whoever gets the block from this thread: without it
     * streamed stores may be seen after the ones that follow them. */
    __builtin_ia32_sfence();
}
#endif

void os_clear_by(enum clear_way way, void *start, size_t bytes) {
    char *rest = start;
#if defined(__SSE2__)
    char *end = rest + align_down(bytes, HAK_CACHE_LINE);
    if (way == CLEAR_STORE)
        store_lines(rest, end);
    if (way == CLEAR_STREAM)
        stream_lines(rest, end);
    if (way != CLEAR_LIBC)
        rest = end;
#endif
    (void)way;
    memset(rest, 0, (size_t)((char *)start + bytes - rest));
}

/* ns a MiB by each way, lately; 0: not tried yet. Who reads an old one clears a little slower. */
static _Atomic uint32_t paces[CLEAR_WAYS];
static _Atomic uint32_t uses;

static uint64_t pace(enum clear_way way) {
    uint64_t measured = atomic_load_explicit(&paces[way], memory_order_relaxed);
    /* What is not in the caches afterwards must be worth it. */
    return way == CLEAR_STREAM ? measured * 4 / 3 : measured;
}

enum clear_way os_clear_next(bool may_stream) {
    unsigned ways = !HAS_WAYS ? 1 : may_stream ? CLEAR_WAYS : CLEAR_STREAM;
    uint32_t use = atomic_load_explicit(&uses, memory_order_relaxed);
    atomic_store_explicit(&uses, use + 1, memory_order_relaxed);
    if (use % TRIAL_EVERY == TRIAL_EVERY - 1)
        return (enum clear_way)(use / TRIAL_EVERY % ways);
    enum clear_way best = CLEAR_LIBC;
    for (enum clear_way way = CLEAR_STORE; way < ways; way++)
        if (pace(way) < pace(best))
            best = way;
    return best;
}

void os_clear_took(enum clear_way way, uint64_t ns, size_t bytes) {
    uint64_t measured = hak_min((ns << MIB_SHIFT) / bytes, (uint64_t)SLOWEST_NS) + 1;
    uint64_t before = atomic_load_explicit(&paces[way], memory_order_relaxed);
    /* Slower it may have been because somebody else had the processor meanwhile. */
    if (before != 0 && measured > before)
        measured = before + (hak_min(measured, 2 * before) - before) / RISES_BY;
    atomic_store_explicit(&paces[way], (uint32_t)measured, memory_order_relaxed);
}

void os_clear(void *start, size_t bytes, bool may_stream) {
    if (!HAS_WAYS || bytes < GLANCE_WORTH_BYTES || os_is_cached(start, bytes)) {
        memset(start, 0, bytes);
        return;
    }
    enum clear_way way = os_clear_next(may_stream);
    uint64_t begin_ns = os_now_ns();
    os_clear_by(way, start, bytes);
    os_clear_took(way, os_now_ns() - begin_ns, bytes);
}
