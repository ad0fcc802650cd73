"""`hakmem instructions`: what an operation executes inside the allocator, revision by revision."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab import instructions, report, suites, tables
from hakmem_lab.ab import builds
from hakmem_lab.commands.ab import recipe_of, side_of
from hakmem_lab.commands.common import (
    JsonOption,
    RunsOption,
    err,
    finish,
    names_of,
    out,
    prepare,
    typed,
)
from hakmem_lab.errors import LabError
from hakmem_lab.measure import Allocator
from hakmem_lab.peers import registry
from hakmem_lab.schedule import Task, interleave


def instructions_command(
    sides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[REV...]", help="Libraries, folders, revisions; default: this."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Benchmarks; default: the micro suite.")
    ] = None,
    runs: RunsOption = 3,
    json: JsonOption = None,
    add: Annotated[
        Path | None, typer.Option(metavar="F", help="Add the figures to those of a JSON file.")
    ] = None,
) -> None:
    """Count what an operation executes in malloc and free, and in all else of the library."""
    if json is not None and add is not None:
        raise LabError("--json writes a new file, --add adds to one: which is it?")
    target = json or add
    prepare(target)
    kept = report.read(add) if add is not None and add.exists() else None
    chosen = suites.choose("micro" if only is None else None, names_of(only) or [])
    benchmarks = [each for members in chosen.values() for each in members]
    columns = _columns(sides or [])
    tasks = []
    for benchmark in benchmarks:
        if not isinstance(benchmark, suites.Benchmark):
            raise LabError(f"{benchmark.name} is a program: it has no operations to count by")
        tasks += [
            Task(benchmark.name, each.name, partial(instructions.count, benchmark, each))
            for each in columns
        ]
    samples = interleave(tasks, runs, 0, 0, err, "count")
    experiment = report.Experiment(typed(), runs, 0, 0, columns[-1].name, columns, {})
    document = report.document(experiment, samples)
    if kept is not None:
        document = instructions.added_to(kept, document)
    view = report.View(document)
    for metric in (instructions.FAST, instructions.SLOW):
        tables.grid(out, view, metric)
    finish(view, samples, target, None)


def _columns(words: list[str]) -> list[Allocator]:
    if not words:
        return [registry.hakmem("")]
    recipe = recipe_of(None, builds.Recipe.command, builds.Recipe.library)
    found = [side_of(word, recipe) for word in words]
    return [
        Allocator(
            side.commit[:7] if side.commit else side.word,
            side.library,
            version=builds.date_of(side.commit, recipe.repository) if side.commit else "",
            origin=side.origin,
        )
        for side in found
    ]
