/* An operation is a byte that chooses the call, a byte that chooses the slot, and
 * what the call needs. Sizes come from a mixture that favours what allocators
 * get wrong: the borders of size classes and one byte to either side, sizes
 * just over the classes, huge ones, and those that cannot be. */
#include "interpreter.h"

#include <errno.h>

#include "abi/figures.h"
#include "hakmem/hakmem.h"
#include "model.h"
#include "pattern.h"

enum {
    NATURAL_ALIGNMENT = 16,
    DEFAULT_LIVE_MAX_BYTES = 32 << 20,
    CLASSES_MAX = 1 << 20, /* the largest size class */
    HUGE_MAX = 2,
    ODD_ERRNO = 12345,
    CHECK_EVERY = 512, /* operations */
};

/* --- reading the sequence; it ends in zeros ---------------------------------- */

static unsigned next_byte(struct interpreter *run) { return run->at < run->end ? *run->at++ : 0; }

static unsigned next_two(struct interpreter *run) {
    unsigned high = next_byte(run);
    return high << 8 | next_byte(run);
}

/* Every border between classes is (8 + e) << s, e of 0 .. 7. */
static size_t next_border(struct interpreter *run) {
    unsigned choice = next_two(run);
    size_t border = (size_t)(8 + choice % 8) << (1 + choice / 8 % 18);
    return border - 1 + choice / 256 % 3;
}

static size_t next_rare_size(struct interpreter *run) {
    unsigned choice = next_byte(run);
    size_t pages = (size_t)4096 * next_two(run);
    switch (choice % 16) {
    case 0:
        return HUGE_BYTES - (128 << 20) + pages; /* around the border of huge */
    case 1:
        return HUGE_BYTES + pages;
    case 2:
        return (size_t)PTRDIFF_MAX - 40 + choice / 16 * (size_t)8;
    case 3:
        return SIZE_MAX - pages;
    case 4:
        return 0;
    default:
        return pages / 64;
    }
}

static size_t next_size(struct interpreter *run) {
    switch (next_byte(run) % 16) {
    case 0:
        return next_rare_size(run);
    case 1:
        return ((size_t)1 << 20) + next_two(run) * (size_t)64; /* large: 1 to 5 MiB */
    case 2:
        return next_two(run) * (size_t)16; /* up to 1 MiB */
    case 3:
    case 4:
    case 5:
        return next_two(run) % 4096;
    case 6:
    case 7:
    case 8:
    case 9:
        return next_border(run);
    default:
        return next_byte(run);
    }
}

/* 1 byte to 4 MiB, now and then more. */
static size_t next_alignment(struct interpreter *run) {
    unsigned choice = next_byte(run);
    return (size_t)1 << (choice == 255 ? 30 : choice == 254 ? 26 : choice % 23);
}

static struct block *next_slot(struct interpreter *run) {
    return &run->slots[next_byte(run) % INTERPRETER_SLOTS];
}

/* --- the calls ----------------------------------------------------------------- */

/* Whether the machine could afford another block, should it be touched. */
static bool affords(const struct interpreter *run, size_t bytes) {
    size_t most = run->live_max_bytes != 0 ? run->live_max_bytes : (size_t)DEFAULT_LIVE_MAX_BYTES;
    if (bytes > PTRDIFF_MAX)
        return true;
    if (bytes >= HUGE_BYTES)
        return run->huge_count < HUGE_MAX;
    return bytes <= most && run->live_bytes <= most - bytes;
}

static void keep(struct interpreter *run, struct block *slot, struct block block) {
    if (block.start == NULL)
        model_refused(run, block.asked, block.alignment);
    else
        model_add(run, slot, block);
}

static void free_by(struct interpreter *run, const struct block *block, unsigned way) {
    errno = ODD_ERRNO;
    switch (way % 4) {
    case 0:
        hak_free_sized(block->start, block->asked);
        break;
    case 1:
        if (block->is_aligned_call)
            hak_free_aligned_sized(block->start, block->alignment, block->asked);
        else
            hak_sdallocx(block->start, block->asked, 0);
        break;
    default:
        hak_free(block->start);
        break;
    }
    if (errno != ODD_ERRNO)
        model_violated(run, "free changed errno to %d", errno);
}

