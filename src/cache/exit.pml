/* A thread is asked for its blocks, and ends, and another goes on with its cache: a model for
 * SPIN (see docs/internals/proof.md).
 *
 *   asker    is_asked_to_flush = true;  limit = NULL        at any moment, under registry_lock
 *   owner    fast: top against limit    slow: serve the call, upkeep, answer     end: flush, or
 *                                                                                leave it to rest
 *   settler  is its owner, as the next thread would be, for as long as it takes to end it
 *
 * What it models, function by function:
 *
 *   front_malloc, front_free    the fast path: top is the owner's, limit may change any time
 *   cache_take, give_own        refill; flush of a full bin; the limit is set again
 *   cache_tick                  upkeep (bins_age, which sets limits, too), then answer_flush
 *   registry_ask_flush          the flag, then the limit if the bin is open
 *   end_thread                  shows the dead cache; registry_rest, or cache_flush and
 *                               registry_remove
 *   registry_add                the structure of a dead thread goes to the next one, or a
 *                               cache that rests
 *   registry_settle             a cache that rests: cache_flush, registry_remove
 *
 * Two threads live one after the other on the same structure, with one bin of two blocks, and
 * make calls for ever or end. Two others ask them to flush, once each, and one of those sends
 * home what rests, as front_purge does.
 *
 * Left out: foreign bins (their limit is the owner's alone), where blocks go (slab/home.pml),
 * bins that close for want of room. Memory is sequentially consistent; on real processors the
 * owner's store of a limit may still be on its way when it looks at the flag. Then the bin
 * stays open and the answer comes with the next slow call, whenever that is.
 *
 * Properties:
 *   - no block stays in the bin of a dead thread, none is lost from a live one's or one that
 *     rests, and nobody changes the bins of that
 *   - a bin never holds more than its capacity
 *   - who has been asked answers in the next slow call, and the next free is one
 *   - the bin is open again after that
 *
 * Runs: plain
 * Broken:
 *   -DLIVES_ON           who has ended goes on freeing into its bin
 *   -DREMOVED_FIRST      registry_remove, then cache_flush
 *   -DCLEARED_LATE       the flag is cleared after the flush
 *   -DRESTS_IN_ANY_CASE  registry_rest does not look whether the thread was asked
 *   -DSETTLED_IN_PLACE   registry_settle works on a cache that it has not taken
 *   -DANSWERED_EARLY     upkeep after the look at the flag
 *   -DNOT_REOPENED       give_own leaves the limit as it is
 *   -DEQUAL              the fast path tests top == limit */

#define CAPACITY 2
#define LIVE_MAX 3 /* blocks that a thread's program has at a time */

/* Of the structure; slots count from 0, which is what limit 0 stands for, too. */
bool is_alive, is_resting; /* neither: dead */
bool is_asked;
bool is_open; /* the bin */
byte top, limit;

byte rests_with; /* blocks in it since it rests */

bool registry_lock;

/* What is true: an ask has begun, or is over, and no flush has begun since then. */
bool is_pending, is_owed;
byte stores; /* of 0 to the limit, so far */

#define acquire(lock) atomic { !lock -> lock = true }
#define release(lock) lock = false

#ifdef EQUAL
#define is_full (top == seen)
#else
#define is_full (top >= seen)
#endif

inline flush() {
    atomic { is_pending = false; is_owed = false; was_owed = false; top = 0 }
}

/* bins_age: may set the limit of a bin that it has made smaller. */
inline upkeep() {
    if
    :: is_open -> limit = CAPACITY
    :: true
    fi
}

inline answer() {
    if
    :: is_asked ->
#ifdef CLEARED_LATE
        flush();
        is_asked = false
#else
        is_asked = false;
        flush()
#endif
    :: else
    fi
}

inline tick() {
#ifdef ANSWERED_EARLY
    answer();
    upkeep()
#else
    upkeep();
    answer()
#endif
}

inline slow_begins() { atomic { was_owed = is_owed; stores_before = stores } }
inline slow_ends() {
    atomic {
        assert(!was_owed);
        stores_before = 0
    }
}

inline malloc() {
    if
    :: top > 0 -> atomic { top--; live++ }
    :: else ->
        slow_begins();
        is_open = true;
        limit = CAPACITY;
        atomic { top = 1; live++ }; /* two blocks, one of which is popped */
        tick();
        slow_ends()
    fi
}

inline free() {
    atomic { was_owed = is_owed; seen = limit };
    if
    :: !is_full ->
        atomic {
            assert(!was_owed && top < CAPACITY);
            was_owed = false;
            seen = 0;
            top++;
            live--
        }
    :: else ->
        slow_begins();
        is_open = true;
        if
        :: top >= CAPACITY -> top = top - 1 /* the older half goes home */
        :: else
        fi;
#ifndef NOT_REOPENED
        limit = CAPACITY;
#endif
        atomic { top++; live--; seen = 0 };
        tick();
        assert(limit == CAPACITY || stores != stores_before);
        slow_ends()
    fi
}

inline registry_add() {
    atomic { !registry_lock && !is_alive -> registry_lock = true };
    if
    :: is_resting ->
        assert(top == rests_with);
        atomic { is_resting = false; rests_with = 0; is_alive = true }
    :: else ->
        assert(top == 0 && limit == 0 && !is_open);
        is_alive = true
    fi;
    release(registry_lock)
}

/* Of several threads that end, one may find the shard's place taken. */
inline registry_rest() {
    acquire(registry_lock);
    if
#ifdef RESTS_IN_ANY_CASE
    :: true ->
#else
    :: !is_asked ->
#endif
        assert(!is_owed && !is_pending);
        atomic { is_alive = false; is_resting = true; rests = true; rests_with = top }
    :: true
    fi;
    release(registry_lock)
}

inline registry_remove() {
    acquire(registry_lock);
    is_alive = false;
    atomic { /* cache_close */
        assert(top == 0);
        top = 0;
        limit = 0;
        is_open = false
    };
    release(registry_lock)
}

proctype thread() {
    byte live, seen, stores_before;
    bool was_owed, rests;
    registry_add();
    do
    :: live < LIVE_MAX -> malloc()
    :: live > 0 -> free()
    :: true -> break
    od;
    /* end_thread */
#ifdef REMOVED_FIRST
    registry_remove();
    flush();
#else
    registry_rest();
    if
    :: !rests ->
        flush();
        registry_remove()
    :: else
    fi;
#endif
    /* Destructors of other libraries free what they have. */
    do
    :: live > 0 ->
#ifdef LIVES_ON
        atomic { top++; live-- }
#else
        live--
#endif
    :: live == 0 -> break
    od;
    assert(is_alive || is_resting || top == 0)
}

inline registry_settle() {
    acquire(registry_lock);
    if
    :: is_resting ->
#ifdef SETTLED_IN_PLACE
        release(registry_lock);
        flush()
#else
        atomic { is_resting = false; is_alive = true; rests_with = 0 };
        release(registry_lock);
        flush();
        registry_remove()
#endif
    :: else -> release(registry_lock)
    fi
}

/* registry_ask_flush, and what front_purge does besides */
proctype asker(bool settles) {
    bool was_owed;
    acquire(registry_lock);
    if
    :: is_alive ->
        atomic { is_asked = true; is_pending = true };
        if
        :: limit != 0 -> atomic { limit = 0; stores++ }
        :: else
        fi;
        atomic { is_owed = is_pending; is_pending = false }
    :: else
    fi;
    release(registry_lock);
    if
    :: settles -> registry_settle()
    :: else
    fi
}

init {
    atomic {
        run thread();
        run thread();
        run asker(true);
        run asker(false)
    }
}
