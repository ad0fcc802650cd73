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
    programs/  the suite programs: real programs at real work, and their inputs
    suites     the built-in benchmarks
    peers/     other allocators: where they come from, how they are installed
    commands/  one command a file: its options, and what it prints
    cli        puts the commands together
"""
