"""What is measured under both libraries: a built-in benchmark, or any command.

A benchmark is run short and often (BENCH_DIVIDE, see bench/support/driver.h): much of the
difference between two runs of the same program is where the kernel put its memory, which is drawn
anew for each process and stays the same all through it. Its figure is the processor time of an
operation, on one processor that all runs of a round share; that leaves out the time in which others
had it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hakmem_lab import suites
from hakmem_lab.errors import LabError, RunError
from hakmem_lab.measure import Allocator, Command, run, words_of

DEFAULT = ("pair_64", "random_mixed_400")
COMMAND_METRICS = ("cpu_s", "wall_s", "peak_rss_bytes", "page_faults")
DRIVER_METRICS = ("cpu_ns_per_op", "ns_per_op", *COMMAND_METRICS)
UNITS = {
    "cpu_ns_per_op": "ns",
    "ns_per_op": "ns",
    "cpu_s": "s",
    "wall_s": "s",
    "peak_rss_bytes": "bytes",
    "page_faults": "faults",
}
TITLES = {
    "cpu_ns_per_op": "processor time per operation",
    "ns_per_op": "time per operation",
    "cpu_s": "processor time",
    "wall_s": "time",
    "peak_rss_bytes": "peak memory",
    "page_faults": "page faults",
}
_DIVIDE = 20


@dataclass(frozen=True)
class Workload:
    name: str
    command: Command
    metric: str
    benchmark: suites.Benchmark | None = None
    pinned: bool = False

    def with_variables(self, variables: Mapping[str, str]) -> Workload:
        merged = {**self.command.variables, **variables}
        return replace(self, command=replace(self.command, variables=merged))

    def sample(self, allocator: Allocator, checksums: suites.Checksums) -> float:
        """Runs it once."""
        done = run(self.command, allocator)
        metrics = dict(done.metrics)
        if self.benchmark is not None:
            # Under one name, so that the checksums of A and B must be the same.
            either = replace(allocator, name="A and B")
            own = suites.driver_metrics(self.benchmark, either, done, checksums)
            metrics |= own | _processor_time(done.stdout, own)
        value = metrics[self.metric]
        if value <= 0:
            raise RunError(f"{self.name}: {self.metric} is {value:g}, so there are no ratios")
        return value


def _processor_time(stdout: bytes, own: Mapping[str, float]) -> dict[str, float]:
    """A driver without that clock is measured by the other one."""
    value = float(json.loads(stdout).get("cpu_ns_per_op", 0))
    return {"cpu_ns_per_op": value or own["ns_per_op"]}


def choose(
    words: Sequence[str], metric: str | None, variables: Mapping[str, str], timeout: float
) -> list[Workload]:
    """Names of built-in benchmarks, or else a command; without words the usual benchmarks."""
    known = {each.name: each for suite in suites.SUITES.values() for each in suite}
    words = words or DEFAULT
    if all(word in known for word in words):
        return [_built_in(known[word], metric) for word in dict.fromkeys(words)]
    label = words_of(words)
    command = Command(tuple(words), timeout_seconds=timeout, variables=variables)
    name = label if len(label) <= 60 else f"{label[:57]}..."
    return [Workload(name, command, _known(metric or "cpu_s", COMMAND_METRICS))]


def _built_in(benchmark: suites.Benchmark, metric: str | None) -> Workload:
    command = replace(benchmark.command(), variables={"BENCH_DIVIDE": str(_DIVIDE)})
    pinned = benchmark in suites.SUITES["micro"]  # the others have threads
    chosen = _known(metric or ("cpu_ns_per_op" if pinned else "ns_per_op"), DRIVER_METRICS)
    return Workload(benchmark.name, command, chosen, benchmark, pinned)


def _known(metric: str, metrics: Sequence[str]) -> str:
    if metric not in metrics:
        raise LabError(f"--metric is one of {', '.join(metrics)} here, not '{metric}'")
    return metric


@contextmanager
def on_processor(processor: int | None) -> Iterator[None]:
    """What is started meanwhile stays on this processor; None: wherever the kernel puts it."""
    allowed = os.sched_getaffinity(0)
    if processor is not None:
        os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
