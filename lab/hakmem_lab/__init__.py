"""The lab of HAKMEM: runs programs under allocators and says how they compare.

From the bottom up:

    errors     what can go wrong, in words for the person at the terminal
    paths      where the library, the drivers and the peers are
    machine    the machine that figures were measured on
    measure    one run of one program under one allocator: environment, time, memory
    proof      that the allocator under test is the one that the program used
    schedule   many runs, interleaved in random order
    stats      medians, confidence intervals, ratios
    report     results as JSON (the schema that others read)
    tables     results for people
    suites     the built-in benchmarks
    peers/     other allocators: where they come from, how they are installed
    ab/        two builds against each other: faster, slower or the same; git bisect by that
    commands/  one command a file: its options, and what it prints
    cli        puts the commands together
"""
