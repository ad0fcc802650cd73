"""`hakmem soak`: a heap that lives long. Does it grow, does it slow down, how late is late?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import TextColumn, TimeElapsedColumn

from hakmem_lab import report, tables
from hakmem_lab.commands.common import (
    HtmlOption,
    JsonOption,
    ProfileOption,
    SeedOption,
    SetOption,
    err,
    names_of,
    out,
    prepare,
    seed_of,
    typed,
)
from hakmem_lab.errors import LabError
from hakmem_lab.metrics import number
from hakmem_lab.options import allocator_options
from hakmem_lab.peers import registry
from hakmem_lab.progress import Bar
from hakmem_lab.soak import picture, result
from hakmem_lab.soak.driver import Epoch, Load, Work
from hakmem_lab.soak.session import Observer, Phase, Plan, Session, epoch_seconds_for, warmup_for

INTERRUPTED = 130
MIXED_MOST_BLOCKS = 10_000_000  # as in bench/soak_work.h


def soak_command(
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Measured time for each allocator, warm-up not counted.")
    ] = 120.0,
    peers: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Allocators that take turns with HAKMEM; or: all."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=64, help="Of each process.")] = 2,
    work: Annotated[
        Work, typer.Option(help="A server's heap, or blocks replaced at random.")
    ] = Work.SERVER,
    blocks: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MIXED_MOST_BLOCKS,
            metavar="N",
            help="With --work mixed: alive in each thread; default: 65,536.",
        ),
    ] = None,
    epoch: Annotated[
        float | None,
        typer.Option(min=0.05, metavar="S", help="Length of an epoch; default: a sixtieth."),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Epochs before the measured ones; default: a tenth."),
    ] = None,
    profile: ProfileOption = None,
    settings: SetOption = None,
    seed: SeedOption = None,
    json: JsonOption = None,
    png: Annotated[
        Path | None, typer.Option(metavar="F", help="Write the picture: .png or .svg.")
    ] = None,
    html: HtmlOption = None,
) -> None:
    """Drive long-lived heaps epoch by epoch: drift, variation, tail latency, system calls."""
    if png is not None and png.suffix not in (".png", ".svg"):
        raise LabError(f"--png writes .png or .svg, not {png.name}")
    if blocks is not None and work is not Work.MIXED:
        raise LabError("--blocks is for --work mixed: a server's heap has as many as it has")
    prepare(json, png, html)
    named = None if peers == "all" else names_of(peers or "")
    allocators, missing = registry.choose(named)
    allocators.insert(0, registry.hakmem(allocator_options(profile, settings or [])))
    length = epoch or epoch_seconds_for(seconds)
    warm = warmup or warmup_for(seconds, length)
    plan = Plan(seconds, length, warm, threads, seed_of(seed), Load(work, blocks))
    with _Bar(err) as bar:
        soak = Session(plan, allocators, bar).run()
    summaries = result.summaries_of(soak)
    rounds = max((summary.epochs for summary in summaries.values()), default=0)
    experiment = report.Experiment(
        typed(), rounds, plan.warmup, plan.seed, registry.HAKMEM, allocators, missing
    )
    content = result.document(soak, experiment, summaries)
    if summaries:
        result.tables(out, soak, summaries)
    tables.trouble(out, report.View(content))
    if json is not None:
        report.write(json, content)
        err.print(f"written: {json}", highlight=False)
    if png is not None and summaries:
        picture.over_time(soak).write(png)
        err.print(f"written: {png}", highlight=False)
    if html is not None and summaries:
        picture.write_page(html, soak, summaries, content)
        err.print(f"written: {html}", highlight=False)
    if soak.interrupted:
        err.print("hakmem: interrupted; what was measured until then is above")
        raise typer.Exit(INTERRUPTED)
    if content["failed"]:
        raise typer.Exit(1)


class _Bar(Observer):
    """A bar by time, with the last epoch's figures of each allocator in turn."""

    def __init__(self, console: Console) -> None:
        self._progress = Bar(
            console,
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[figures]}"),
        )
        self._task = self._progress.add_task("starting", total=1.0, figures="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def at(self, phase: Phase, share: float) -> None:
        self._progress.update(self._task, description=phase.value, completed=share)

    def seen(self, phase: Phase, allocator: str, epoch: Epoch) -> None:
        tail = max(epoch.malloc_ns.get("p99.99", 0.0), epoch.free_ns.get("p99.99", 0.0))
        self._progress.update(
            self._task,
            figures=f"{allocator}: {epoch.memory.resident / 2**20:,.1f} MiB, "
            f"{number(epoch.ns_per_op)} ns, p99.99 {number(tail / 1000)} µs",
        )
