/* Blocks going home while their slabs wander: a model for SPIN (see docs/internals/proof.md).
 *
 *            add_span            move_sparse                 pool_retire
 *   no pool ----------> a pool -------------> another shard ------------> no pool, another class
 *
 * What it models, function by function:
 *
 *   span_home       home of a slab, one word: read without a lock, then again under it
 *   slab_take       take_partial, then adopt_sparse (two locks, the lower shard's first), then
 *                   add_span
 *   slab_give       give_to, round by round: find a shard, lock, look at each block again, set
 *                   its bit; pool_retire, and span_give when the lock is released
 *   pool_lock_of    for pages.c and sparse.c, which come by at any time
 *
 * Two threads, each in a shard of its own, take batches of two classes and give them home, for
 * ever. A visitor, at any moment, locks the pool of a slab in which it has no block; or, with
 * -DSTALE, somebody gives a block home that it does not own: each second free there can be.
 *
 * Left out: which slab is the fullest (any may be), words of many bits, whether an empty slab
 * is kept (it may be), counters. Block i of a slab lies at the same address in both classes,
 * so that a stale pointer passes every check but those of the pool and the bit. Memory is
 * sequentially consistent, and need be no more than coherent: home is all that is read
 * without a lock, and a slab enters and leaves a pool under that pool's lock.
 *
 * Properties:
 *   - a bit is set under the lock of the pool that the slab is in, and so of its class
 *   - whom pool_lock_of gives a lock, has that of the slab's pool
 *   - each block comes home once; none is handed out while somebody has it
 *   - a second free is found, unless the block has been handed out again meanwhile
 *   - nobody waits for ever
 *
 * Runs: plain; -DSTALE
 * Broken:
 *   -DAPART            class and shard in two words
 *   -DSTALE -DAPART    the same
 *   -DONE_LOOK         give_to does not look again under the lock
 *   -DONE_LOOK_OF      pool_lock_of does not
 *   -DSTALE -DNO_BIT_CHECK    a bit that is set is set again
 *   -DSTALE -DANY_ORDER    of the locks of two pools
 *   -DONE_LOCK         a slab moves under the lock of the pool that it goes to alone
 *   -DRETIRE_LATE      home is cleared after the lock is released */

#define SLABS 2
#define BLOCKS 2   /* of a slab */
#define ALL_FREE 3 /* a bit for each */
#define POOLS 4    /* 2 shards, classes 1 and 2; class 0: no blocks here */

#define NONE 255
#define NOBODY 0
#define ME (1 + _pid)

#define POOL(shard, class) (2 * (shard) + (class)-1)
#define BLOCK(slab, b) ((slab)*BLOCKS + (b))

/* The code's. */
byte lock[POOLS]; /* NOBODY, or who holds it */
byte home_shard[SLABS];
byte home_class[SLABS];
byte bits[SLABS];           /* set: free */
bool is_free[SLABS] = true; /* the slab is its SuperSlab's */

/* What is true: the pool in whose lists a slab is, and who has a block. */
byte pool_of[SLABS] = NONE;
byte owner[SLABS * BLOCKS];

/* To be followed by other steps inside atomic where nobody could see what is between. */
#define acquire(p) lock[p] == NOBODY -> lock[p] = ME
#define release(p) assert(lock[p] == ME); lock[p] = NOBODY
#define has_room(slab, p) (pool_of[slab] == (p) && bits[slab] != 0)

#define write_home(slab, s, c) home_shard[slab] = s; home_class[slab] = c
#ifdef APART
#define clear_home(slab) home_class[slab] = 0
inline read_home(slab, s, c) { c = home_class[slab]; s = home_shard[slab] }
#else
#define clear_home(slab) write_home(slab, 0, 0)
inline read_home(slab, s, c) { atomic { c = home_class[slab]; s = home_shard[slab] } }
#endif

/* A slab of pool p with free blocks, or NONE. */
inline find_partial(p) {
    if
    :: has_room(0, p) -> slab = 0
    :: has_room(1, p) -> slab = 1
    :: else -> slab = NONE
    fi
}

inline take_block() {
    b = (bits[slab] & 1 -> 0 : 1);
    bits[slab] = bits[slab] & ~(1 << b);
    assert(owner[BLOCK(slab, b)] == NOBODY);
    owner[BLOCK(slab, b)] = ME;
    batch[count] = BLOCK(slab, b);
    count++
}

/* Up to want blocks, one slab after the other. */
inline take_partial(p) {
    atomic {
        acquire(p);
        do
        :: count < want ->
            find_partial(p);
            if
            :: slab != NONE -> take_block()
            :: else -> break
            fi
        :: else -> break
        od;
        slab = NONE; b = 0;
        release(p)
    }
}

inline adopt_sparse(p, q) {
#ifndef ONE_LOCK
#ifdef ANY_ORDER
    atomic { acquire(p) };
#else
    atomic { acquire((p < q -> p : q)) };
#endif
#endif
    atomic {
#ifdef ANY_ORDER
        acquire(q);
#else
        acquire((p < q -> q : p));
#endif
        find_partial(q);
        if
        :: slab != NONE -> pool_of[slab] = p; write_home(slab, me, class)
        :: else
        fi;
#ifndef ONE_LOCK
        release((p < q -> p : q));
#endif
        release((p < q -> q : p))
    }
}

