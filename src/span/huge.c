/* Huge blocks: mappings of their own outside the window, found again through a
 * table sorted by address. They are rare and costly to map, so a lock and a
 * binary search are cheap beside them.
 *
 *   table: [start, bytes] [start, bytes] ...   ascending, never overlapping
 *
 * Lock: huge_lock protects the table. Mapping and unmapping run unlocked, a
 * block being unmapped only after it has left the table; a resize holds the
 * lock throughout, for the block moves in the address space. */
#include <string.h>

#include "os/memory.h"
#include "os/options.h"
#include "span/large.h"
#include "span/limits.h"

struct huge {
    char *start;
    size_t bytes; /* whole pages */
};

struct os_lock huge_lock;
static struct huge *table;
static size_t count;
static size_t capacity; /* in entries; the table is a mapping of its own */
static size_t live_bytes;
static size_t peak_bytes;
static uint64_t taken_total, given_total;

/* How many blocks start at or below pointer. */
static size_t rank_of(const char *pointer) {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].start <= pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct huge *find(const char *start) {
    size_t rank = rank_of(start);
    return rank > 0 && table[rank - 1].start == start ? &table[rank - 1] : NULL;
}

static bool make_room(void) {
    if (count < capacity)
        return true;
    size_t old_bytes = capacity * sizeof *table;
    size_t bytes = old_bytes == 0 ? os_page_size() : old_bytes * 2;
    void *bigger = old_bytes == 0 ? os_map_aligned(bytes, 1) : os_remap(table, old_bytes, bytes);
    if (bigger == NULL)
        return false;
    table = bigger;
    capacity = bytes / sizeof *table;
    return true;
}

/* There is room. */
static void insert(char *start, size_t bytes) {
    size_t rank = rank_of(start);
    memmove(&table[rank + 1], &table[rank], (count - rank) * sizeof *table);
    table[rank] = (struct huge){start, bytes};
    count++;
    live_bytes += bytes;
    peak_bytes = hak_max(peak_bytes, live_bytes);
}

static void remove_entry(struct huge *entry) {
    live_bytes -= entry->bytes;
    count--;
    size_t rank = (size_t)(entry - table);
    memmove(entry, entry + 1, (count - rank) * sizeof *table);
}

void *huge_take(size_t bytes, size_t alignment) {
    size_t page = os_page_size();
    if (bytes > PTRDIFF_MAX - page)
        return NULL;
    bytes = align_up(bytes, page);
    bool asks = options_profile()->thp == OS_THP_ALWAYS;
    limits_expect(bytes);
    if (!limits_charge(bytes))
        return NULL;
    char *start = os_map_aligned(bytes, asks ? hak_max(alignment, (size_t)SUPER_BYTES) : alignment);
    if (start == NULL) {
        limits_discharge(bytes);
        return NULL;
    }
    if (asks)
        os_ask_huge_pages(start, bytes);
    os_lock_acquire(&huge_lock);
    bool fits = make_room();
    if (fits) {
        insert(start, bytes);
        taken_total++;
    }
    os_lock_release(&huge_lock);
    if (fits)
        return start;
    os_unmap(start, bytes);
    limits_discharge(bytes);
    return NULL;
}

bool huge_give(void *pointer) {
    os_lock_acquire(&huge_lock);
    struct huge *entry = find(pointer);
    size_t bytes = 0;
    if (entry != NULL) {
        bytes = entry->bytes;
        remove_entry(entry);
        given_total++;
    }
    os_lock_release(&huge_lock);
    if (bytes != 0)
        os_unmap(pointer, bytes);
    limits_discharge(bytes);
    return bytes != 0;
}

