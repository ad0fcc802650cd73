/* Pages go out of a slab in use: a model for SPIN (see docs/internals/proof.md).
 *
 *   blocks of a page    free -- claim, locked --> of no one -- purge --> -- return, locked --> free
 *
 * What it models, function by function:
 *
 *   claim_holes     under the lock of pool_lock_of: pages all of whose blocks are free
 *   purge_holes     the kernel takes the page, no lock held
 *   return_holes    pool_lock_of again; the marks, then the bits, which must all be clear
 *   pages_taken     a block that is handed out takes its page's mark with it, under the lock
 *   move_sparse     the slab goes to the other shard
 *   pool_retire     an empty slab goes, and comes again: pages_begin forgets its marks
 *
 * One slab of two pages, on one of them two blocks, on the other one, and two shards. Two
 * threads, one a shard, take a block, write to it and give it back, for ever; each adopts the
 * slab for its shard. One more purges, for ever. With -DSTALE somebody gives a block back once
 * that is free, and nobody is handed it before the purger has seen it: then the second free
 * looks like the first.
 *
 * Left out: blocks on two pages, which belong to a hole only if both pages do; which slabs are
 * chosen; other classes (slab/home.pml); kernels that refuse.
 *
 * Properties:
 *   - no page goes while somebody has a block on it
 *   - a block said to read as zero does
 *   - the bitmap changes under the lock of the slab's pool
 *   - a slab with claimed blocks does not retire, but for a second free
 *   - a second free is found, at once or at the return
 *   - nobody waits for ever
 *
 * Runs: plain; -DSTALE
 * Broken:
 *   -DNOT_CLAIMED      the blocks stay in the bitmap while their page goes
 *   -DSAME_POOL        return_holes locks the pool of the claim
 *   -DMARKED_LATE      the page is marked after its blocks are free again
 *   -DMARK_STAYS       handing out a block leaves the mark
 *   -DNOT_FORGOTTEN    a new slab has the marks of the one before
 *   -DSTALE -DUNLOOKED    return_holes sets the bits without a look
 *   -DSTALE -DSURE     return_holes relies on the slab being there */

#define BLOCKS 3
#define PAGES 2
#define SHARDS 2
#define page_of(b) ((b) / 2)
#define last_of(page) ((page) == 0 -> 1 : 2)
#define NOBODY 0
#define ME (1 + _pid)
#define NONE 255

byte lock[SHARDS];
byte home; /* the shard that has the slab, NONE: it is retired */
bool is_set[BLOCKS] = true;
bool is_marked[PAGES]; /* purged, and no block on it handed out since */

/* What is true. */
byte owner[BLOCKS];
bool is_claimed[BLOCKS];
bool is_zero[PAGES];
bool is_stale[BLOCKS]; /* freed again while claimed */

#define acquire(l) atomic { lock[l] == NOBODY -> lock[l] = ME }
#define release(l) atomic { assert(lock[l] == ME); lock[l] = NOBODY }
#define all_set (is_set[0] && is_set[1] && is_set[2])

/* pool_lock_of, of a slab that may be retired: then s is NONE. */
inline lock_home() {
    do
    :: s = home;
       if
       :: s == NONE -> break
       :: else
       fi;
       acquire(s);
       if
       :: home == s -> break
       :: else -> release(s)
       fi
    od
}

/* --- threads --- */

/* adopt_sparse and add_span: the slab is this shard's, and its lock held. */
inline lock_own() {
    acquire(0);
    acquire(1);
    if
    :: home == NONE -> /* add_span */
        atomic {
            home = me;
#ifndef NOT_FORGOTTEN
            is_marked[0] = false; is_marked[1] = false;
#endif
            is_zero[0] = false; is_zero[1] = false
        }
    :: home != NONE -> home = me
    fi;
    release(1 - me)
}

