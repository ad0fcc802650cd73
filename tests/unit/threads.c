#include "threads.h"

#include "support.h"

#include <stdio.h>

#include "base/bits.h"
#include "os/options.h"

enum {
    MAP_BLOCKS = 1 << 26 /* 1 GiB of window in steps of 16 bytes */,
    FOREIGN_MAX = 63,
    FOREIGN_BYTES = 8192,
    FOREIGN_GIVER_BYTES = 32768,
};

static uint64_t is_held[MAP_BLOCKS / WORD_BITS];
static size_t held_by_class[CLASS_COUNT];
static uint64_t slow_calls;

void start_threads(const char *profile, unsigned shards) {
    char options[64];
    snprintf(options, sizeof options, "shards=%u,profile=%s", shards, profile);
    start_layers(options, GIB);
}

struct thread *busy_thread(void) {
    struct thread *thread = registry_add();
    assert_non_null(thread);
    thread->moved_bytes = GIB;
    return thread;
}

static size_t place_of(const void *block) {
    size_t place = (size_t)((const char *)block - window_super_address(0)) / 16;
    assert_true(place < MAP_BLOCKS);
    return place;
}

void *thread_malloc(struct thread *thread, unsigned class) {
    struct bin *bin = own_bin(thread, class);
    void **top = bin_top(bin);
    void *block = *top;
    if (block == NULL) {
        block = cache_take(thread, class);
        slow_calls++;
    } else {
        bin_set_top(bin, top - 1);
    }
    if (block == NULL)
        return NULL;
    assert_false(bitmap_get(is_held, place_of(block)));
    assert_int_equal(entry_bin(window_entry(block)), class);
    bitmap_set(is_held, place_of(block));
    held_by_class[class]++;
    return block;
}

void thread_free(struct thread *thread, void *block) {
    uint16_t entry = window_entry(block);
    assert_true(bitmap_get(is_held, place_of(block)));
    bitmap_clear(is_held, place_of(block));
    held_by_class[entry_bin(entry)]--;
    struct bin *bin = (struct bin *)(void *)((char *)&thread->cache + entry);
    void **top = bin_top(bin);
    if (top >= bin_limit(bin)) {
        cache_give(thread, entry, block);
        slow_calls++;
        return;
    }
    top[1] = block;
    bin_set_top(bin, top + 1);
}

uint64_t slow_calls_made(void) { return slow_calls; }

size_t blocks_held(unsigned class) { return held_by_class[class]; }

struct bin *own_bin(struct thread *thread, unsigned class) {
    return &thread->own->bins[class];
}

unsigned own_count(struct thread *thread, unsigned class) {
    void **base = thread->infos[class].base;
    return base == NULL ? 0 : (unsigned)(bin_top(own_bin(thread, class)) - base);
}

unsigned own_capacity(const struct thread *thread, unsigned class) {
    return thread->infos[class].capacity;
}

unsigned own_capacity_most(unsigned class) {
    const struct hak_profile *profile = options_profile();
    size_t bytes = class_size(class);
    size_t fits = (profile->cache_class_bytes - 1) / bytes;
    size_t least = bytes > 2 * KIB && bytes <= 32 * KIB ? profile->cache_mid_blocks : 1;
    return (unsigned)hak_clamp(fits, least, (size_t)profile->cache_class_blocks - 1);
}

/* --- what must hold -------------------------------------------------------------------- */

/* Bytes that an own bin may hold. */
static size_t sound_own_bin(struct thread *thread, unsigned class) {
    const struct bin_info *info = &thread->infos[class];
    struct bin *bin = own_bin(thread, class);
    if (info->base == NULL) {
        assert_ptr_equal(bin_top(bin), cache_no_block);
        assert_null(bin_limit(bin));
        return 0;
    }
    assert_null(info->base[0]);
    assert_in_range(info->capacity, 1, ((unsigned)SLOT_ARRAY_MIN << info->kind) - 1);
    assert_in_range(own_count(thread, class), 0, info->capacity);
    assert_true(bin_limit(bin) == NULL || bin_limit(bin) == info->base + info->capacity);
    for (unsigned i = 1; i <= own_count(thread, class); i++)
        assert_false(bitmap_get(is_held, place_of(info->base[i])));
    return info->capacity * class_size(class);
}

static unsigned foreign_count(const struct bin *bin) {
    unsigned count = 0;
    for (void **at = bin_top(bin); at != NULL && *at != NULL; at--)
        count++;
    return count;
}

static size_t sound_foreign_bin(const struct bin *bin, unsigned class) {
    if (bin_top(bin) == NULL) {
        assert_null(bin_limit(bin));
        return 0;
    }
    size_t most = hak_min(FOREIGN_BYTES / class_size(class), (size_t)FOREIGN_MAX);
    size_t giver = hak_min(FOREIGN_GIVER_BYTES / class_size(class), (size_t)FOREIGN_MAX);
    size_t capacity = (size_t)(bin_limit(bin) - bin_top(bin)) + foreign_count(bin);
    if (capacity != most && capacity != giver)
        assert_int_equal(capacity, most / 2);
    assert_in_range(foreign_count(bin), 0, capacity);
    return capacity * class_size(class);
}

void assert_thread_is_sound(struct thread *thread) {
    size_t limit_bytes = 0;
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        for (unsigned class = 1; class < CLASS_COUNT; ++class) {
            struct bin *bin = &thread->cache.rows[row].bins[class];
            if (&thread->cache.rows[row] == thread->own)
                limit_bytes += sound_own_bin(thread, class);
            else
                limit_bytes += sound_foreign_bin(bin, class);
        }
        assert_null(bin_limit(&thread->cache.rows[row].bins[BIN_NONE]));
        assert_null(bin_limit(&thread->cache.rows[row].bins[BIN_LARGE]));
    }
    assert_int_equal(thread->limit_bytes, limit_bytes);
}

size_t blocks_cached(struct thread *thread, unsigned class) {
    size_t count = own_count(thread, class);
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        if (&thread->cache.rows[row] != thread->own)
            count += foreign_count(&thread->cache.rows[row].bins[class]);
    }
    return count;
}

void assert_all_accounted_for(struct thread *const *threads, size_t count) {
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        size_t known = blocks_held(class);
        for (size_t i = 0; i < count; i++)
            known += blocks_cached(threads[i], class);
        struct class_stats stats = slab_stats(class);
        assert_int_equal(stats.taken - stats.given, known);
    }
}

void thread_end(struct thread *thread) {
    cache_flush(thread);
    registry_remove(thread);
}