static void do_free(struct interpreter *run, struct block *slot, unsigned way) {
    model_check(run, slot, slot->usable);
    struct block block = model_remove(run, slot);
    free_by(run, &block, way);
}

static void do_malloc(struct interpreter *run, struct block *slot, size_t size) {
    void *start = hak_malloc(size);
    keep(run, slot, (struct block){.start = start, .asked = size, .alignment = NATURAL_ALIGNMENT});
    /* A large block takes another form where the window has no place left; a guarded one ends
     * where the program said. */
    bool may_differ = size > CLASSES_MAX || slot->usable == size;
    if (start != NULL && !may_differ && slot->usable != hak_nallocx(size, 0))
        model_violated(run, "nallocx(%zu) says %zu, malloc gave %zu", size, hak_nallocx(size, 0),
                       slot->usable);
}

static void do_calloc(struct interpreter *run, struct block *slot, size_t size) {
    size_t count = 1 + next_byte(run) % 16;
    size_t each = size / count;
    unsigned char *start = hak_calloc(count, each);
    if (start != NULL) {
        size_t dirt = pattern_find_nonzero(start, count * each);
        if (dirt != SIZE_MAX)
            model_violated(run, "calloc(%zu, %zu): %p is not zero at offset %zu", count, each,
                           (void *)start, dirt);
    }
    keep(run, slot,
         (struct block){.start = start, .asked = count * each, .alignment = NATURAL_ALIGNMENT});
}

/* A product that does not fit a size_t: nothing may happen. */
static void do_overflow(struct interpreter *run, struct block *slot) {
    volatile size_t factor = (size_t)1 << 33; /* volatile: the compiler would warn */
    size_t other = factor + next_byte(run);
    errno = 0;
    void *result = slot->start == NULL ? hak_calloc(factor, other)
                                       : hak_reallocarray(slot->start, factor, other);
    if (result != NULL || errno != ENOMEM)
        model_violated(run, "an overflowing product gave %p, errno %d", result, errno);
    if (slot->start != NULL)
        model_check(run, slot, slot->usable);
}

static void do_aligned(struct interpreter *run, struct block *slot, size_t size) {
    size_t alignment = next_alignment(run);
    void *start = NULL;
    unsigned way = next_byte(run) % 4;
    if (way == 0 && alignment >= sizeof(void *)) {
        int error = hak_posix_memalign(&start, alignment, size);
        if ((start == NULL) != (error == ENOMEM))
            model_violated(run, "posix_memalign gave %p with %d", start, error);
        errno = error;
    } else if (way == 1) {
        start = hak_memalign(alignment > 2 ? alignment - 1 : alignment, size);
    } else if (way == 2) {
        alignment = 4096;
        start = hak_valloc(size);
    } else {
        start = hak_aligned_alloc(alignment, size);
    }
    keep(run, slot,
         (struct block){
             .start = start, .asked = size, .alignment = alignment, .is_aligned_call = true});
}

static void do_bad_alignment(struct interpreter *run) {
    size_t alignment = next_byte(run) * (size_t)3; /* never a power of two */
    errno = 0;
    void *start = hak_aligned_alloc(alignment, 64);
    if (start != NULL || errno != EINVAL)
        model_violated(run, "aligned_alloc(%zu, 64) gave %p, errno %d", alignment, start, errno);
    void *untouched = run;
    if (hak_posix_memalign(&untouched, alignment, 64) != EINVAL || untouched != run)
        model_violated(run, "posix_memalign(%zu) took a bad alignment", alignment);
}

static void do_realloc(struct interpreter *run, struct block *slot, size_t size) {
    struct block old = *slot;
    model_check(run, slot, slot->usable);
    unsigned char *start =
        size % 4 == 0 ? hak_reallocarray(old.start, 4, size / 4) : hak_realloc(old.start, size);
    if (size == 0) {
        if (start != NULL)
            model_violated(run, "realloc to 0 gave %p", (void *)start);
        model_remove(run, slot);
        return;
    }
    if (start == NULL) {
        model_refused(run, size, NATURAL_ALIGNMENT);
        model_check(run, slot, slot->usable);
        return;
    }
    size_t kept = old.asked < size ? old.asked : size;
    size_t fault = pattern_find_fault(start, old.usable, kept, old.tag);
    if (fault != SIZE_MAX)
        model_violated(run, "realloc from %zu to %zu bytes lost the byte at offset %zu", old.asked,
                       size, fault);
    model_remove(run, slot);
    model_add(run, slot,
              (struct block){.start = start, .asked = size, .alignment = NATURAL_ALIGNMENT});
}

