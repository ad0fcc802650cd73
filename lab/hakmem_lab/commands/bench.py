"""`hakmem bench`: the built-in workloads under each allocator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from hakmem_lab import report, suites, tables
from hakmem_lab.commands.common import (
    CountOption,
    HtmlOption,
    JsonOption,
    PeersOption,
    ProfileOption,
    ProfilesOption,
    RunsOption,
    SeedOption,
    SetOption,
    VariantsOption,
    WarmupOption,
    err,
    finish,
    names_of,
    out,
    prepare,
    seed_of,
    typed,
)
from hakmem_lab.counting import count_into, per_operation, per_operation_and_inside
from hakmem_lab.measure import Allocator, run
from hakmem_lab.options import allocator_options
from hakmem_lab.peers import registry
from hakmem_lab.schedule import Metrics, Samples, Task, interleave


def bench_command(
    suite: Annotated[
        str | None,
        typer.Option(help=f"One of: {', '.join([*suites.SUITES, suites.ALL])}; default: micro."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME...", help="Only these, of whatever suite.")
    ] = None,
    peers: PeersOption = None,
    runs: RunsOption = 10,
    warmup: WarmupOption = 1,
    profile: ProfileOption = None,
    profiles: ProfilesOption = None,
    variants: VariantsOption = None,
    settings: SetOption = None,
    count: CountOption = 1,
    seed: SeedOption = None,
    json: JsonOption = None,
    html: HtmlOption = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="", hidden=True)] = None,
) -> None:
    """Run the built-in workloads under each allocator, interleaved."""
    named = [name for item in [*(only or []), *(more or [])] for name in names_of(item) or []]
    chosen, absent = suites.present(suites.choose(suite, named), bool(named))
    benchmarks = [benchmark for members in chosen.values() for benchmark in members]
    prepare(json, html)
    allocators, missing = registry.choose(names_of(peers))
    missing |= absent
    if peers is None and any(benchmark.fits(suites.STUB) for benchmark in benchmarks):
        allocators.insert(0, registry.stub())
    allocators[:0] = [
        registry.hakmem(allocator_options(profile, settings or [])),
        *(registry.hakmem_in(each, settings or []) for each in names_of(profiles) or []),
        *(registry.hakmem_with(each, settings or []) for each in variants or []),
    ]
    checksums = suites.Checksums()
    tasks = [
        _bench_task(benchmark, allocator, checksums)
        for benchmark in benchmarks
        for allocator in allocators
        if benchmark.fits(allocator.name)
    ]
    experiment = report.Experiment(
        typed(), runs, warmup, seed_of(seed), registry.HAKMEM, allocators, missing
    )
    with err.status("making the inputs"):
        for benchmark in benchmarks:
            benchmark.make_ready()
    samples = interleave(tasks, runs, warmup, experiment.seed, err)
    checksums.judge(samples)
    notes: list[str] = []
    if count and not samples.interrupted:
        counting = _counting_tasks(benchmarks, allocators, samples)
        notes = count_into(samples, counting, count, experiment.seed, err)
    document = report.document(experiment, samples)
    if notes:
        document["notes"] = notes
    view = report.View(document)
    tables.suite(out, view)
    finish(view, samples, json, html)


def _counting_tasks(
    benchmarks: Sequence[suites.AnyBenchmark], allocators: Sequence[Allocator], samples: Samples
) -> list[Task]:
    """For drivers whose timed runs succeeded: programs have no operations to count by."""

    def counted(benchmark: suites.Benchmark, allocator: Allocator) -> Metrics:
        shows_locks = allocator.name == registry.HAKMEM and benchmark in suites.THREADS
        count = per_operation_and_inside if shows_locks else per_operation
        return count(benchmark.command(), allocator)

    return [
        Task(each.name, allocator.name, partial(counted, each, allocator))
        for each in benchmarks
        if isinstance(each, suites.Benchmark)
        for allocator in allocators
        if (each.name, allocator.name) in samples.values
    ]


def _bench_task(
    benchmark: suites.AnyBenchmark, allocator: Allocator, checksums: suites.Checksums
) -> Task:
    allocator = registry.before_its_own(allocator) if benchmark.brings_malloc else allocator

    def once() -> Metrics:
        done = run(benchmark.command(), allocator)
        return suites.driver_metrics(benchmark, allocator, done, checksums)

    return Task(benchmark.name, allocator.name, once)
