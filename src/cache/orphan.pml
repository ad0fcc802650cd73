/* The bin of a thread that a fork leaves behind: a model for SPIN (see docs/internals/proof.md).
 *
 *   parent   owner:    pops, pushes, refills, flushes its bin     other: takes and gives blocks
 *   fork     the child's memory: bin, bitmap and who has which block, as they are at that moment
 *   child    reclaims the bin, block by block, while it takes and gives blocks itself
 *
 * What it models, function by function:
 *
 *   front_malloc, front_free    one store of top; the slot is written before it
 *   cache_take                  slab_take under the pool's lock, the slots, then top
 *   bin_flush_oldest            the bin is shown empty, the oldest blocks are copied away, the
 *                               others move down, top is set; then slab_give under the lock
 *   prepare, in_child           fork holds the pool's lock at the fork
 *   reclaim_bin, slab_reclaim   what is in the bin goes home, unless its bit is set
 *
 * One slab of three blocks, one bin of three. The fork happens after any step of the owner's.
 *
 * Left out: tearing. The kernel makes a page read-only for its writer before it copies the
 * mapping, and who writes to such a page waits until the fork is over; so the child sees what
 * each thread stored up to some point in its program, and nothing that came later. Stores
 * reach memory in the order of the program as far as a fork can tell. Blocks on their way
 * between bin and slab are in neither: in the child they stay taken for ever, which is allowed.
 *
 * Properties:
 *   - in the child no block that the program has goes home, or is handed out again
 *   - a block goes home once: no bit is set twice, in the parent or in the child
 *   - the bitmap is not being written at the fork
 *
 * Runs: plain
 * Broken:
 *   -DBIT_FIRST        blocks leave the bin after their bits are set
 *   -DSHOWN_FULL       the bin is not shown empty while its blocks move
 *   -DTOP_FIRST        top is stored before the slot
 *   -DPOPPED_LATE      the program has the block before top is stored
 *   -DFORKS_INSIDE     fork does not wait for the pool's lock */

#define BLOCKS 3
#define NO_BLOCK 255

/* Who has a block: the slab, a bin or nobody yet, the program. */
#define HOME 0
#define UNDERWAY 1
#define PROGRAM 2

byte top;                  /* blocks in the bin, slots 0 .. top - 1 */
byte slots[BLOCKS];
bool is_set[BLOCKS] = true; /* in the slab's bitmap */
byte has[BLOCKS] = HOME;
bool pool_lock;
bool in_child; /* the owner and the others are gone, their memory stays */

bool is_writing; /* somebody is at the bitmap */

#define acquire(l) atomic { !l -> l = true }
#define release(l) l = false

/* Under the lock; blocks that the program has, or that are underway to it. */
inline clear_bit(b, to) {
    is_writing = true;
    atomic {
        assert(is_set[b] && has[b] == HOME);
        is_set[b] = false;
        has[b] = to;
        is_writing = false
    }
}

inline set_bit(b) {
    is_writing = true;
    atomic {
        assert(!is_set[b]);
        is_set[b] = true;
        has[b] = HOME;
        is_writing = false
    }
}

inline pick(state) {
    if
    :: has[0] == state -> b = 0
    :: has[1] == state -> b = 1
    :: has[2] == state -> b = 2
    :: else -> b = NO_BLOCK
    fi
}

/* The program frees a block, if it has any. */
inline let_go() {
    atomic {
        pick(PROGRAM);
        if
        :: b != NO_BLOCK -> has[b] = UNDERWAY
        :: else
        fi
    }
}

inline pop() {
    atomic { b = slots[top - 1] };
#ifdef POPPED_LATE
    has[b] = PROGRAM;
    top--
#else
    atomic { top--; has[b] = PROGRAM }
#endif
}

inline push() {
    let_go();
    if
    :: b == NO_BLOCK
    :: else ->
#ifdef TOP_FIRST
        top++;
        slots[top - 1] = b
#else
        slots[top] = b;
        top++
#endif
    fi
}

/* All that are at home, into an empty bin. */
inline refill() {
    acquire(pool_lock);
    do
    :: count < BLOCKS ->
        atomic { pick(HOME) };
        if
        :: b != NO_BLOCK -> clear_bit(b, UNDERWAY); slots[count] = b; count++
        :: else -> break
        fi
    :: count != 0 -> break
    od;
    release(pool_lock);
    top = count;
    count = 0
}

inline slab_give() {
    acquire(pool_lock);
    i = 0;
    do
    :: i < count -> set_bit(batch[i]); i++
    :: else -> break
    od;
    i = 0;
    release(pool_lock)
}

inline flush_oldest() {
    if
    :: count = 1
    :: top > 1 -> count = 2
    fi;
    rest = top - count;
#ifndef SHOWN_FULL
#ifndef BIT_FIRST
    top = 0;
#endif
#endif
    atomic { batch[0] = slots[0]; batch[1] = slots[1] };
#ifdef BIT_FIRST
    slab_give();
#endif
    do
    :: i < rest -> slots[i] = slots[count + i]; i++
    :: else -> break
    od;
    top = rest;
#ifndef BIT_FIRST
    slab_give();
#endif
    atomic { i = 0; count = 0; rest = 0; batch[0] = 0; batch[1] = 0 }
}

proctype owner() {
    byte b, i, count, rest;
    byte batch[2];
    {
end:
        do
        :: top != 0 -> pop()
        :: top == 0 -> refill()
        :: top < BLOCKS -> push()
        :: top != 0 -> flush_oldest()
        od
    } unless { in_child }
}

/* What other threads do, in the parent and in the child: they take a block and give one. */
inline take() {
    acquire(pool_lock);
    atomic { pick(HOME) };
    if
    :: b != NO_BLOCK -> clear_bit(b, PROGRAM)
    :: else
    fi;
    release(pool_lock)
}

inline give() {
    let_go();
    if
    :: b != NO_BLOCK ->
        acquire(pool_lock);
        set_bit(b);
        release(pool_lock)
    :: else
    fi
}

inline fork() {
#ifndef FORKS_INSIDE
    acquire(pool_lock);
#endif
    in_child = true;
    assert(!is_writing);
    release(pool_lock)
}

inline reclaim() {
    i = 0;
    do
    :: i < top ->
        b = slots[i];
        acquire(pool_lock);
        atomic {
            if
            :: is_set[b] /* left alone */
            :: else ->
                assert(has[b] != PROGRAM);
                is_set[b] = true;
                has[b] = HOME
            fi
        };
        release(pool_lock);
        if
        :: take()
        :: true
        fi;
        i++
    :: else -> break
    od
}

proctype forking() {
    byte b, i;
    do
    :: take()
    :: give()
    :: true -> break
    od;
    fork();
    reclaim();
    take();
    give()
}

init {
    atomic {
        run owner();
        run forking()
    }
}
