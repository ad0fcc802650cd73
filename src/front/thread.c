/* The start of HAKMEM, and of each thread's use of it, and its end.
 *
 *   shows      newborn ----------> its own cache ----------> dead
 *   happens             first slow call          TLS destructor
 *
 * What it leaves in its cache rests for a moment, for the next thread, or goes home at once
 * (cache/registry.c). A thread that says it will sleep long (front_thread_idle) ends in this sense,
 * but shows newborn again.
 *
 * Newborn and dead are shared caches whose every bin is empty and full, so each
 * call of such a thread comes to the slow path, which looks here. A newborn one
 * gets a cache; a dead one, which has flushed its cache already and will have no
 * second chance, works without from then on: each block straight from its slab
 * and back. That serves other libraries' destructors, which may run after ours.
 *
 * The first call may come before any constructor, inside the dynamic linker. So
 * nothing here needs a constructor to have run; until the library's own has, the
 * thread works without a cache. What is called (pthread_key_create,
 * pthread_setspecific, pthread_atfork) may itself allocate, so thread-local state
 * is complete before each such call. */
#include <pthread.h>

#include "front/front.h"
#include "modes/guard.h"
#include "modes/watch.h"
#include "os/calls.h"
#include "os/frozen.h"
#include "os/options.h"
#include "os/system.h"
#include "span/arena.h"

static struct cache newborn_cache; /* all zero: every bin is full */
static struct cache dead_cache;

_Thread_local struct front_tls front_tls = {
    .row = (struct row *)&cache_closed_row,
    .cache = &newborn_cache,
};

/* Inside the dynamic linker, while it relocates, this thread's TLS exists but is
 * all zero: its initial values are copied into it only afterwards (glibc, elf/rtld.c).
 * Resolvers of IFUNC symbols run at that time, and some call malloc. So this library
 * has such a symbol itself: its resolver runs when the library is relocated, which is
 * before all that use it, and writes the initial values early. Without a dynamic linker
 * resolvers run before there is any TLS, but then nothing is relocated late either. */
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__)) && !HAK_TSAN
static void nothing(void) {}

__attribute__((used, no_sanitize("address",
                                 "undefined"))) static void (*resolve_early_probe(void))(void) {
    if (os_has_dynamic_linker()) {
        front_tls.row = (struct row *)&cache_closed_row;
        front_tls.cache = &newborn_cache;
    }
    return nothing;
}

/* Not static: of such clang makes one that all can see. */
hak_global void early_probe(void) __attribute__((ifunc("resolve_early_probe")));
static void (*const early_probe_reference)(void) __attribute__((used)) = early_probe;
#endif

struct os_lock front_start_lock;
static _Atomic bool is_started;
static _Atomic bool is_loaded; /* the dynamic linker is done with this library */
static _Atomic bool has_key;   /* written under front_start_lock */
static pthread_key_t key;

void front_go_without_cache(void) {
    front_tls.row = (struct row *)&cache_closed_row;
    front_tls.cache = &dead_cache;
}

/* Who asks for every call to be seen wants to hear at once what a flush finds: such a cache
 * does not rest. */
static void part_from(struct thread *thread, bool may_rest) {
    front_go_without_cache();
    watch_flush(thread);
    bool rests = may_rest && !watch_is_on(thread) && registry_rest(thread);
    if (!rests) {
        cache_flush(thread);
        registry_remove(thread);
    }
    scavenger_after_free(rests);
}

static void end_thread(void *thread) { part_from(thread, true); }

/* Its next slow call makes a new beginning. */
static void be_newborn_again(struct thread *thread) {
    part_from(thread, false);
    front_tls.cache = &newborn_cache;
}

bool front_sees_threads_end(void) { return atomic_load_explicit(&has_key, memory_order_acquire); }

static bool start_locked(void) {
    os_memory_init();
    options_load();
    os_memory_use_thp(options_profile()->thp);
    unsigned shards = hak_options.shards != 0 ? (unsigned)hak_options.shards
                                              : hak_min(os_processor_count(), (unsigned)MAX_SHARDS);
    if (!slab_init(shards) || !window_init(hak_options.arena_size, os_random_seed()) ||
        !hardened_start())
        return false;
    arena_init();
    span_init(shards);
    classes_init();
    guard_start();
    if (hak_options.hardened != 0)
        os_freeze();
    if (hak_options.verbose >= 1)
        hak_warn("profile %s, %u shards, window %p of %zu MiB", options_profile()->name, shards,
                 (void *)window_super_address(0), window_slab_count * SLAB_BYTES / MIB);
    return true;
}

static hak_cold bool start(void) {
    os_lock_acquire(&front_start_lock);
    bool was_started = atomic_load_explicit(&is_started, memory_order_relaxed);
    bool started = was_started || start_locked();
    /* Pairs with the acquire in front_start: all that start_locked wrote. */
    atomic_store_explicit(&is_started, started, memory_order_release);
    os_lock_release(&front_start_lock);
    if (started && !was_started)
        front_register_fork();
    return started;
}

bool front_start(void) {
    return hak_likely(atomic_load_explicit(&is_started, memory_order_acquire)) || start();
}

/* The key is made at the first thread's birth, without a lock held, for making it
 * may allocate. Two threads may both get here; one's key stays. */
static bool ensure_key(void) {
    if (atomic_load_explicit(&has_key, memory_order_acquire))
        return true;
    pthread_key_t made;
    if (!os_call_begins(OS_CALL_KEY) || pthread_key_create(&made, end_thread) != 0)
        return false;
    os_lock_acquire(&front_start_lock);
    bool is_second = atomic_load_explicit(&has_key, memory_order_relaxed);
    if (!is_second) {
        key = made;
        /* Pairs with the acquire above. */
        atomic_store_explicit(&has_key, true, memory_order_release);
    }
    os_lock_release(&front_start_lock);
    if (is_second)
        pthread_key_delete(made);
    return true;
}

static hak_cold struct thread *begin_thread(void) {
    if (!front_start())
        return NULL;
    /* Still inside the dynamic linker, perhaps: what is written to TLS now may be lost,
     * so the thread stays newborn and works without a cache. */
    if (!atomic_load_explicit(&is_loaded, memory_order_relaxed))
        return NULL;
    struct thread *thread = registry_add();
    if (thread == NULL)
        return NULL;
    if (!watch_begin(thread)) {
        be_newborn_again(thread);
        return NULL;
    }
    front_tls.row = (struct row *)watch_shown_row(thread);
    front_tls.cache = watch_shown_cache(thread);
    /* Nobody would see the thread end, and all that it has would be lost then. */
    if (!ensure_key() || pthread_setspecific(key, thread) != 0) {
        be_newborn_again(thread);
        return NULL;
    }
    return thread;
}

void front_thread_idle(void) {
    struct thread *thread = front_tls.cache->thread;
    if (thread == NULL)
        return;
    pthread_setspecific(key, NULL); /* it is not this thread's to end any more */
    be_newborn_again(thread);
    registry_release(1);
}

bool front_loaded(void) {
    atomic_store_explicit(&is_loaded, true, memory_order_relaxed);
    bool started = front_start();
    if (started)
        watch_loaded();
    return started;
}

struct thread *front_thread(void) {
    struct thread *thread = front_tls.cache->thread;
    if (hak_likely(thread != NULL))
        return thread;
    return front_tls.cache == &newborn_cache ? begin_thread() : NULL;
}

unsigned front_shard_without_thread(void) {
    return (unsigned)(os_thread_identity() / 4096 % slab_shard_count());
}
