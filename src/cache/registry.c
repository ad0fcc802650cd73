/* The threads that have a cache.
 *
 *                  ,-------- resting <------- registry_rest
 *                  v           |                    |
 *   newborn --registry_add--> alive --registry_remove--> dead, reused
 *                               |
 *                             fork, in the child: orphans --> reclaimed
 *
 * A thread structure is never unmapped; the next thread takes over what the
 * last one left, its slot arrays and counts included, unless its pages have been
 * given back meanwhile.
 *
 * One cache a shard may rest: a thread that ends leaves its blocks in it, and one that
 * begins goes on where that one ended, but for large blocks and foreign ones. Threads that follow
 * each other save each other the refills and flushes of a beginning and an end. Nobody follows:
 * after as long as free pages are kept, whoever looks takes it, as a new thread does, and ends it
 * for good. So what is nobody's is never changed, and who works on bins is their only owner.
 *
 * Lock: registry_lock protects the lists, what rests, and the counts per shard. */
#include "cache/cache.h"
#include "os/metadata.h"
#include "os/options.h"
#include "os/system.h"
#include "span/arena.h"
#include "span/limits.h"

struct os_lock registry_lock;

/* A thread may have this part of what the others have left, and in any case this part of an equal
 * share; a whole one of what a large heap adds. */
enum { SHARE_PART = 2, LEAST_PART = 4 };
static const size_t promise_step_bytes = 16 * KIB;

static struct list alive = {&alive, &alive};
static struct thread *resting[MAX_SHARDS]; /* of its own shard each; NULL: none */
static struct list dead = {&dead, &dead};  /* released ones behind the others */
static struct list orphans = {&orphans, &orphans};
static struct list reclaimed = {&reclaimed, &reclaimed};
_Atomic bool registry_has_orphans;
_Atomic unsigned registry_resting_count;
static _Atomic unsigned alive_count;
static _Atomic size_t promised_bytes; /* by those alive, and what rests */
static unsigned per_shard[MAX_SHARDS];

unsigned registry_count(void) { return atomic_load_explicit(&alive_count, memory_order_relaxed); }

/* What a large heap adds to the budget: hundreds of threads that have worked and sleep now hold all
 * of a small one's, and those that work would have a block of each size left. */
static size_t added_bytes(const struct hak_profile *profile) {
    if (profile->cache_heap_part == 0)
        return 0;
    size_t part = arena_taken() * SUPER_BYTES / profile->cache_heap_part;
    part = hak_min(part, (size_t)UINT32_MAX / 2);
    return part - hak_min(part, profile->cache_total_bytes);
}

size_t registry_budget_bytes(const struct thread *thread) {
    const struct hak_profile *profile = options_profile();
    size_t added = added_bytes(profile);
    size_t total = profile->cache_total_bytes + added;
    size_t others =
        atomic_load_explicit(&promised_bytes, memory_order_relaxed) - thread->promised_bytes;
    size_t share = others < total ? (total - others) / SHARE_PART : 0;
    if (share >= profile->cache_thread_max_bytes)
        return profile->cache_thread_max_bytes;
    size_t shared = profile->cache_total_bytes / LEAST_PART + added;
    size_t least = (uint32_t)shared / hak_max(registry_count(), 1u);
    return hak_clamp(hak_max(share, least), profile->cache_thread_min_bytes,
                     profile->cache_thread_max_bytes);
}

void registry_promise(struct thread *thread, size_t bytes) {
    size_t change = bytes - thread->promised_bytes;
    if (bytes != 0 && change + promise_step_bytes < 2 * promise_step_bytes)
        return;
    thread->promised_bytes = bytes;
    /* atomic: cold, telemetry; read in registry_budget_bytes, and orders nothing. */
    atomic_fetch_add_explicit(&promised_bytes, change, memory_order_relaxed);
}

static void count_alive(int change) {
    unsigned count = registry_count();
    atomic_store_explicit(&alive_count, count + (unsigned)change, memory_order_relaxed);
}

/* Where a cgroup allows the time of fewer processors than there are, as many threads run
 * at once on average, and more shards would only spread memory. */
static unsigned used_shards(void) {
    unsigned shards = slab_shard_count();
    return hak_options.shards != 0 ? shards : hak_min(shards, limits_processors());
}

/* Of several, one in which a cache rests. */
static unsigned emptiest_shard(void) {
    unsigned best = 0;
    for (unsigned shard = 1; shard < used_shards(); shard++) {
        bool is_better = resting[best] == NULL && resting[shard] != NULL;
        if (per_shard[shard] < per_shard[best] + is_better)
            best = shard;
    }
    return best;
}

/* A thread without blocks, of no shard yet; NULL when out of memory. */
static struct thread *take_empty(void) {
    if (list_is_empty(&dead)) {
        /* A row is opened by the first block of its shards; one page more is bookkeeping. */
        size_t rows = hak_min(slab_shard_count(), (unsigned)ROW_COUNT);
        return os_metadata_take_sparse(sizeof(struct thread), (rows + 1) * ROW_BYTES);
    }
    struct thread *thread = container_of(dead.next, struct thread, link);
    list_remove(&thread->link);
    return thread;
}