inline add_span(p) {
    atomic {
        if
        :: is_free[0] -> slab = 0
        :: is_free[1] -> slab = 1
        :: else /* out of memory */
        fi;
        if
        :: slab != NONE ->
            is_free[slab] = false;
            assert(pool_of[slab] == NONE);
            bits[slab] = ALL_FREE
        :: else
        fi
    };
    if
    :: slab != NONE ->
        atomic {
            acquire(p);
            pool_of[slab] = p;
            write_home(slab, me, class);
            release(p)
        }
    :: else
    fi
}

/* give_neighbours, of one block; pool p is locked. found: the bit is set already. */
inline look_at_bit(p) {
    assert(pool_of[slab] == p);
#ifndef NO_BIT_CHECK
    found = (bits[slab] >> b) & 1
#endif
}

inline give_block(p) {
    atomic {
        look_at_bit(p);
        assert(!found && owner[batch[i]] == ME);
        owner[batch[i]] = NOBODY;
        bits[slab] = bits[slab] | (1 << b);
        if
        :: bits[slab] == ALL_FREE -> /* pool_retire */
            pool_of[slab] = NONE;
#ifndef RETIRE_LATE
            clear_home(slab);
#endif
            retired = retired | (1 << slab)
        :: true
        fi
    }
}

/* pool_give_retired */
inline give_retired() {
    do
    :: retired != 0 ->
        atomic {
            slab = (retired & 1 -> 0 : 1);
            retired = retired & ~(1 << slab);
#ifdef RETIRE_LATE
            clear_home(slab);
#endif
            is_free[slab] = true
        }
    :: else -> break
    od
}

inline give_to(q) {
    atomic { acquire(q) };
    do
    :: i < count ->
        atomic { slab = batch[i] / BLOCKS; b = batch[i] % BLOCKS };
#ifndef ONE_LOOK
        read_home(slab, s, c);
#endif
        assert(c == class);
        if
        :: POOL(s, class) == q -> give_block(q)
        :: else -> atomic { batch[rest] = batch[i]; rest++ }
        fi;
        i++
    :: else -> break
    od;
    atomic { release(q); i = 0; count = rest; rest = 0 };
    give_retired()
}

proctype thread(byte me) {
    byte class, slab = NONE, b, s, c, q, i, rest, retired;
    byte batch[2], count, want;
    bool found;
end:
    do
    :: atomic {
        if
        :: class = 1; want = 1
        :: class = 1; want = 2
        :: class = 2; want = 1
        fi
       };

       do /* slab_take */
       :: take_partial(POOL(me, class));
           if
           :: count == 0 -> adopt_sparse(POOL(me, class), POOL(1 - me, class))
           :: true /* partial_count, read as a hint, says that there is none */
           fi;
           if
           :: count == 0 && slab == NONE -> add_span(POOL(me, class))
           :: else
           fi;
           if
           :: slab == NONE -> break
           :: else -> slab = NONE
           fi
       od;

       do /* slab_give */
       :: count != 0 ->
           slab = batch[0] / BLOCKS;
           read_home(slab, s, c);
           q = POOL(s, class);
           give_to(q)
       :: else -> break
       od;
       atomic { class = 0; want = 0; slab = NONE; b = 0; s = 0; c = 0; q = 0; batch[0] = 0; batch[1] = 0 }
    od
}

/* Gives a block home that it does not own. */
proctype stale(byte class) {
    byte slab, b, s, c, p;
    bool found;
    if
    :: slab = 1
    :: skip
    fi;
again:
    read_home(slab, s, c);
    p = POOL(s, class);
    atomic { acquire(p) };
#ifndef ONE_LOOK
    read_home(slab, s, c);
#endif
    if
    :: c == class && POOL(s, class) != p -> atomic { release(p) }; goto again
    :: c == class && POOL(s, class) == p ->
        atomic {
            look_at_bit(p);
            /* Else it sets the bit of somebody's block, whose own free then finds it. */
            assert(found || owner[BLOCK(slab, b)] != NOBODY)
        }
    :: else /* found: no slab of this class */
    fi;
    atomic { release(p) }
}

/* pool_lock_of, once. */
proctype visitor() {
    byte slab, s, c, p, s2, c2;
again:
    read_home(slab, s, c);
    if
    :: c == 0 -> goto done
    :: else -> p = POOL(s, c)
    fi;
    atomic { acquire(p) };
#ifdef ONE_LOOK_OF
    atomic { s2 = s; c2 = c };
#else
    read_home(slab, s2, c2);
#endif
    if
    :: c2 == c && s2 == s -> assert(pool_of[slab] == p)
    :: else -> atomic { release(p); s = 0; c = 0; s2 = 0; c2 = 0; p = 0 }; goto again
    fi;
    atomic { release(p) };
done:
    skip
}

init {
    atomic {
        run thread(0);
        run thread(1);
#ifdef STALE
        run stale(1)
#else
        run visitor()
#endif
    }
}