inline take() {
    lock_own();
    atomic {
        if
        :: is_set[0] && !is_stale[0] -> b = 0
        :: is_set[1] && !is_stale[1] -> b = 1
        :: is_set[2] && !is_stale[2] -> b = 2
        :: else -> b = NONE
        fi;
        if
        :: b != NONE ->
            assert(owner[b] == NOBODY);
            is_set[b] = false;
            owner[b] = ME;
            reads_zero = is_marked[page_of(b)];
            /* What is on the page cannot matter to those who are not told that it is zero. */
            assert(!reads_zero || is_zero[page_of(b)]);
#ifndef MARK_STAYS
            is_marked[page_of(b)] = false;
#endif
            reads_zero = false
        :: else
        fi
    };
    release(me)
}

inline give() {
    lock_home();
    assert(s != NONE);
    atomic {
        assert(!is_set[b] && owner[b] == ME);
        owner[b] = NOBODY;
        is_set[b] = true
    };
    if
    :: all_set ->
        atomic {
            assert(!is_claimed[0] || is_stale[0]);
            assert(!is_claimed[1] || is_stale[1]);
            assert(!is_claimed[2] || is_stale[2]);
            home = NONE
        }
    :: true
    fi;
    release(s)
}

proctype thread(byte me) {
    byte b, s;
    bool reads_zero;
end:
    do
    :: take();
       if
       :: b != NONE ->
           is_zero[page_of(b)] = false; /* the program writes to it */
           give()
       :: else
       fi;
       atomic { b = 0; s = 0 }
    od
}

/* --- the purger; slab_pages_lock is held --- */

inline claim() {
    lock_home();
    if
    :: s == NONE
    :: else ->
        atomic {
            if
            :: is_set[0] && is_set[1] && !is_marked[0] -> page = 0
            :: is_set[2] && !is_marked[1] -> page = 1
            :: else
            fi;
            if
            :: page != NONE ->
#ifndef NOT_CLAIMED
                is_set[2 * page] = false;
                is_set[last_of(page)] = false;
#endif
                is_claimed[2 * page] = true;
                is_claimed[last_of(page)] = true
            :: else
            fi
        };
        release(s)
    fi
}

inline purge() {
    atomic {
        assert(owner[2 * page] == NOBODY && owner[last_of(page)] == NOBODY);
        is_zero[page] = true
    }
}

inline return_page() {
#ifdef SAME_POOL
    acquire(s);
#else
    lock_home();
#endif
    if
#ifndef SURE
    :: s == NONE -> found = true /* the slab has gone */
#endif
    :: else ->
        atomic {
            assert(s != NONE && home == s);
#ifndef MARKED_LATE
            is_marked[page] = true;
#endif
#ifndef UNLOOKED
            found = is_set[2 * page] || is_set[last_of(page)];
#endif
#ifndef NOT_CLAIMED
            is_set[2 * page] = true;
            is_set[last_of(page)] = true;
#endif
            assert(found || (!is_stale[2 * page] && !is_stale[last_of(page)]));
            is_claimed[2 * page] = false;
            is_claimed[last_of(page)] = false
        };
        if
        :: !found && all_set -> home = NONE
        :: true
        fi;
        release(s);
#ifdef MARKED_LATE
        is_marked[page] = true
#endif
    fi
}

proctype purger() {
    byte s, page = NONE;
    bool found;
end:
    do
    :: claim();
       if
       :: page == NONE
       :: else ->
           purge();
           return_page();
           if
           :: found -> break /* the program ends */
           :: else -> page = NONE
           fi
       fi;
       s = 0
    od
}

/* A second free. */
proctype stale() {
    byte b, s;
    lock_home();
    if
    :: s == NONE -> goto found
    :: else
    fi;
    if
    :: b = 2
    :: skip
    fi;
    atomic {
        if
        :: is_claimed[b] && !is_set[b] -> is_set[b] = true; is_stale[b] = true
        :: else /* its bit is set, or it has been handed out in between */
        fi
    };
    if
    :: all_set && is_stale[b] -> home = NONE
    :: true
    fi;
    release(s);
found:
    skip
}

init {
    atomic {
        home = NONE;
        run thread(0);
        run thread(1);
        run purger()
#ifdef STALE
        ;
        run stale()
#endif
    }
}
