"""The rounds: A, A', B, B' in random order, until the question is answered or the time is over.

The four programs of a round are the libraries under names of equal length, since the length of a
name moves the stack. Benchmarks that are answered drop out; the others share the time that is left.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import TextColumn, TimeElapsedColumn

from hakmem_lab.ab import layout
from hakmem_lab.ab.verdict import PROGRAMS, Look, Plan, Verdict, look
from hakmem_lab.ab.workload import Workload, on_processor
from hakmem_lab.errors import RunError
from hakmem_lab.measure import Allocator
from hakmem_lab.options import of_one_length
from hakmem_lab.progress import Bar
from hakmem_lab.suites import Checksums

Decide = Callable[[Look], bool]


@dataclass
class Record:
    """What a benchmark has shown so far."""

    workload: Workload
    rounds: list[tuple[float, ...]] = field(default_factory=list)  # times of PROGRAMS
    look: Look | None = None
    looks: int = 0
    failure: str | None = None

    @property
    def verdict(self) -> Verdict:
        return self.look.verdict if self.look else Verdict.UNKNOWN

    def times(self, program: str) -> list[float]:
        return [times[PROGRAMS.index(program)] for times in self.rounds]


class Programs:
    """Where the four libraries of a round are: the same all the time, or each linked anew."""

    def __init__(
        self,
        folder: Path,
        libraries: tuple[Path, Path],
        links: tuple[layout.Link | None, layout.Link | None] | None,
        generator: random.Random,
        options: tuple[str, str] = ("", ""),
    ) -> None:
        self._links = links
        self._generator = generator
        self._options = of_one_length(*options)
        name = "library.so"
        self._files = [folder / each / name for each in ("a0", "a1", "b0", "b1")]
        for number, file in enumerate(self._files):
            file.parent.mkdir()
            shutil.copy2(libraries[number // 2], file)

    def of_round(self) -> list[Allocator]:
        if self._links is not None:
            for number, file in enumerate(self._files):
                link = self._links[number // 2]
                if link is not None:
                    file.unlink()  # a file that is still mapped must not change
                    layout.shuffle(link, file, self._generator)
        return [
            Allocator(name, file, options=self._options[number // 2])
            for number, (name, file) in enumerate(zip(PROGRAMS, self._files, strict=True))
        ]

    def variables(self) -> Mapping[str, str]:
        return {} if self._links is None else layout.environment_pad(self._generator)


@dataclass(frozen=True)
class Limits:
    """How long a trial may go on."""

    plan: Plan
    seconds: float
    # What ends it: by default a verdict. bisect asks another question of the same look.
    decide: Decide = lambda found: found.is_final


def run(
    workloads: Sequence[Workload],
    programs: Programs,
    limits: Limits,
    generator: random.Random,
    console: Console,
) -> list[Record]:
    """Ends early on Ctrl-C, with what there is."""
    records = [Record(workload) for workload in workloads]
    checksums = Checksums()
    end = time.monotonic() + limits.seconds
    of_most = TextColumn("of at most {task.total:.0f} s")
    with Bar(console, TimeElapsedColumn(), of_most) as progress:
        bar = progress.add_task("warm-up", total=limits.seconds)
        try:
            for record in records:
                _round(record.workload, programs, checksums, generator)  # warm-up, dropped
            while active := [each for each in records if _goes_on(each, limits)]:
                for record in active:
                    if time.monotonic() >= end:
                        return _last_looks(records, limits)
                    _extend(record, programs, checksums, generator, limits)
                    progress.update(
                        bar,
                        completed=limits.seconds - (end - time.monotonic()),
                        description=_describe(record),
                    )
        except KeyboardInterrupt:
            console.print("interrupted: the verdict is of the rounds so far")
            return _last_looks(records, limits)
    return records


def _goes_on(record: Record, limits: Limits) -> bool:
    if record.failure is not None or record.looks >= limits.plan.looks:
        return False
    return record.look is None or not limits.decide(record.look)


def _extend(
    record: Record,
    programs: Programs,
    checksums: Checksums,
    generator: random.Random,
    limits: Limits,
) -> None:
    """One more round, and a look when one is due."""
    try:
        record.rounds.append(_round(record.workload, programs, checksums, generator))
    except RunError as error:
        record.failure = str(error)
        return
    if len(record.rounds) == limits.plan.schedule()[record.looks]:
        _take_look(record, limits.plan)


def _take_look(record: Record, plan: Plan) -> None:
    record.look = look(record.rounds, plan)
    record.looks += 1


def _last_looks(records: list[Record], limits: Limits) -> list[Record]:
    """The time is over: the look that would have been the next one is taken now."""
    for record in records:
        if _goes_on(record, limits) and len(record.rounds) > 1:
            _take_look(record, limits.plan)
    return records


def _round(
    workload: Workload, programs: Programs, checksums: Checksums, generator: random.Random
) -> tuple[float, ...]:
    allocators = programs.of_round()
    processors = sorted(os.sched_getaffinity(0))
    processor = generator.choice(processors) if workload.pinned else None
    times: dict[str, float] = {}
    with on_processor(processor):
        for allocator in generator.sample(allocators, len(allocators)):
            varied = workload.with_variables(programs.variables())
            times[allocator.name] = varied.sample(allocator, checksums)
    return tuple(times[name] for name in PROGRAMS)


def _describe(record: Record) -> str:
    name = escape(record.workload.name)
    if record.look is None:
        return f"{name}: round {len(record.rounds)}"
    effect = record.look.effect
    return (
        f"{name}: round {len(record.rounds)}, B/A {effect.value:.4f} "
        f"({effect.low:.4f}–{effect.high:.4f})"
    )
