"""`hakmem soak`: what a heap is like after an hour, and whether it stays so.

From the bottom up:

    histogram  latencies as the driver counts them; percentiles
    calls      system calls of one epoch, counted from outside
    driver     one long-lived process under one allocator, told epoch by epoch what to do
    session    all processes taking turns: warm-up, measured epochs, counted epochs
    analysis   drift, variation, percentiles, calls and faults per operation
    result     all that as JSON and as tables
    picture    memory, speed and the tail over time
"""
