"""What is measured under both libraries: a built-in benchmark, a program of the suite, or any
command.

A benchmark is run short and often (BENCH_DIVIDE, see bench/support/driver.h): much of the
difference between two runs of the same program is where the kernel put its memory, which is drawn
anew for each process and stays the same all through it. Its figure is the processor time of an
operation, on one processor that all runs of a round share; that leaves out the time in which others
had it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hakmem_lab import suites
from hakmem_lab.errors import LabError, MissingError, RunError
from hakmem_lab.measure import Allocator, Command, run, words_of
from hakmem_lab.programs.program import Program

DEFAULT = ("pair_64", "random_mixed_400")
COMMAND_METRICS = ("cpu_s", "wall_s", "peak_rss_bytes", "page_faults")
DRIVER_METRICS = ("cpu_ns_per_op", "ns_per_op", *COMMAND_METRICS)
_DIVIDE = 20


@dataclass(frozen=True)
class Workload:
    name: str
    command: Command
    metric: str
    benchmark: suites.AnyBenchmark | None = None
    pinned: bool = False

    @property
    def has_operations(self) -> bool:
        return isinstance(self.benchmark, suites.Benchmark)

    def make_ready(self) -> None:
        """Before each run."""
        if isinstance(self.benchmark, Program):
            self.benchmark.clear()

    def with_variables(self, variables: Mapping[str, str]) -> Workload:
        merged = {**self.command.variables, **variables}
        return replace(self, command=replace(self.command, variables=merged))

    def sample(self, allocator: Allocator, checksums: suites.Checksums) -> float:
        """Runs it once."""
        self.make_ready()
        done = run(self.command, allocator)
        metrics = dict(done.metrics)
        if self.benchmark is not None:
            # Under one name, so that the checksums of A and B must be the same.
            either = replace(allocator, name="A and B")
            metrics |= suites.driver_metrics(self.benchmark, either, done, checksums)
            if self.has_operations:
                # A driver that does not read that clock is measured by the other one.
                metrics.setdefault("cpu_ns_per_op", metrics["ns_per_op"])
        value = metrics[self.metric]
        if value <= 0:
            raise RunError(f"{self.name}: {self.metric} is {value:g}, so there are no ratios")
        return value


def choose(
    words: Sequence[str], metric: str | None, variables: Mapping[str, str], timeout: float
) -> list[Workload]:
    """Names of built-in benchmarks, or of a program of the suite, or else a command; without words
    the usual benchmarks. A program that is called like one of the suite goes by its path."""
    known = {each.name: each for suite in suites.SUITES.values() for each in suite}
    words = words or DEFAULT
    if all(word in known for word in words):
        return [_known_workload(known[word], metric) for word in dict.fromkeys(words)]
    label = words_of(words)
    command = Command(tuple(words), timeout_seconds=timeout, variables=variables)
    name = label if len(label) <= 60 else f"{label[:57]}..."
    return [Workload(name, command, _known(metric or "cpu_s", COMMAND_METRICS))]


def _known_workload(benchmark: suites.AnyBenchmark, metric: str | None) -> Workload:
    if isinstance(benchmark, suites.Benchmark):
        return _built_in(benchmark, metric)
    if (reason := benchmark.missing()) is not None:
        raise MissingError(f"{benchmark.name}: {reason}")
    chosen = _known(metric or "cpu_s", COMMAND_METRICS)
    return Workload(benchmark.name, benchmark.command(), chosen, benchmark)


def _built_in(benchmark: suites.Benchmark, metric: str | None) -> Workload:
    command = replace(benchmark.command(), variables={"BENCH_DIVIDE": str(_DIVIDE)})
    pinned = benchmark in suites.MICRO  # the others have threads
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
