"""`hakmem compare`: a program, or a server with a client, under each allocator."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from hakmem_lab import jobs, report, serve, tables, verdicts
from hakmem_lab.commands.common import (
    CountOption,
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
from hakmem_lab.measure import Command, require_program
from hakmem_lab.options import allocator_options, variables_of
from hakmem_lab.peers import registry

_READY = "When the server is ready: tcp:PORT, unix:PATH, text:WORDS it prints, or listens."


def compare_command(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- CMD...", help="The program and its arguments.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(metavar="CMD", help="A server, measured while --client runs.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(metavar="CMD", help="What is timed against the server.")
    ] = None,
    ready: Annotated[str, typer.Option(metavar="HOW", help=_READY)] = "listens",
    peers: PeersOption = None,
    runs: RunsOption = 10,
    warmup: WarmupOption = 1,
    count: CountOption = 2,
    base: Annotated[str, typer.Option(help="The allocator that all are set against.")] = "glibc",
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
    """Run a program, or a server and its client, under each allocator, interleaved: time, CPU,
    peak and average memory, page faults, context switches, system calls."""
    variables = variables_of(env or [])
    if server is None and client is None:
        job = jobs.program(_command(command or [], timeout, variables))
    elif server is None or client is None or command:
        raise LabError("give either -- CMD, or both --server CMD and --client CMD")
    else:
        serve.check_ready(ready)
        job = jobs.server(
            serve.Service(
                _command(_split("--server", server), timeout, variables),
                _command(_split("--client", client), timeout, variables),
                ready,
            )
        )
    prepare(json, html)
    allocators, missing = registry.choose(names_of(peers))
    allocators.insert(0, registry.hakmem(allocator_options(profile, settings or [])))
    if base not in [allocator.name for allocator in allocators]:
        raise LabError(f"the base '{base}' is not among the allocators that are compared")
    experiment = report.Experiment(
        typed(), runs, warmup, seed_of(seed), registry.HAKMEM, allocators, missing
    )
    samples, notes = jobs.compare(job, experiment, count, err)
    content = report.document(experiment, samples)
    content |= {"base": base, "notes": notes}
    if client is not None:
        content["client"] = client
    view = report.View(content)
    content["verdict"] = " ".join(verdicts.sentences(view, job.name, base))
    tables.compare(out, view, job.name, base)
    finish(view, samples, json, html)


def _command(words: list[str], timeout: float, variables: dict[str, str]) -> Command:
    if not words:
        raise typer.BadParameter("what is to be run? Give -- CMD, or --server CMD --client CMD")
    require_program(words[0])
    return Command(tuple(words), timeout_seconds=timeout, variables=variables)


def _split(option: str, words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        raise LabError(f"{option}: {error}: {words}") from None
