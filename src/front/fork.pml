/* Fork takes all locks and walks through them: a model for SPIN (see docs/internals/proof.md).
 *
 *   prepare           handlers of other libraries, fork, more of them    in_parent   in_child
 *   take every lock   pass every lock                                    release     reset
 *
 * What it models, function by function:
 *
 *   front_each_lock     opening, then the pools that are open, then spans, in rank order
 *   prepare, in_parent, in_child
 *   os_lock_acquire, os_lock_release    the forking thread passes, others wait
 *   pool_lock, open_pool                a pool is opened at its first use, under opening
 *   adopt_sparse        two pools' locks, the lower shard's first, of pools that are open
 *
 * Two threads lock pools, one or two at a time, and spans, for ever. A third forks twice, and
 * locks pools itself before, between the handlers and after, in the parent or in the child.
 * Two pools: the first is open, the second may be opened by anybody at any time.
 *
 * Left out: how a lock waits (os/lock.pml), what the locks protect: a section is whole or
 * somebody is inside; locks of other ranks, which are taken in the same way, each alone.
 *
 * Properties:
 *   - at the fork nobody is inside a locked section
 *   - a lock is released by who holds it, and only then
 *   - in the child each lock can be had
 *   - nobody waits for ever
 *
 * Runs: plain
 * Broken:
 *   -DPOOLS_FIRST      fork takes the pools' locks before that of opening
 *   -DHIGH_FIRST       a thread takes the higher of two pools first
 *   -DADOPTS_CLOSED    a pool is opened with the lock of another one held
 *   -DRELEASED_IN_ORDER    in the parent opening is released in rank order, before the pools
 *   -DOPENED_FREE      a pool that the forking thread opens is not marked as held
 *   -DNOT_PASSED       the forking thread waits for its own locks
 *   -DNOT_RESET        the child leaves the locks as they are */

#define LOCKS 4
#define OPENING 0
#define POOL 1 /* and 2 */
#define SPANS 3
#define NOBODY 0
#define ME (1 + _pid)
#define FORKS 2

byte lock[LOCKS]; /* NOBODY, or who holds it */
bool is_open[LOCKS]; /* of pools */
byte forker; /* who passes all locks */
bool in_child; /* the other threads are gone */

/* What is true: threads in a section. */
byte inside[LOCKS];

#ifdef NOT_PASSED
#define is_passed false
#else
#define is_passed (forker == ME)
#endif

inline acquire(l) {
    if
    :: is_passed
    :: !is_passed -> atomic { lock[l] == NOBODY -> lock[l] = ME }
    fi;
    inside[l]++
}

inline release(l) {
    inside[l]--;
    if
    :: is_passed
    :: !is_passed -> atomic { assert(lock[l] == ME); lock[l] = NOBODY }
    fi
}

inline pool_lock(p) {
    if
    :: is_open[p]
    :: !is_open[p] ->
        acquire(OPENING);
        if
        :: !is_open[p] ->
#ifndef OPENED_FREE
            if
            :: is_passed -> lock[p] = ME
            :: else
            fi;
#endif
            is_open[p] = true
        :: else
        fi;
        release(OPENING)
    fi;
    acquire(p)
}

#ifdef ADOPTS_CLOSED
#define may_adopt true
#else
#define may_adopt (is_open[POOL] && is_open[POOL + 1])
#endif

inline work() {
    if
    :: pool_lock(POOL); release(POOL)
    :: pool_lock(POOL + 1); release(POOL + 1)
    :: may_adopt ->
#ifdef HIGH_FIRST
        pool_lock(POOL + 1); pool_lock(POOL);
#else
        pool_lock(POOL); pool_lock(POOL + 1);
#endif
        release(POOL + 1);
        release(POOL)
    :: acquire(SPANS); release(SPANS)
    fi
}

/* Each of the open pools, and the rest, in order of rank. */
inline acquire_pools() {
    if
    :: is_open[POOL] -> own(POOL)
    :: else
    fi;
    if
    :: is_open[POOL + 1] -> own(POOL + 1)
    :: else
    fi
}

inline own(l) { atomic { lock[l] == NOBODY -> lock[l] = ME } }
inline disown(l) { atomic { assert(lock[l] == ME); lock[l] = NOBODY } }

inline prepare() {
#ifdef POOLS_FIRST
    acquire_pools();
    own(OPENING);
#else
    own(OPENING);
    acquire_pools();
#endif
    own(SPANS);
    forker = ME
}

inline in_parent_() {
    forker = NOBODY;
#ifdef RELEASED_IN_ORDER
    disown(OPENING);
#endif
    if
    :: is_open[POOL] -> disown(POOL)
    :: else
    fi;
    if
    :: is_open[POOL + 1] -> disown(POOL + 1)
    :: else
    fi;
    disown(SPANS);
#ifndef RELEASED_IN_ORDER
    disown(OPENING)
#endif
}

inline in_child_() {
    forker = NOBODY;
#ifndef NOT_RESET
    d_step { lock[OPENING] = NOBODY; lock[POOL] = NOBODY; lock[POOL + 1] = NOBODY; lock[SPANS] = NOBODY }
#endif
}

#define nobody_inside (inside[0] + inside[1] + inside[2] + inside[3] == 0)

proctype thread() {
    {
end:
        do
        :: work()
        od
    } unless { in_child }
}

proctype forking() {
    byte forks;
    do
    :: forks < FORKS ->
        forks++;
        work();
        prepare();
        if
        :: work() /* a handler of another library, before */
        :: true
        fi;
        assert(nobody_inside);
        if
        :: true -> /* the parent */
            if
            :: work() /* or after it */
            :: true
            fi;
            in_parent_()
        :: true -> /* the child */
            in_child = true;
            if
            :: work()
            :: true
            fi;
            in_child_();
            work();
            work();
            break
        fi
    :: forks == FORKS -> break
    od
}

init {
    atomic {
        is_open[POOL] = true;
        run thread();
        run thread();
        run forking()
    }
}
