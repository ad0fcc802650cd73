"""`hakmem compare`: a program under each allocator."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from hakmem_lab import report, tables
from hakmem_lab.commands.common import (
    CommandArgument,
    HtmlOption,
    JsonOption,
    PeersOption,
    ProfileOption,
    RunsOption,
    SeedOption,
    SetOption,
    WarmupOption,
    err,
    finish,
    names_of,
    out,
    prepare,
    seed_of,
    typed,
)
from hakmem_lab.errors import LabError
from hakmem_lab.measure import Allocator, Command, require_program, run, words_of
from hakmem_lab.options import allocator_options, variables_of
from hakmem_lab.peers import registry
from hakmem_lab.schedule import Metrics, Task, interleave


def compare_command(
    command: CommandArgument,
    peers: PeersOption = None,
    runs: RunsOption = 10,
    warmup: WarmupOption = 1,
    base: Annotated[str, typer.Option(help="The allocator that HAKMEM is set against.")] = "glibc",
    profile: ProfileOption = None,
    settings: SetOption = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="A variable that the program needs."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="S", help="Of one run.")] = 600.0,
    seed: SeedOption = None,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Run a program under each allocator, interleaved: time, CPU, peak memory, page faults."""
    require_program(command[0])
    prepare(json, html)
    allocators, missing = registry.choose(names_of(peers))
    allocators.insert(0, registry.hakmem(allocator_options(profile, settings or [])))
    if base not in [allocator.name for allocator in allocators]:
        raise LabError(f"the base '{base}' is not among the allocators that are compared")
    what = Command(tuple(command), timeout_seconds=timeout, variables=variables_of(env or []))
    label = words_of(command)
    name = label if len(label) <= 60 else f"{label[:57]}..."

    def once(allocator: Allocator) -> Metrics:
        return run(what, allocator).metrics

    tasks = [Task(name, each.name, partial(once, each)) for each in allocators]
    experiment = report.Experiment(
        typed(), runs, warmup, seed_of(seed), registry.HAKMEM, allocators, missing
    )
    samples = interleave(tasks, runs, warmup, experiment.seed, err)
    content = report.document(experiment, samples)
    content["base"] = base
    view = report.View(content)
    tables.compare(out, view, name, base)
    finish(view, samples, json, html)
