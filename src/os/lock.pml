/* The lock that sleeps in the kernel: a model for SPIN (see docs/internals/proof.md).
 *
 *   FREE -- try --> HELD -- somebody sleeps --> HELD_WITH_WAITERS -- release --> FREE, wake one
 *
 * What it models, function by function:
 *
 *   os_lock_try         compare and exchange, FREE to HELD
 *   spin                looks until it sees FREE, then tries; gives up after any number of looks
 *   sleep_until_free    exchange to HELD_WITH_WAITERS, then futex(FUTEX_WAIT)
 *   os_lock_release     exchange to FREE, then os_lock_wake if somebody may sleep
 *   futex               the kernel compares and falls asleep in one step; wakes one sleeper,
 *                       any; and now and then somebody for no reason (a signal)
 *
 * Three threads take the lock and release it, three times each.
 *
 * Left out: the counters (their holder's alone), passing by a forking thread (front/fork.pml),
 * memory order: acquire and release are what makes the sections of the model whole.
 *
 * Properties:
 *   - one thread at a time is inside
 *   - nobody sleeps for ever, neither all together nor one when the others are done
 *
 * Runs: plain
 * Broken:
 *   -DNO_WAKE          release does not wake
 *   -DTWO_STEPS        release looks at the state, then stores FREE
 *   -DTAKES_AS_HELD    who has slept takes the lock as HELD, as if nobody else slept
 *   -DSLEEPS_BLINDLY   the kernel does not compare
 *   -DTRIES_IN_STEPS   try looks at the state, then stores HELD */

#define THREADS 3
#define ROUNDS 3
#define SIGNALS 2
#define FREE 0
#define HELD 1
#define WITH_WAITERS 2

byte state = FREE;
bool asleep[THREADS];
byte inside; /* threads that hold the lock */

inline try() {
#ifdef TRIES_IN_STEPS
    was = state;
    if
    :: was == FREE -> state = HELD
    :: else
    fi
#else
    atomic {
        was = state;
        if
        :: was == FREE -> state = HELD
        :: else
        fi
    }
#endif
}

inline futex_wait() {
    atomic {
        if
#ifdef SLEEPS_BLINDLY
        :: true -> asleep[me] = true
#else
        :: state == WITH_WAITERS -> asleep[me] = true
        :: else
#endif
        fi
    };
    !asleep[me]
}

inline futex_wake() {
    atomic {
        if
        :: asleep[0] -> asleep[0] = false
        :: asleep[1] -> asleep[1] = false
        :: asleep[2] -> asleep[2] = false
        :: !asleep[0] && !asleep[1] && !asleep[2]
        fi
    }
}

inline acquire() {
    try();
    do /* spin */
    :: was != FREE && state == FREE -> try()
    :: was != FREE -> break
    :: was == FREE -> break
    od;
    do /* sleep_until_free */
    :: was == FREE -> break
    :: was != FREE ->
        atomic {
            was = state;
#ifdef TAKES_AS_HELD
            state = (was == FREE -> HELD : WITH_WAITERS)
#else
            state = WITH_WAITERS
#endif
        };
        if
        :: was != FREE -> futex_wait()
        :: else
        fi
    od
}

inline release() {
#ifdef TWO_STEPS
    was = state;
    state = FREE;
#else
    atomic {
        was = state;
        state = FREE
    };
#endif
    assert(was != FREE);
    if
#ifndef NO_WAKE
    :: was == WITH_WAITERS -> futex_wake()
#endif
    :: else
    fi
}

active[THREADS] proctype thread() {
    byte me = _pid;
    byte was, round;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
       round++;
       acquire();
       inside++;
       assert(inside == 1);
       inside--;
       release()
    od
}

/* Wakes somebody for no reason, not so often that it would make up for a wake that is lost. */
active proctype kernel() {
    byte signals = SIGNALS;
end:
    do
    :: atomic { signals > 0 && asleep[0] -> asleep[0] = false; signals-- }
    :: atomic { signals > 0 && asleep[1] -> asleep[1] = false; signals-- }
    :: atomic { signals > 0 && asleep[2] -> asleep[2] = false; signals-- }
    od
}