/* Of another size, at another place perhaps; the lock is held. */
static void *remap(struct huge *entry, size_t bytes) {
    size_t old_bytes = entry->bytes;
    if (bytes > old_bytes && !limits_charge(bytes - old_bytes))
        return NULL;
    char *start = os_remap(entry->start, old_bytes, bytes);
    if (start != NULL) {
        remove_entry(entry);
        insert(start, bytes);
    }
    size_t kept_bytes = start != NULL ? bytes : old_bytes;
    limits_discharge(hak_max(old_bytes, bytes) - kept_bytes);
    return start;
}

void *huge_resize(void *pointer, size_t bytes) {
    size_t page = os_page_size();
    if (bytes > PTRDIFF_MAX - page)
        return NULL;
    bytes = align_up(bytes, page);
    limits_expect(bytes);
    void *result = NULL;
    os_lock_acquire(&huge_lock);
    struct huge *entry = find(pointer);
    if (entry != NULL && entry->bytes == bytes)
        result = pointer;
    else if (entry != NULL && bytes >= GIB / 2)
        result = remap(entry, bytes);
    os_lock_release(&huge_lock);
    return result;
}

size_t huge_usable_bytes(const void *pointer) {
    os_lock_acquire(&huge_lock);
    struct huge *entry = find(pointer);
    size_t bytes = entry == NULL ? 0 : entry->bytes;
    os_lock_release(&huge_lock);
    return bytes;
}

void *huge_start_of(const void *pointer, size_t *bytes) {
    char *start = NULL;
    os_lock_acquire(&huge_lock);
    size_t rank = rank_of(pointer);
    if (rank > 0 && (const char *)pointer < table[rank - 1].start + table[rank - 1].bytes) {
        start = table[rank - 1].start;
        *bytes = table[rank - 1].bytes;
    }
    os_lock_release(&huge_lock);
    return start;
}

void *huge_next(const void *address, size_t *bytes) {
    char *start = NULL;
    os_lock_acquire(&huge_lock);
    size_t rank = rank_of(address);
    if (rank < count) {
        start = table[rank].start;
        *bytes = table[rank].bytes;
    }
    os_lock_release(&huge_lock);
    return start;
}

bool huge_table_contains(uintptr_t address) {
    os_lock_acquire(&huge_lock);
    bool is_in = address - (uintptr_t)table < capacity * sizeof *table;
    os_lock_release(&huge_lock);
    return is_in;
}

struct huge_stats huge_stats(void) {
    os_lock_acquire(&huge_lock);
    struct huge_stats stats = {count, live_bytes, peak_bytes, taken_total, given_total};
    os_lock_release(&huge_lock);
    return stats;
}

static bool check_entry(struct finding *finding, const struct huge *entry) {
    size_t page = os_page_size();
    if (!is_aligned((uintptr_t)entry->start | entry->bytes, page) || entry->bytes == 0)
        return finding_note(finding, "huge block %p of %zu bytes is not made of whole pages",
                            (void *)entry->start, entry->bytes);
    const struct huge *before = entry == table ? NULL : entry - 1;
    if (before != NULL && before->start + before->bytes > entry->start)
        return finding_note(finding,
                            "huge block %p overlaps or precedes huge block %p of %zu bytes",
                            (void *)entry->start, (void *)before->start, before->bytes);
    return true;
}

static bool check_table(struct finding *finding) {
    size_t bytes = 0;
    if (count > capacity)
        return finding_note(finding, "%zu huge blocks in a table for %zu", count, capacity);
    for (size_t i = 0; i < count; i++) {
        if (!check_entry(finding, &table[i]))
            return false;
        bytes += table[i].bytes;
    }
    if (bytes != live_bytes || taken_total - given_total != count)
        return finding_note(finding, "huge blocks: %zu of %zu bytes, noted are %zu of %zu", count,
                            bytes, (size_t)(taken_total - given_total), live_bytes);
    return true;
}

bool huge_check(struct finding *finding) {
    os_lock_acquire(&huge_lock);
    bool is_whole = check_table(finding);
    os_lock_release(&huge_lock);
    return is_whole;
}
