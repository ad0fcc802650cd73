"""`hakmem doctor`: what of this machine and kernel matters for memory, and what to type.

From the bottom up:

    host        what the checks may read: files below a root, limits, the environment
    finding     what a check found, what that means, what to type
    cgroups     the control groups of this process, from the innermost up
    checks_*    the checks: pages, limits, processors, tools; one function each
    noise       how quiet the machine is, measured
    examine     the table of all checks; runs them
    show        findings for people and for machines
"""
