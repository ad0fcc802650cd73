"""How many instructions does an operation take? A second opinion that no noise can touch.

Callgrind counts every instruction of a run. A benchmark is run in two lengths: their difference is
made of measured steps alone, without start, warm-up and end (but for some hundred instructions:
printing the time takes as many as it has digits). What this does not see is what an
instruction costs: an atomic counts as one, as does a load that misses every cache.

A program that goes by addresses (a set of objects in Python is ordered by them) takes more
instructions in one run than in another, for the heap lies elsewhere in each. Counted several times,
it has an interval, as time has.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import median

import numpy as np

from hakmem_lab import callgrind
from hakmem_lab.ab import paired
from hakmem_lab.ab.builds import Side
from hakmem_lab.ab.workload import Workload
from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.measure import Allocator
from hakmem_lab.options import of_one_length
from hakmem_lab.stats import Estimate

# Divisors of a benchmark's length: the first pair that gives two different ones is taken.
_LENGTHS = ((400, 100), (10, 5))
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Count:
    """Instructions of an operation; of all the program where that has no operations. Each of a was
    counted beside its neighbour of b."""

    all_of_a: tuple[float, ...]
    all_of_b: tuple[float, ...]
    unit: str

    @property
    def a(self) -> float:
        return median(self.all_of_a)

    @property
    def b(self) -> float:
        return median(self.all_of_b)

    @property
    def ratio(self) -> Estimate:
        """Without an interval if there are too few counts for one (six are enough)."""
        logs = np.log(np.asarray(self.all_of_b) / np.asarray(self.all_of_a))
        found = paired.ratio(logs, _CONFIDENCE)
        return found if math.isfinite(found.high) else Estimate(found.value, math.nan, math.nan)


def count(workload: Workload, a: Side, b: Side, times: int) -> Count:
    options = of_one_length(a.options, b.options)
    pairs = [
        tuple(
            _once(workload, Allocator("counted", side.library, options=told))
            for side, told in zip((a, b), options, strict=True)
        )
        for _ in range(times)
    ]
    unit = "operation" if workload.has_operations else "program"
    return Count(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), unit)


def _once(workload: Workload, allocator: Allocator) -> float:
    if workload.has_operations:
        return _of_operation(workload, allocator)
    return _total(workload, allocator)[0]


def _of_operation(workload: Workload, allocator: Allocator) -> float:
    for divisors in _LENGTHS:
        short, long = (
            _total(workload.with_variables({"BENCH_DIVIDE": str(divisor)}), allocator)
            for divisor in divisors
        )
        if long[1] > short[1]:
            return (long[0] - short[0]) / (long[1] - short[1])
    raise RunError(f"{workload.name} has one length only, so its instructions cannot be counted")


def _total(workload: Workload, allocator: Allocator) -> tuple[int, int]:
    """All instructions of a run, and how many operations the driver says it was."""
    assert allocator.library is not None
    workload.make_ready()
    profile = callgrind.profile(workload.name, workload.command, allocator)
    if not profile.executed(allocator.library):
        raise NotMappedError(f"{allocator.library} was not executed under callgrind")
    ops = int(json.loads(profile.stdout)["ops"]) if workload.has_operations else 1
    return profile.total, ops
