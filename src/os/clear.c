/* Clearing memory that lies in no cache of the processor.
 *
 *   store     line in a cache?  --yes-->  written there
 *                               --no--->  fetched from memory, then written in the cache
 *   stream                      ------->  written to memory, and in no cache afterwards
 *
 * Who clears a long block by plain stores waits for each of its lines to be read, only to overwrite
 * it. Streaming takes a third of the time; but where the caches have the lines, plain stores are
 * faster, and so is what the program does with them next. So a few lines are read, and the clock
 * tells where they came from: a cache takes some 20 ns for one, memory 80 and more. Thus nobody
 * need know how large the caches are, nor who else has used them meanwhile.
 *
 * Only for blocks so long that programs mostly go through them in order, or use little of them
 * (docs/decisions/0060-past-the-caches.md). */
#include "os/clear.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
enum { CAN_STREAM = true };
#else
enum { CAN_STREAM = false }; /* memset writes whole lines without fetching them, where it can */
#endif

#include "os/memory.h"
#include "os/system.h"

enum {
    GLANCES = 16,
    CACHED_NS = 50,   /* at most, on average: a cache had it */
    PAGE_STRIDE = 37, /* from one to the next, times a 16th of the pages: odd, so they differ, */
    LINE_STRIDE = 23, /* and nothing that a processor would guess */
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

void os_clear_uncached(void *start, size_t bytes) {
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    size_t page = os_page_size();
    char *end = (char *)start + bytes;
    for (char *line = start; line < end; line += HAK_CACHE_LINE) {
        /* The page tables are asked early; the line itself does not stay in the caches. */
        if (is_aligned((uintptr_t)line, page))
            _mm_prefetch(line + 2 * page, _MM_HINT_NTA);
        __m128i *part = (__m128i *)(void *)line;
        for (size_t i = 0; i < HAK_CACHE_LINE / sizeof zero; i++)
            _mm_stream_si128(&part[i], zero);
    }
    /* atomic: cold, correctness; its partner is whoever gets the block from this thread: only a
     * full fence puts streamed stores in order with others. */
    atomic_thread_fence(memory_order_seq_cst);
#else
    memset(start, 0, bytes);
#endif
}

void os_clear_pages(void *start, size_t bytes) {
    if (!CAN_STREAM || os_is_cached(start, bytes))
        memset(start, 0, bytes);
    else
        os_clear_uncached(start, bytes);
}
