"""Many runs, interleaved.

A machine is not the same machine for ten minutes: clocks change, neighbours come and go. If all
runs of one allocator were followed by all runs of the next, that drift would look like a
difference. So the runs go in rounds; each round has every benchmark once, and each benchmark every
allocator once, in an order that is drawn anew. The first rounds are a warm-up, whose figures are
dropped but whose proofs are not: a wrong library or a wrong checksum ends things early.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.progress import Bar

Key = tuple[str, str]  # benchmark, allocator
Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Task:
    """One benchmark under one allocator; once() runs it one time."""

    benchmark: str
    allocator: str
    once: Callable[[], Metrics]

    @property
    def key(self) -> Key:
        return (self.benchmark, self.allocator)


@dataclass
class Samples:
    """What the runs showed: for each benchmark and allocator, each metric's samples in order."""

    values: dict[Key, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)
    interrupted: bool = False  # by Ctrl-C, before all runs were made

    def add(self, key: Key, metrics: Metrics) -> None:
        samples = self.values.setdefault(key, defaultdict(list))
        for metric, value in metrics.items():
            samples[metric].append(value)

    def fail(self, key: Key, reason: str) -> None:
        """A failed pair has no samples: half of them could be of another program."""
        self.failures[key] = reason
        self.values.pop(key, None)

    def drop_partial(self) -> None:
        """A metric that only some runs of a pair could give stands for those runs only: for the
        longer ones, where short runs have no average memory."""
        for series in self.values.values():
            runs = max(len(values) for values in series.values())
            for metric in [name for name, values in series.items() if len(values) < runs]:
                del series[metric]

    def of(self, benchmark: str, allocator: str, metric: str) -> list[float] | None:
        return self.values.get((benchmark, allocator), {}).get(metric)


def orders(
    benchmarks: Sequence[str], tasks: Iterable[Task], rounds: int, seed: int
) -> list[list[Task]]:
    """The order of the tasks in each round."""
    generator = random.Random(seed)
    by_benchmark: dict[str, list[Task]] = {name: [] for name in benchmarks}
    for task in tasks:
        by_benchmark[task.benchmark].append(task)
    plan = []
    for _ in range(rounds):
        order: list[Task] = []
        for name in generator.sample(list(by_benchmark), len(by_benchmark)):
            order += generator.sample(by_benchmark[name], len(by_benchmark[name]))
        plan.append(order)
    return plan


def interleave(
    tasks: Sequence[Task], runs: int, warmup: int, seed: int, console: Console, what: str = "run"
) -> Samples:
    """Runs every task warmup + runs times. One that fails is dropped with its samples and told in
    failures, and the others go on. A library that is not in the program ends everything in the
    first round, and later, when there are results to lose, counts as a failure. Ctrl-C ends it
    early, with the samples that there are."""
    benchmarks = list(dict.fromkeys(task.benchmark for task in tasks))
    plan = orders(benchmarks, tasks, warmup + runs, seed)
    samples = Samples()
    with Bar(console, MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        bar = progress.add_task("", total=len(tasks) * len(plan))
        try:
            for number, order in enumerate(plan):
                stage = "warm-up" if number < warmup else f"{what} {number - warmup + 1} of {runs}"
                for task in order:
                    progress.update(bar, description=f"{stage}: {task.benchmark}, {task.allocator}")
                    _run_one(task, samples, number, warmup)
                    progress.advance(bar)
        except KeyboardInterrupt:
            if not samples.values:
                raise
            samples.interrupted = True
    samples.drop_partial()
    return samples


def _run_one(task: Task, samples: Samples, number: int, warmup: int) -> None:
    if task.key in samples.failures:
        return
    try:
        metrics = task.once()
    except NotMappedError as error:
        if number == 0:
            raise
        samples.fail(task.key, str(error))
        return
    except RunError as error:
        samples.fail(task.key, str(error))
        return
    if number >= warmup:
        samples.add(task.key, metrics)
