"""Calls into the kernel and page faults of a heap in steady state, counted from outside.

Short runs and runs of many more steps: what the long ones have more is what their steps
cost. Both are counts and not times, so a test may hold them to a bound.
"""

from __future__ import annotations

import os
import re
import statistics
from pathlib import Path

import pytest

from harness import Side, Sides, run

WARM_STEPS = 10_000_000

STEPS = 100_000_000

# Live blocks: system calls and page faults that the steps may cost, and runs whose median counts.
# Where the kernel puts a program's files and stack differs from run to run, and with it how many
# faults it takes to load them: by some ten, so that one run says nothing about a bound of ten.
BOUNDS = {
    256: (0, 10, 9),
    400: (0, 10, 9),
    65_536: (50, 100, 1),
    1_000_000: (200, 400, 1),
}


def cost(side: Side, slots: int, steps: int, runs: int) -> tuple[int, float]:
    trace, report = side.root / "trace", side.root / "faults"
    driver = Path(os.environ["HAKMEM_BUILD"]) / "bench" / "random_mixed"
    tool = Side(side.name, side.root)
    # Without guard sampling: by chance it gives some blocks other places, so that two runs differ
    # by hundreds of faults before they have begun to be steady. What it costs itself is five calls
    # for one in 100,000 blocks that leave refills.
    argv = [
        "/usr/bin/env", f"LD_PRELOAD={side.library}", "HAKMEM_OPTIONS=guard_rate=0",
        str(driver), str(slots), str(steps),
    ]  # fmt: skip
    run(tool, "/usr/bin/strace", "-f", "-o", str(trace), *argv)
    faults = []
    for _ in range(runs):
        said = run(tool, "/usr/bin/time", "-f", "%R", "-o", str(report), *argv).stderr
        assert "ERROR: ld.so" not in said, said
        faults.append(int(report.read_text()))
    # Up to the end of the measured steps, where the driver asks for its processor time: then it
    # gives all its blocks back, and a heap that shrinks is not a steady one.
    steps_only, _, _ = trace.read_text().rpartition("CLOCK_PROCESS_CPUTIME_ID")
    calls = sum(bool(re.match(r"\d+ +\w+\(", line)) for line in steps_only.splitlines())
    assert calls > 0
    return calls, statistics.median(faults)


@pytest.mark.parametrize("slots", BOUNDS)
def test_a_steady_heap_leaves_the_kernel_alone(sides: Sides, slots: int) -> None:
    most_calls, most_faults, runs = BOUNDS[slots]
    warm_calls, warm_faults = cost(sides.hakmem, slots, WARM_STEPS, runs)
    calls, faults = cost(sides.hakmem, slots, WARM_STEPS + STEPS, runs)
    calls, faults = calls - warm_calls, faults - warm_faults
    print(f"{slots} blocks, {STEPS:,} steps: {calls} system calls, {faults:g} page faults")
    assert calls <= most_calls
    assert faults <= most_faults
