"""`hakmem demo`: a real program under HAKMEM and under the system's allocator."""

from __future__ import annotations

from hakmem_lab import demo as demonstration
from hakmem_lab import report, tables
from hakmem_lab.commands.common import (
    HtmlOption,
    JsonOption,
    RunsOption,
    err,
    finish,
    out,
    prepare,
    seed_of,
    typed,
)
from hakmem_lab.peers import registry
from hakmem_lab.schedule import interleave


def demo_command(runs: RunsOption = 5, json: JsonOption = None, html: HtmlOption = None) -> None:
    """Run a real program under HAKMEM and under the system's allocator: time and peak memory."""
    prepare(json, html)
    chosen = demonstration.choose()
    allocators = [registry.hakmem(), registry.system()]
    experiment = report.Experiment(
        typed(), runs, 1, seed_of(None), registry.HAKMEM, allocators, missing={}
    )
    tasks = demonstration.tasks(chosen, allocators)
    samples = interleave(tasks, runs, experiment.warmup, experiment.seed, err)
    view = report.View(report.document(experiment, samples))
    tables.compare(out, view, chosen.name, registry.SYSTEM)
    finish(view, samples, json, html)
