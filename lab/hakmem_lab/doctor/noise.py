"""How quiet the machine is, measured by bench/tools/noise.c, and what that means for comparisons.

A median of n runs has a standard error of about 1.25 s / sqrt(n), where s is the standard deviation
of a run. A comparison has two of them. So for a 95 % interval of half-width h (in the unit of s) it
takes  n = 2 (1.96 * 1.25 s / h)^2  runs a side. s is taken from the middle half of the runs: a few
that were disturbed do not move a median. The work touches no memory; real programs vary more.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hakmem_lab import paths
from hakmem_lab.doctor.finding import Finding, Verdict
from hakmem_lab.errors import RunError

SECONDS = 2
WANTED_PERCENT = 0.5
MOST_RUNS = 500

_QUARTILES_OF_A_BELL = 1.349  # between them lie so many standard deviations
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
_SIDES = 2


@dataclass(frozen=True)
class Noise:
    runs: int
    variation_percent: float  # standard deviation over mean
    typical_percent: float  # the same, from the middle half of the runs
    runs_needed: int  # a side, for WANTED_PERCENT
    interrupted_percent: float  # of the time, by gaps of more than 5 microseconds
    interruptions_per_second: float
    longest_us: float
    clock_ns: float
    steal_percent: float | None  # taken by the host of a virtual machine

    def document(self) -> dict[str, Any]:
        return asdict(self)


def runs_needed(typical_percent: float) -> int:
    error = 1.96 * _MEDIAN_ERROR * typical_percent / WANTED_PERCENT
    return max(5, math.ceil(_SIDES * error * error))


def of_runs(runs: Sequence[float]) -> tuple[float, float]:
    """The variation of all runs and that of the middle half, in percent."""
    low, middle, high = statistics.quantiles(runs, n=4)
    variation = statistics.stdev(runs) / statistics.fmean(runs) * 100
    return variation, (high - low) / _QUARTILES_OF_A_BELL / middle * 100


def steal(before: str | None, after: str | None) -> float | None:
    """The share of stolen time between two readings of /proc/stat, in percent."""
    ticks = []
    for text in (before, after):
        fields = (text or "").partition("\n")[0].split()
        if len(fields) < 9 or fields[0] != "cpu":
            return None
        ticks.append([int(field) for field in fields[1:9]])
    passed = [late - early for early, late in zip(*ticks, strict=True)]
    return passed[7] / sum(passed) * 100 if sum(passed) > 0 else None


def measure() -> Noise:
    tool = paths.tool("noise")
    stat = Path("/proc/stat")
    before = stat.read_text(encoding="ascii")
    done = subprocess.run(
        [str(tool), str(SECONDS)], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise RunError(f"the noise could not be measured: {done.stderr.strip()}")
    stolen = steal(before, stat.read_text(encoding="ascii"))
    return read(json.loads(done.stdout), stolen)


def read(line: dict[str, Any], stolen: float | None) -> Noise:
    variation, typical = of_runs(line["run_ns"])
    return Noise(
        runs=len(line["run_ns"]),
        variation_percent=variation,
        typical_percent=typical,
        runs_needed=runs_needed(typical),
        interrupted_percent=line["interrupted_ns"] / line["watched_ns"] * 100,
        interruptions_per_second=line["interruptions"] / (line["watched_ns"] * 1e-9),
        longest_us=line["longest_ns"] / 1000,
        clock_ns=line["clock_ns"],
        steal_percent=stolen,
    )


def findings(noise: Noise) -> list[Finding]:
    found = [_variation(noise), _interruptions(noise), _clock(noise)]
    if noise.steal_percent is not None and noise.steal_percent > 0:
        means = "the host of this virtual machine gave its time to others"
        verdict = Verdict.WARN if noise.steal_percent > 1 else Verdict.NOTE
        found.append(Finding("stolen time", f"{noise.steal_percent:.1f} %", verdict, means))
    return found


def _variation(noise: Noise) -> Finding:
    seen = f"{noise.typical_percent:.2f} % typical, {noise.variation_percent:.2f} % in all"
    means = (
        f"to tell programs apart by ±{WANTED_PERCENT} %, compare needs at least "
        f"{noise.runs_needed:,} runs of each"
    )
    if noise.typical_percent < 1:
        return Finding("same work, again", seen, Verdict.OK, means)
    if noise.runs_needed > MOST_RUNS:
        means += ": too many; let the machine come to rest, or pin the benchmark (taskset)"
        return Finding("same work, again", seen, Verdict.WARN, means)
    command = f"hakmem compare --runs {noise.runs_needed} -- PROGRAM"
    return Finding("same work, again", seen, Verdict.NOTE, means, command)


def _interruptions(noise: Noise) -> Finding:
    seen = (
        f"{noise.interruptions_per_second:,.0f} a second, {noise.interrupted_percent:.2f} % of the "
        f"time, the longest {noise.longest_us:,.0f} µs"
    )
    if noise.interrupted_percent > 1 or noise.longest_us > 5000:
        means = "something else had the processor: p99.99 and maxima are of the machine"
        command = "ps -eo pid,pcpu,args --sort -pcpu | head"
        return Finding("interruptions", seen, Verdict.WARN, means, command)
    return Finding("interruptions", seen, Verdict.OK, "what latencies hold beside the allocator's")


def _clock(noise: Noise) -> Finding:
    seen = f"{noise.clock_ns:.0f} ns a reading"
    if noise.clock_ns > 150:
        means = "each reading is a system call: single calls cannot be timed well"
        command = "cat /sys/devices/system/clocksource/clocksource0/available_clocksource"
        return Finding("clock", seen, Verdict.WARN, means, command)
    return Finding("clock", seen, Verdict.OK, "read without a system call")
