/* Bounds on the heap.
 *
 *   heap bytes = what the kernel may have to back
 *
 *     slabs in use                   whole, whether written to or not
 *   + free slabs that are dirty      used before, not purged since
 *   + huge blocks                    whole
 *   + descriptors                    of the whole heap
 *   -----------------------------
 *   not: addresses reserved, slabs never used, slabs purged
 *
 *   0 ........................ soft_limit ............ hard_limit
 *     free memory decays        is purged at once       more is refused
 *
 * Counting what may be resident, not what is, is what makes a refusal possible: the
 * kernel does not refuse a page that was promised, it kills.
 *
 * All of it is one counter, changed where slabs go from untouched to used or are
 * purged, and where huge blocks come and go: each time the kernel has at least 16
 * pages to find or to take back, beside which one atomic addition is nothing. Slabs
 * that are used again without having been purged do not touch it. Counters of the
 * shards could be added up only approximately, and the limit would be so, too.
 *
 * Limits that follow from a cgroup are not known before the heap is large enough for
 * them to matter: most programs never read a file for them. */
#include "span/limits.h"

#include <limits.h>
#include <stdatomic.h>

#include "os/cgroup.h"
#include "os/metadata.h"
#include "os/options.h"

enum { HYSTERESIS = 16 }; /* the limit is passed again after a fall by one of so many parts */

#define READ_AT_BYTES (16 * MIB)

struct limits limits_now = {.soft = NO_LIMIT, .hard = NO_LIMIT, .cgroup = NO_LIMIT};

/* Relaxed, too, but for is_known. */
static _Atomic unsigned processors = UINT_MAX;
static _Atomic unsigned deeds_done; /* enum limits_deed: since the limit was passed */
static _Atomic uint64_t passed_count, refused_count;
static _Atomic bool is_known; /* what follows from the cgroup, or that nothing does */

static size_t load(const _Atomic size_t *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}
static void store(_Atomic size_t *value, size_t to) {
    atomic_store_explicit(value, to, memory_order_relaxed);
}

/* What an option says, where automatic stands for a part of the cgroup's limit. */
static size_t limit_of(uint64_t option, uint64_t automatic) {
    uint64_t bytes = option == 0 ? NO_LIMIT : option == LIMIT_AUTO ? automatic : option;
    return (size_t)hak_min(bytes, (uint64_t)NO_LIMIT);
}

void limits_init(void) {
    store(&limits_now.soft, limit_of(hak_options.soft_limit, NO_LIMIT));
    store(&limits_now.hard, limit_of(hak_options.hard_limit, NO_LIMIT));
    /* Nothing depends on a cgroup: then no file is read, ever. */
    bool depends = hak_options.soft_limit == LIMIT_AUTO || hak_options.hard_limit == LIMIT_AUTO ||
                   hak_options.shards == 0;
    atomic_store_explicit(&is_known, !depends, memory_order_relaxed);
}

/* Threads that get here at once all read, and find the same: none need wait. */
static hak_cold void read_cgroup(void) {
    struct cgroup_limits cgroup = cgroup_read();
    uint64_t memory = cgroup.memory_bytes;
    bool is_limited = memory != CGROUP_UNLIMITED;
    store(&limits_now.cgroup, limit_of(LIMIT_AUTO, memory));
    store(&limits_now.soft,
          limit_of(hak_options.soft_limit, is_limited ? memory / 10 * 8 : NO_LIMIT));
    store(&limits_now.hard,
          limit_of(hak_options.hard_limit, is_limited ? memory / 10 * 9 : NO_LIMIT));
    atomic_store_explicit(&processors, cgroup.processors, memory_order_relaxed);
    /* atomic: cold, correctness; pairs with the acquire in limits_expect: what was found. */
    bool was_known = atomic_exchange_explicit(&is_known, true, memory_order_release);
    if (hak_options.verbose >= 1 && !was_known && is_limited)
        hak_warn("the cgroup allows %zu MiB", (size_t)(memory / MIB));
}

void limits_expect(size_t bytes) {
    if (hak_likely(atomic_load_explicit(&is_known, memory_order_acquire)))
        return;
    if (bytes > READ_AT_BYTES || limits_heap_bytes() + bytes > READ_AT_BYTES)
        read_cgroup();
}

static void add_one(_Atomic uint64_t *counter) {
    /* atomic: cold, telemetry; no partner: a count. */
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

bool limits_charge(size_t bytes) {
    if (bytes == 0)
        return true;
    size_t charged = load(&limits_now.charged);
    for (;;) {
        size_t heap = charged + os_metadata_used_bytes();
        size_t limit = load(&limits_now.hard);
        if (hak_unlikely(heap > limit || bytes > limit - heap)) {
            add_one(&refused_count);
            return false;
        }
        size_t sum = charged + bytes;
        /* atomic: cold, correctness; no partner: a sum, which must not pass the limit. */
        if (atomic_compare_exchange_weak_explicit(&limits_now.charged, &charged, sum,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    }
}

void limits_discharge(size_t bytes) {
    if (bytes == 0)
        return;
    /* atomic: cold, correctness; no partner: a sum. */
    size_t was = atomic_fetch_sub_explicit(&limits_now.charged, bytes, memory_order_relaxed);
    hak_assert(was >= bytes);
    (void)was;
    size_t soft = load(&limits_now.soft);
    if (atomic_load_explicit(&deeds_done, memory_order_relaxed) != 0 &&
        limits_heap_bytes() < soft - soft / HYSTERESIS)
        atomic_store_explicit(&deeds_done, 0, memory_order_relaxed);
}

bool limits_is_first(enum limits_deed deed) {
    if ((atomic_load_explicit(&deeds_done, memory_order_relaxed) & deed) != 0)
        return false;
    /* atomic: cold, correctness; no partner: one of those who ask at once is the first. */
    unsigned before = atomic_fetch_or_explicit(&deeds_done, deed, memory_order_relaxed);
    if (before == 0)
        add_one(&passed_count);
    return (before & deed) == 0;
}

uint64_t limits_refused_count(void) {
    return atomic_load_explicit(&refused_count, memory_order_relaxed);
}

unsigned limits_processors(void) { return atomic_load_explicit(&processors, memory_order_relaxed); }

struct limits_stats limits_stats(void) {
    return (struct limits_stats){
        .heap_bytes = limits_heap_bytes(),
        .soft_bytes = load(&limits_now.soft),
        .hard_bytes = load(&limits_now.hard),
        .cgroup_bytes = load(&limits_now.cgroup),
        .passed = atomic_load_explicit(&passed_count, memory_order_relaxed),
        .refused = limits_refused_count(),
    };
}
