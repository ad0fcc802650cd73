"""Calls into the kernel and page faults of a heap in steady state, counted from outside.

Both are counts and not times, so a test may hold them to a bound. What is counted lies between the
two times that the driver reads its processor time, before its measured steps and after them
(bench/tools/count.c): neither the start of a process is in it nor its warm-up.
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

import pytest

from harness import Side, Sides, run

WARM_STEPS = 10_000_000

STEPS = 100_000_000

# Live blocks: system calls and page faults that the steps may cost, and runs whose medians count: of
# a few page faults, each is one class that at last has more blocks than ever.
BOUNDS = {
    256: (0, 10, 3),
    400: (0, 10, 3),
    65_536: (50, 100, 3),
    1_000_000: (200, 400, 1),
}


def cost(side: Side, slots: int) -> tuple[int, int]:
    bench, report = Path(os.environ["HAKMEM_BUILD"]) / "bench", side.root / "counts"
    # Without guard sampling: by chance it gives some blocks other places. What it costs itself is
    # five calls for one in 100,000 blocks that leave refills.
    run(
        Side(side.name, side.root), bench / "count", "-s", report,
        "/usr/bin/env", f"LD_PRELOAD={side.library}", "HAKMEM_OPTIONS=guard_rate=0",
        bench / "random_mixed", str(slots), str(STEPS), str(WARM_STEPS),
    )  # fmt: skip
    counts = json.loads(report.read_text())
    return counts["syscalls"], counts["minor_faults"]


@pytest.mark.parametrize("slots", BOUNDS)
def test_a_steady_heap_leaves_the_kernel_alone(sides: Sides, slots: int) -> None:
    most_calls, most_faults, runs = BOUNDS[slots]
    costs = [cost(sides.hakmem, slots) for _ in range(runs)]
    calls, faults = map(statistics.median, zip(*costs, strict=True))
    print(f"{slots} blocks, {STEPS:,} steps: {calls} system calls, {faults} page faults; {costs}")
    assert calls <= most_calls
    assert faults <= most_faults
