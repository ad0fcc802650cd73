"""The question of `hakmem ab`, and how it is answered, step by step."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from hakmem_lab.ab import instructions, layout, reach, trial
from hakmem_lab.ab.builds import Recipe, Side
from hakmem_lab.ab.verdict import Verdict, overall
from hakmem_lab.ab.workload import Workload
from hakmem_lab.errors import RunError
from hakmem_lab.measure import OPTIONS_VARIABLE


@dataclass(frozen=True)
class Question:
    a: Side
    b: Side
    workloads: Sequence[Workload]
    limits: trial.Limits
    recipe: Recipe
    seed: int
    with_layout: bool = False
    counts: int = 0  # how often instructions are counted


@dataclass
class Answer:
    question: Question
    change: reach.Change
    reached: dict[str, list[reach.Reached]] = field(default_factory=dict)  # by benchmark
    counts: dict[str, instructions.Count] = field(default_factory=dict)
    uncounted: dict[str, str] = field(default_factory=dict)  # why not
    records: list[trial.Record] = field(default_factory=list)

    def executes_the_change(self, workload: Workload) -> bool | None:
        """None: that cannot be told, or no code differs."""
        if workload.name not in self.reached:
            return None
        return any(each.executed for each in self.reached[workload.name])

    @property
    def was_executed(self) -> bool | None:
        told = [self.executes_the_change(each) for each in self.question.workloads]
        return None if None in told else any(told)

    @property
    def verdict(self) -> Verdict:
        return overall([record.verdict for record in self.records])


def answer(question: Question, console: Console) -> Answer:
    a, b = question.a.library, question.b.library
    found = Answer(question, reach.compare(a, b))
    # Which code is executed, the options decide: of two sides that are told different things, both
    # may execute all that differs.
    if found.change.can_be_checked and question.a.options == question.b.options:
        with console.status("which of the changed code is executed?"):
            for each in question.workloads:
                each.make_ready()
                options = question.a.options
                told = each.with_variables({OPTIONS_VARIABLE: options}) if options else each
                found.reached[each.name] = reach.run(found.change, a, b, told.command)
    measured = [each for each in question.workloads if found.executes_the_change(each) is not False]
    if not measured:
        return found
    if question.counts:
        for each in measured:
            with console.status(f"counting the instructions of {each.name}"):
                try:
                    found.counts[each.name] = instructions.count(
                        each, question.a, question.b, question.counts
                    )
                except RunError as error:
                    found.uncounted[each.name] = str(error)
    found.records = _measure(question, measured, console)
    return found


def _measure(
    question: Question, workloads: Sequence[Workload], console: Console
) -> list[trial.Record]:
    generator = random.Random(question.seed)
    links = None
    if question.with_layout:
        with console.status("building in pieces that can be put in any order"):
            links = (
                layout.movable(question.a, question.recipe),
                layout.movable(question.b, question.recipe),
            )
    with tempfile.TemporaryDirectory(prefix="hakmem-ab-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the program may change its user
        programs = trial.Programs(
            folder,
            (question.a.library, question.b.library),
            links,
            generator,
            (question.a.options, question.b.options),
        )
        return trial.run(workloads, programs, question.limits, generator, console)
