"""Calls into the kernel and page faults of a heap in steady state, counted from outside.

The same run twice, a short one and one of many more steps: what the long one has more is
what its steps cost. Both are counts and not times, so a test may hold them to a bound.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from harness import Side, Sides, run

WARM_STEPS = 10_000_000

# Live blocks: steps, system calls and page faults that they may cost.
BOUNDS = {
    256: (100_000_000, 0, 10),
    400: (100_000_000, 0, 10),
    65_536: (100_000_000, 50, 100),
    1_000_000: (100_000_000, 200, 400),
}


def cost(side: Side, slots: int, steps: int) -> tuple[int, int]:
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
    said = run(tool, "/usr/bin/time", "-f", "%R", "-o", str(report), *argv).stderr
    assert "ERROR: ld.so" not in said, said
    # Up to the end of the measured steps, where the driver asks for its processor time: then it
    # gives all its blocks back, and a heap that shrinks is not a steady one.
    steps_only, _, _ = trace.read_text().rpartition("CLOCK_PROCESS_CPUTIME_ID")
    calls = sum(bool(re.match(r"\d+ +\w+\(", line)) for line in steps_only.splitlines())
    assert calls > 0
    return calls, int(report.read_text())


@pytest.mark.parametrize("slots", BOUNDS)
def test_a_steady_heap_leaves_the_kernel_alone(sides: Sides, slots: int) -> None:
    steps, most_calls, most_faults = BOUNDS[slots]
    warm_calls, warm_faults = cost(sides.hakmem, slots, WARM_STEPS)
    calls, faults = cost(sides.hakmem, slots, WARM_STEPS + steps)
    calls, faults = calls - warm_calls, faults - warm_faults
    print(f"{slots} blocks, {steps:,} steps: {calls} system calls, {faults} page faults")
    assert calls <= most_calls
    assert faults <= most_faults