static void count_resting(int change) {
    unsigned count = atomic_load_explicit(&registry_resting_count, memory_order_relaxed);
    atomic_store_explicit(&registry_resting_count, count + (unsigned)change, memory_order_relaxed);
}

static struct thread *take_resting(unsigned shard) {
    struct thread *thread = resting[shard];
    if (thread != NULL) {
        resting[shard] = NULL;
        count_resting(-1);
    }
    return thread;
}

static void enter(struct thread *thread) {
    per_shard[thread->shard]++;
    count_alive(1);
    list_push_back(&alive, &thread->link);
}

static void leave(struct thread *thread) {
    list_remove(&thread->link);
    per_shard[thread->shard]--;
    count_alive(-1);
}

struct thread *registry_add(void) {
    os_lock_acquire(&registry_lock);
    unsigned shard = emptiest_shard();
    struct thread *thread = take_resting(shard);
    if (thread == NULL && (thread = take_empty()) != NULL)
        cache_open(thread, shard);
    if (thread != NULL)
        enter(thread);
    os_lock_release(&registry_lock);
    return thread;
}

bool registry_rest(struct thread *thread) {
    cache_flush_large(thread);   /* any of them may keep a SuperSlab from being whole */
    cache_close_foreign(thread); /* kept, they would add up to a bin in each shard's row */
    os_lock_acquire(&registry_lock);
    bool is_asked = atomic_load_explicit(&thread->is_asked_to_flush, memory_order_relaxed);
    bool rests = resting[thread->shard] == NULL && options_profile()->decay_ms != 0 &&
                 limits_excess() == 0 && !is_asked;
    if (rests) {
        thread->rests_since_ms = os_now_ms();
        leave(thread);
        resting[thread->shard] = thread;
        count_resting(1);
    }
    os_lock_release(&registry_lock);
    return rests;
}

/* One that has rested long enough by now, alive again: the caller is its thread. */
static struct thread *rouse(uint64_t now_ms) {
    uint64_t decay_ms = options_profile()->decay_ms;
    struct thread *thread = NULL;
    os_lock_acquire(&registry_lock);
    for (unsigned shard = 0; shard < slab_shard_count() && thread == NULL; shard++) {
        if (resting[shard] != NULL && resting[shard]->rests_since_ms + decay_ms <= now_ms)
            thread = take_resting(shard);
    }
    if (thread != NULL)
        enter(thread);
    os_lock_release(&registry_lock);
    return thread;
}

bool registry_settle(uint64_t now_ms) {
    struct thread *thread;
    while ((thread = rouse(now_ms)) != NULL) {
        cache_flush(thread);
        registry_remove(thread);
    }
    return registry_has_resting();
}

void registry_remove(struct thread *thread) {
    os_lock_acquire(&registry_lock);
    leave(thread);
    cache_close(thread);
    thread->is_released = false;
    list_push_front(&dead, &thread->link);
    os_lock_release(&registry_lock);
}

/* The dead thread used last that still has its pages, off the list; NULL: none. The
 * child of a fork in this moment does without it. */
static struct thread *take_unreleased(void) {
    struct thread *thread = NULL;
    os_lock_acquire(&registry_lock);
    if (!list_is_empty(&dead)) {
        thread = container_of(dead.next, struct thread, link);
        if (thread->is_released)
            thread = NULL;
        else
            list_remove(&thread->link);
    }
    os_lock_release(&registry_lock);
    return thread;
}

void registry_release(unsigned most) {
    struct thread *thread;
    for (; most != 0 && (thread = take_unreleased()) != NULL; most--) {
        cache_release(thread);
        os_lock_acquire(&registry_lock);
        thread->is_released = true;
        list_push_back(&dead, &thread->link);
        os_lock_release(&registry_lock);
    }
}

void registry_orphan_all_but(struct thread *survivor) {
    while (!list_is_empty(&alive)) {
        struct list *link = alive.next;
        list_remove(link);
        list_push_back(&orphans, link);
        per_shard[container_of(link, struct thread, link)->shard]--;
    }
    atomic_store_explicit(&alive_count, 0, memory_order_relaxed);
    if (survivor != NULL) {
        list_remove(&survivor->link);
        enter(survivor);
    }
    size_t promised = survivor != NULL ? survivor->promised_bytes : 0;
    for (unsigned shard = 0; shard < slab_shard_count(); shard++)
        promised += resting[shard] != NULL ? resting[shard]->promised_bytes : 0;
    atomic_store_explicit(&promised_bytes, promised, memory_order_relaxed);
    atomic_store_explicit(&registry_has_orphans, !list_is_empty(&orphans), memory_order_relaxed);
}

void registry_reclaim_one(void) {
    struct thread *orphan = NULL;
    os_lock_acquire(&registry_lock);
    if (!list_is_empty(&orphans)) {
        orphan = container_of(orphans.next, struct thread, link);
        list_remove(&orphan->link);
    }
    atomic_store_explicit(&registry_has_orphans, !list_is_empty(&orphans), memory_order_relaxed);
    os_lock_release(&registry_lock);
    if (orphan == NULL)
        return;
    /* Its structure is not used again: its slot arrays may be in disorder. */
    cache_reclaim(orphan);
    os_lock_acquire(&registry_lock);
    list_push_back(&reclaimed, &orphan->link);
    os_lock_release(&registry_lock);
}

