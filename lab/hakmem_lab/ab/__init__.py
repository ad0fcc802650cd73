"""`hakmem ab` and `hakmem bisect`: is this build faster or slower than that one?

From the bottom up:

    paired         a ratio and its interval out of pairs of runs
    verdict        GO, NEUTRAL, NO-GO or UNKNOWN, and when to stop looking
    builds         libraries by revision, folder or file; builds them in worktrees of their own
    layout         the same code linked again in a random order
    code           the functions of a library, in words that moving them does not change
    difference     in which instructions two libraries differ
    reach          which of these instructions a benchmark executes
    instructions   how many instructions an operation takes (callgrind)
    workload       what is measured: a built-in benchmark or any command
    trial          the rounds of A, A', B, B'
    judge          all of the above, put together
    document       the outcome as JSON
    view           and as tables and a sentence for people
    chart          and as a picture
    bisecting      git bisect with a trial as its judge
    bisect_view    and its outcome
"""
