/* A heap that shrinks gives back the pages that its blocks leave behind.
 *
 *   live     ___                     blocks that are with the program or in bins, in bytes
 *           /   \_                   <- half of the most since the last look: a look
 *          /      \_                 <- the next
 *         /         \______
 *
 * Blocks of mixed age go at random, so most slabs keep one or two and stay. Whoever asks
 * how much memory a program has after its load has gone wants it to have gone too; but
 * while nothing shrinks, a page without blocks is about to be used again. So all slabs are
 * gone through once each time that the heap has lost half of its blocks: at most as many
 * calls into the kernel as it took to fault the pages in.
 *
 * To give a page away and fault it in again takes some microseconds, which is worth it if it
 * was away for a hundred. A heap that is as large again as it was before that is left
 * alone for a while, each time for longer.
 *
 * Each pool counts, under its lock, and tells of changes once they are worth it. A look is
 * made in steps, one a slow call, for none shall wait long. All that is kept here is a
 * hint: threads that change it at once cost a look, or save one. */
#include "slab/pool.h"
#include "span/arena.h"

enum {
    FALL_SHARE = 2,                 /* of the most live bytes: lost between two looks, */
    LEAST_LOST_BYTES = 1024 * 1024, /* and so many more */
    BACK_SHARE = 4,                 /* all but this share of what it fell from: it is back */
    BYTES_PER_MS = 40 * 1024,       /* worth it: away for 0.1 ms a page, all taken together */
    ALONE_SHARE = 4,                /* left alone for so many times what was too short, */
    ALONE_MAX_MS = 64 * 1000,       /* then twice as long, at most for so long */
    LOSS_SHARE = 16,                /* of the most live bytes: the scavenger is to look, too */
};

static struct {
    hak_line_aligned _Atomic int64_t live_bytes;
    _Atomic int64_t most_bytes;     /* live since the last look */
    _Atomic int64_t fell_from;      /* most_bytes at the first look of this fall; 0: it is over */
    _Atomic uint64_t looked_ms;     /* when that look or a later one began */
    _Atomic size_t gone_bytes;      /* by all looks of this fall */
    _Atomic uint64_t alone_ms;      /* how long the heap was left alone last; 0: not at all */
    _Atomic uint64_t not_before_ms; /* the next look */
    _Atomic size_t supers_left;     /* of this look */
    _Atomic int64_t most_unseen;    /* live since the scavenger's last look began */
} shrink;

#define LOAD(field) atomic_load_explicit(&shrink.field, memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&shrink.field, value, memory_order_relaxed)

void shrink_tell(int64_t bytes) {
    /* atomic: warm, telemetry; no partner: a sum. */
    int64_t live =
        atomic_fetch_add_explicit(&shrink.live_bytes, bytes, memory_order_relaxed) + bytes;
    if (live > LOAD(most_bytes))
        STORE(most_bytes, live);
    if (live > LOAD(most_unseen))
        STORE(most_unseen, live);
}

bool slab_has_lost_blocks(void) {
    if (options_profile()->page_purge == PAGE_PURGE_NEVER)
        return false;
    int64_t most = LOAD(most_unseen);
    return LOAD(live_bytes) < most - most / LOSS_SHARE - LEAST_LOST_BYTES;
}

void slab_note_look(void) { STORE(most_unseen, LOAD(live_bytes)); }

/* If the fall is over: was it worth the looks? */
static void heed_return(int64_t live, uint64_t now_ms) {
    int64_t fell_from = LOAD(fell_from);
    if (fell_from == 0 || live < fell_from - fell_from / BACK_SHARE)
        return;
    uint64_t worth_ms = LOAD(gone_bytes) / BYTES_PER_MS;
    uint64_t alone_ms = 0;
    if (now_ms - LOAD(looked_ms) < worth_ms)
        alone_ms =
            hak_min(hak_max(LOAD(alone_ms) * 2, worth_ms * ALONE_SHARE), (uint64_t)ALONE_MAX_MS);
    STORE(alone_ms, alone_ms);
    STORE(not_before_ms, now_ms + alone_ms);
    STORE(fell_from, 0);
}

/* Whether it is time for a look; then it begins. */
static bool heed_fall(int64_t live, uint64_t now_ms) {
    int64_t most = LOAD(most_bytes);
    if (live > most - most / FALL_SHARE - LEAST_LOST_BYTES || now_ms < LOAD(not_before_ms))
        return false;
    if (LOAD(fell_from) == 0) {
        STORE(fell_from, most);
        STORE(gone_bytes, 0);
    }
    STORE(most_bytes, live);
    STORE(looked_ms, now_ms);
    STORE(supers_left, arena_known_count());
    return true;
}

bool slab_heed_shrinking(uint64_t now_ms) {
    if (options_profile()->page_purge == PAGE_PURGE_NEVER)
        return false;
    int64_t live = LOAD(live_bytes);
    heed_return(live, now_ms);
    if (heed_fall(live, now_ms))
        return true;
    size_t left = LOAD(supers_left);
    if (left == 0)
        return false;
    struct pages_step step = pages_purge_step();
    STORE(supers_left, left - hak_min(left, step.supers));
    STORE(gone_bytes, LOAD(gone_bytes) + step.bytes);
    return false;
}