static void close_own_bins(struct thread *thread) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        struct bin *bin = &thread->own->bins[class];
        if (bin_limit(bin) != NULL)
            bin_set_limit(bin, NULL);
    }
}

/* The order of the two stores does not matter: should the thread make a slow call between
 * them, it opens a bin again that is closed once more a moment later. */
void registry_ask_flush(const struct thread *asker) {
    os_lock_acquire(&registry_lock);
    list_for_each(link, &alive) {
        struct thread *thread = container_of(link, struct thread, link);
        if (thread == asker)
            continue;
        atomic_store_explicit(&thread->is_asked_to_flush, true, memory_order_relaxed);
        close_own_bins(thread);
    }
    os_lock_release(&registry_lock);
}

static void close_bin_of(struct thread *thread, unsigned first) {
    for (unsigned i = 0; i < CLASS_COUNT - 1; i++) {
        struct bin *bin = &thread->own->bins[1 + (first + i) % (CLASS_COUNT - 1)];
        if (bin_limit(bin) == NULL)
            continue;
        bin_set_limit(bin, NULL);
        return;
    }
}

void registry_close_bin(uint64_t random) {
    os_lock_acquire(&registry_lock);
    uint64_t left = random % hak_max(registry_count(), 1u);
    list_for_each(link, &alive) {
        if (left-- == 0)
            close_bin_of(container_of(link, struct thread, link), (unsigned)(random >> 32));
    }
    os_lock_release(&registry_lock);
}

void registry_visit(void (*visit)(const struct thread *thread, void *context), void *context) {
    struct list *lists[] = {&alive, &dead, &orphans, &reclaimed};
    os_lock_acquire(&registry_lock);
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        list_for_each(link, lists[i]) visit(container_of(link, struct thread, link), context);
    }
    for (unsigned shard = 0; shard < slab_shard_count(); shard++) {
        if (resting[shard] != NULL)
            visit(resting[shard], context);
    }
    os_lock_release(&registry_lock);
}

static void add_slow_calls(const struct thread *thread, void *context) {
    *(uint64_t *)context += atomic_load_explicit(&thread->slow_calls, memory_order_relaxed);
}

uint64_t registry_slow_calls(void) {
    uint64_t calls = 0;
    registry_visit(add_slow_calls, &calls);
    return calls;
}

static bool check_thread(struct finding *finding, const struct thread *thread) {
    return (thread->shard < slab_shard_count() && thread->cache.thread == thread &&
            thread->own == &thread->cache.rows[thread->shard % ROW_COUNT]) ||
           finding_note(finding, "thread structure %p (shard %u) is not its own",
                        (const void *)thread, thread->shard);
}

/* The shards' counts are those of the threads alive. */
static bool check_alive(struct finding *finding) {
    unsigned counts[MAX_SHARDS] = {0};
    list_for_each(link, &alive) {
        const struct thread *thread = container_of(link, struct thread, link);
        if (!check_thread(finding, thread))
            return false;
        counts[thread->shard]++;
    }
    for (unsigned shard = 0; shard < slab_shard_count(); shard++) {
        if (counts[shard] != per_shard[shard])
            return finding_note(finding, "shard %u: %u threads noted, but there are %u", shard,
                                per_shard[shard], counts[shard]);
    }
    return true;
}

/* Nobody works on the bins of those that rest, so they can be looked at, too. */
static bool check_resting(struct finding *finding) {
    unsigned count = 0;
    for (unsigned shard = 0; shard < slab_shard_count(); shard++) {
        const struct thread *thread = resting[shard];
        if (thread == NULL)
            continue;
        count++;
        if (!check_thread(finding, thread))
            return false;
        if (thread->shard != shard)
            return finding_note(finding, "thread structure %p (shard %u) rests in shard %u",
                                (const void *)thread, thread->shard, shard);
        if (!cache_check(thread, finding))
            return false;
    }
    return count == atomic_load_explicit(&registry_resting_count, memory_order_relaxed) ||
           finding_note(finding, "%u caches rest, not as many as noted", count);
}

bool registry_check(struct finding *finding) {
    struct list *lists[] = {&alive, &dead, &orphans, &reclaimed};
    size_t counts[sizeof lists / sizeof lists[0]];
    bool is_whole = true;
    os_lock_acquire(&registry_lock);
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0] && is_whole; i++)
        is_whole = list_count_sound(lists[i], SIZE_MAX, &counts[i]) ||
                   finding_note(finding, "list %u of threads is broken", i);
    if (is_whole && counts[0] != registry_count())
        is_whole = finding_note(finding, "%u threads noted, but there are %zu", registry_count(),
                                counts[0]);
    is_whole = is_whole && check_alive(finding) && check_resting(finding);
    os_lock_release(&registry_lock);
    return is_whole;
}
