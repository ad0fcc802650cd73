"""The commands of `hakmem`. Each reads its options, hands the work to the modules below it, and
prints. Exit statuses: 0 done, 1 something was measured wrong or failed, 2 something is missing or
the command line is wrong, 3 the library was not mapped into the program, 4 the program failed."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.markup import escape

from hakmem_lab import demo as demonstration
from hakmem_lab import paths, report, results, suites, tables
from hakmem_lab.errors import LabError
from hakmem_lab.measure import OPTIONS_VARIABLE, Allocator, Command, require_program, run, words_of
from hakmem_lab.options import allocator_options, variables_of
from hakmem_lab.peers import install as installer
from hakmem_lab.peers import registry
from hakmem_lab.peers.table import peers_table
from hakmem_lab.schedule import Metrics, Samples, Task, interleave

app = typer.Typer(
    name="hakmem",
    help="Runs programs under HAKMEM and says how it compares with other allocators.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
peers_app = typer.Typer(help="The other allocators: which are here, and how to get them.")
results_app = typer.Typer(help="The project's own published results.", no_args_is_help=True)
app.add_typer(peers_app, name="peers")
app.add_typer(results_app, name="results")

# A file or a pipe has no width; a table in it should not be folded into 80 columns.
WIDTH_OF_A_FILE = 190


def _console(stream: TextIO) -> Console:
    known = stream.isatty() or "COLUMNS" in os.environ
    return Console(file=stream, width=None if known else WIDTH_OF_A_FILE)


out = _console(sys.stdout)
err = _console(sys.stderr)

PASS_ON = {"allow_interspersed_args": False}  # what follows the program's name is the program's

CommandArgument = Annotated[
    list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")
]
ProfileOption = Annotated[
    str | None, typer.Option(metavar="P", help="HAKMEM's profile: speed, balanced or lean.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An option of HAKMEM; may be repeated."),
]
PeersOption = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Allocators beside HAKMEM; default: all that are here."),
]
RunsOption = Annotated[int, typer.Option(min=1, metavar="N", help="Measured runs of each.")]
WarmupOption = Annotated[int, typer.Option(min=0, metavar="N", help="Runs before them, dropped.")]
SeedOption = Annotated[
    int | None, typer.Option(metavar="N", help="Order of the runs; default: another each time.")
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="F", help="Write the results to this file.")
]


def _names(listed: str | None) -> list[str] | None:
    if listed is None:
        return None
    return [name.strip() for name in listed.split(",") if name.strip()]


def _seed(chosen: int | None) -> int:
    return random.SystemRandom().randrange(2**31) if chosen is None else chosen


def _typed() -> str:
    """The command as it was typed, for the record."""
    return words_of(["bin/hakmem" if paths.is_checkout() else "hakmem", *sys.argv[1:]])


@app.command("run", context_settings=PASS_ON)
def run_command(
    command: CommandArgument, profile: ProfileOption = None, settings: SetOption = None
) -> None:
    """Run a program under HAKMEM. The program takes this process's place."""
    require_program(command[0])
    environment = dict(os.environ)
    earlier = environment.get("LD_PRELOAD")
    library = str(paths.library())
    environment["LD_PRELOAD"] = f"{library}:{earlier}" if earlier else library
    chosen = allocator_options(profile, settings or [])
    if chosen:
        kept = environment.get(OPTIONS_VARIABLE)
        environment[OPTIONS_VARIABLE] = f"{kept},{chosen}" if kept else chosen
    os.execvpe(command[0], command, environment)


@app.command("compare", context_settings=PASS_ON)
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
) -> None:
    """Run a program under each allocator, interleaved: time, CPU, peak memory, page faults."""
    require_program(command[0])
    allocators, missing = registry.choose(_names(peers))
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
        _typed(), runs, warmup, _seed(seed), registry.HAKMEM, allocators, missing
    )
    samples = interleave(tasks, runs, warmup, experiment.seed, err)
    view = report.View(report.document(experiment, samples))
    tables.compare(out, view, name, base)
    _finish(view, samples, json)