/* Leaves the slot's block, or nothing, for other threads and takes what is there. */
static void do_exchange(struct interpreter *run, struct block *slot) {
    if (run->exchange == NULL)
        return;
    struct block mine = {0};
    if (slot->start != NULL)
        mine = model_remove(run, slot);
    struct block *place = &run->exchange->blocks[next_byte(run) % EXCHANGE_SLOTS];
    pthread_mutex_lock(&run->exchange->lock);
    struct block theirs = *place;
    *place = mine;
    pthread_mutex_unlock(&run->exchange->lock);
    if (theirs.start == NULL)
        return;
    model_check(run, &theirs, theirs.usable);
    if (affords(run, theirs.usable))
        model_add(run, slot, theirs);
    else
        free_by(run, &theirs, 3);
}

static void do_take(struct interpreter *run, struct block *slot, unsigned choice) {
    size_t size = next_size(run);
    if (!affords(run, size))
        return;
    if (choice < 96)
        do_malloc(run, slot, size);
    else if (choice < 144)
        do_calloc(run, slot, size);
    else if (choice < 168)
        do_aligned(run, slot, size);
    else
        keep(run, slot,
             (struct block){
                 .start = hak_realloc(NULL, size), .asked = size, .alignment = NATURAL_ALIGNMENT});
}

static void do_rare(struct interpreter *run, struct block *slot, unsigned choice) {
    switch (choice % 8) {
    case 0:
        if (next_byte(run) < 16)
            hak_malloc_trim(0);
        break;
    case 1:
        do_overflow(run, slot);
        break;
    case 2:
        do_bad_alignment(run);
        break;
    case 3:
        hak_free(NULL);
        break;
    default:
        if (slot->start != NULL)
            model_check(run, slot, slot->usable);
        break;
    }
}

static void step(struct interpreter *run) {
    unsigned choice = next_byte(run);
    struct block *slot = next_slot(run);
    if (run->operations++ % CHECK_EVERY == CHECK_EVERY - 1)
        hak_check_heap();
    if (choice >= 240)
        do_rare(run, slot, choice);
    else if (choice >= 224)
        do_exchange(run, slot);
    else if (slot->start == NULL)
        do_take(run, slot, choice % 192);
    else if (choice < 176)
        do_free(run, slot, choice);
    else {
        size_t size = next_size(run);
        if (affords(run, size))
            do_realloc(run, slot, size);
    }
}

void interpreter_run(struct interpreter *run, const uint8_t *bytes, size_t count) {
    run->at = bytes;
    run->end = bytes + count;
    while (run->at < run->end)
        step(run);
}

void interpreter_run_random(struct interpreter *run, uint64_t seed, size_t count) {
    uint64_t words[128];
    while (count != 0) {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            words[i] = random_next(&seed);
        size_t part = count < sizeof words ? count : sizeof words;
        interpreter_run(run, (const uint8_t *)words, part);
        count -= part;
    }
}

void interpreter_end(struct interpreter *run) {
    hak_check_heap();
    while (run->live_count != 0)
        do_free(run, run->by_address[run->live_count / 2], 3);
    hak_check_heap();
}

void exchange_end(struct exchange *exchange) {
    struct interpreter last = {0};
    for (size_t i = 0; i < EXCHANGE_SLOTS; i++) {
        struct block *block = &exchange->blocks[i];
        if (block->start == NULL)
            continue;
        model_check(&last, block, block->usable);
        free_by(&last, block, 3);
        *block = (struct block){0};
    }
}

void interpreter_expect_empty_heap(void) {
    hak_malloc_trim(0);
    hak_check_heap();
    struct figures figures = figures_gather();
    struct interpreter none = {0};
    if (figures.live_bytes != 0)
        model_violated(&none, "all is freed, but %zu bytes and %zu huge blocks are in use",
                       figures.live_bytes, figures.huge.count);
}
