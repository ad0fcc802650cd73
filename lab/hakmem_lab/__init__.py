"""The lab of HAKMEM: runs programs under allocators and says how they compare.

From the bottom up:

    errors     what can go wrong, in words for the person at the terminal
    paths      where the library, the drivers and the peers are
    machine    the machine that figures were measured on
    measure    one run of one program under one allocator: environment, time, memory
    memory     average memory of a run, looked at while it lasts
    proof      that the allocator under test is the one that the program used
    serve      a server under an allocator, and a client that is timed
    sockets    which processes listen
    schedule   many runs, interleaved in random order
    stats      medians, confidence intervals, ratios
    metrics    what is measured: units, titles, how figures are written
    report     results as JSON (the schema that others read)
    counting   system calls, counted in runs that are not timed
    callgrind  the instructions that a run executes, by function
    instructions   those of an operation, on the fast path and off it
    jobs       what compare compares: a program, or a server with a client
    difference two results of the same benchmarks: what has changed
    verdicts   what a comparison shows, in a sentence
    tables     results for people, on the terminal
    charts/    results for people, as pictures
    page       self-contained HTML pages; templates/ has what they look like
    pages      the pages of results: one program, or a suite
    programs/  the suite programs: real programs at real work, and their inputs
    suites     the built-in benchmarks
    peers/     other allocators: where they come from, how they are installed
    machine_code/   what a library's code is, and what malloc and free execute (`hakmem audit`)
    doctor/    what of this machine matters for memory, and what to type
    soak/      long-lived heaps: drift, variation, tails, system calls
    ab/        two builds against each other: faster, slower or the same; git bisect by that
    commands/  one command a file: its options, and what it prints
    cli        puts the commands together
"""
