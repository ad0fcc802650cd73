"""Calls into the kernel, counted from outside (bench/tools/count.c) in runs of their own: counting
slows a program down, so those runs are not timed, and timed runs are not counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from hakmem_lab import measure
from hakmem_lab.errors import RunError
from hakmem_lab.measure import Allocator, Command
from hakmem_lab.schedule import Metrics, Samples, Task, interleave

_DIVIDE = 2


def count_into(
    samples: Samples, tasks: Sequence[Task], rounds: int, seed: int, console: Console
) -> list[str]:
    """Adds to the samples what counting runs give; notes on those that failed, whose timed samples
    stay."""
    try:
        counts = interleave(tasks, rounds, 0, seed, console, "count")
    except KeyboardInterrupt:  # before the first count
        counts = Samples(interrupted=True)
    for key, series in counts.values.items():
        samples.values[key] |= series
    samples.interrupted = counts.interrupted
    return [
        f"the system calls of {benchmark} under {name} could not be counted: {reason}"
        for (benchmark, name), reason in counts.failures.items()
    ]


def per_operation(command: Command, allocator: Allocator) -> Metrics:
    """System calls of a driver's operation: what a run has more than one of half as many, so that
    the start and the end of the process are not among them; of all the process where the driver
    cannot be shortened."""
    calls, ops = _counted(command, allocator, 1)
    fewer_calls, fewer_ops = _counted(command, allocator, _DIVIDE)
    if fewer_ops < ops:
        return {"syscalls_per_op": max(calls - fewer_calls, 0.0) / (ops - fewer_ops)}
    return {"syscalls_per_op": calls / ops}


def _counted(command: Command, allocator: Allocator, divisor: int) -> tuple[float, float]:
    variables = {**command.variables, "BENCH_DIVIDE": str(divisor)}
    counts, stdout = measure.counted(replace(command, variables=variables), allocator)
    try:
        return counts["syscalls"], float(json.loads(stdout)["ops"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"the driver printed no number of operations: {error!r}") from None