@app.command("bench")
def bench_command(
    suite: Annotated[str, typer.Option(help=f"One of: {', '.join(suites.SUITES)}.")] = "micro",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME...", help="Only these of the suite.")
    ] = None,
    peers: PeersOption = None,
    runs: RunsOption = 10,
    warmup: WarmupOption = 1,
    profile: ProfileOption = None,
    settings: SetOption = None,
    seed: SeedOption = None,
    json: JsonOption = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="", hidden=True)] = None,
) -> None:
    """Run the built-in workloads under each allocator, interleaved."""
    if suite not in suites.SUITES:
        raise LabError(f"there is no suite '{suite}'; there are: {', '.join(suites.SUITES)}")
    named = [name for item in [*(only or []), *(more or [])] for name in _names(item) or []]
    benchmarks = suites.select(suite, named)
    allocators, missing = registry.choose(_names(peers))
    if peers is None:
        allocators.insert(0, registry.stub())
    allocators.insert(0, registry.hakmem(allocator_options(profile, settings or [])))
    checksums = suites.Checksums()
    tasks = [
        _bench_task(benchmark, allocator, checksums)
        for benchmark in benchmarks
        for allocator in allocators
        if benchmark.fits(allocator.name)
    ]
    experiment = report.Experiment(
        _typed(), runs, warmup, _seed(seed), registry.HAKMEM, allocators, missing
    )
    samples = interleave(tasks, runs, warmup, experiment.seed, err)
    checksums.judge(samples)
    view = report.View(report.document(experiment, samples))
    tables.grid(out, view, "ns_per_op")
    tables.ratios(out, view, registry.HAKMEM, "ns_per_op")
    tables.grid(out, view, "peak_rss_bytes")
    _finish(view, samples, json)


def _bench_task(
    benchmark: suites.Benchmark, allocator: Allocator, checksums: suites.Checksums
) -> Task:
    command = benchmark.command()

    def once() -> Metrics:
        return suites.driver_metrics(benchmark, allocator, run(command, allocator), checksums)

    return Task(benchmark.name, allocator.name, once)


def _finish(view: report.View, samples: Samples, json: Path | None) -> None:
    """Says what is wrong, writes the file, and ends in 1 if a run failed."""
    tables.trouble(out, view)
    if json is not None:
        report.write(json, view.content)
        err.print(f"written: {json}", highlight=False)
    if samples.failures:
        raise typer.Exit(1)


@app.command("demo")
def demo_command(runs: RunsOption = 5, json: JsonOption = None) -> None:
    """Run a real program under HAKMEM and under the system's allocator: time and peak memory."""
    chosen = demonstration.choose()
    allocators = [registry.hakmem(), registry.system()]
    experiment = report.Experiment(
        _typed(), runs, 1, _seed(None), registry.HAKMEM, allocators, missing={}
    )
    tasks = demonstration.tasks(chosen, allocators)
    samples = interleave(tasks, runs, experiment.warmup, experiment.seed, err)
    view = report.View(report.document(experiment, samples))
    tables.compare(out, view, chosen.name, registry.SYSTEM)
    _finish(view, samples, json)


@peers_app.callback(invoke_without_command=True)
def peers_command(context: typer.Context) -> None:
    """List the other allocators, and which of them are here."""
    if context.invoked_subcommand is None:
        out.print(peers_table())


@peers_app.command("install")
def peers_install_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Default: all of them.")
    ] = None,
) -> None:
    """Fetch the other allocators by their public packages; ends in 1 when one could not be had."""
    wanted = [registry.peer(name).name for name in names or []]
    wanted = wanted or [peer.name for peer in registry.PEERS]
    failed = installer.install(wanted, lambda line: err.print(line, highlight=False, markup=False))
    out.print(peers_table())
    for name, reason in failed.items():
        out.print(f"[yellow]missing:[/yellow] {name} ({escape(reason)})")
    if failed:
        raise typer.Exit(1)


@results_app.command("table")
def results_table_command(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; 1 if not up to date.")
    ] = False,
    page: Annotated[Path | None, typer.Option(metavar="F", help="Default: README.md.")] = None,
) -> None:
    """Make the tables of README.md anew from docs/results."""
    page = page or paths.checkout() / "README.md"
    right = results.update(page, paths.results_dir(), check)
    if right:
        out.print(f"{page}: up to date")
    elif check:
        raise LabError(
            f"{page}: its tables are not those of docs/results; run: hakmem results table"
        )
    else:
        out.print(f"{page}: tables made anew")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; an error of the lab is one line and an exit status."""
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="hakmem")
    except LabError as error:
        err.print(f"[red]hakmem:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        err.print("hakmem: interrupted")
        sys.exit(130)
