"""What is counted rather than timed, in runs of their own, so that timed runs are not disturbed:
calls into the kernel, from outside (bench/tools/count.c), under every allocator; slow calls and
locks, which HAKMEM counts itself and writes at exit (docs/reference/statistics.md)."""

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
        f"the calls of {benchmark} under {name} could not be counted: {reason}"
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


def per_operation_and_inside(command: Command, allocator: Allocator) -> Metrics:
    """For HAKMEM: the same, and what its statistics say of the slow path."""
    return {**per_operation(command, allocator), **slow_path(command, allocator)}


def slow_path(command: Command, allocator: Allocator) -> Metrics:
    """Calls that left the fast path and locks that they took, per million operations; and how many
    of a thousand such calls met a lock that another thread held. Of the whole process, its start
    and its warm-up included."""
    with measure.work_folder() as directory:
        path = directory / "statistics.json"
        wanted = f"stats=exit:json,stats_file={path}"
        options = f"{allocator.options},{wanted}" if allocator.options else wanted
        done = measure.run(command, replace(allocator, options=options))
        try:
            statistics = json.loads(path.read_text(encoding="utf-8"))
            slow_calls = float(statistics["slow_calls"])
            locks = statistics["locks"].values()
            acquired = float(sum(lock["acquired"] for lock in locks))
            contended = float(sum(lock["contended"] for lock in locks))
            millions = float(json.loads(done.stdout)["ops"]) / 1e6
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"there are no statistics of the slow path: {error!r}") from None
    return {
        "slow_calls_per_mop": slow_calls / millions,
        "locks_per_mop": acquired / millions,
        "contended_per_mop": contended / millions,
        "contended_per_1000_slow": 1000 * contended / max(slow_calls, 1.0),
    }
