"""A soak as JSON (report.py's schema, with the section `soak` beside it) and as tables.

The rows of `results` have one sample an epoch, so that they can be compared like any other; the
section `soak` has what was computed over all epochs, each epoch's figures, and the histograms of
the whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab import report
from hakmem_lab.metrics import number
from hakmem_lab.report import Document, Experiment
from hakmem_lab.schedule import Samples
from hakmem_lab.soak import histogram
from hakmem_lab.soak.analysis import Drift, Summary, summarize
from hakmem_lab.soak.driver import NAME, Epoch
from hakmem_lab.soak.session import Life, Phase, Soak

Summaries = dict[str, Summary]

# What is called a drift of memory in words; and from what length of soak on an hour is spoken of.
DRIFT_PERCENT = 1.0
HOURLY_FROM_SECONDS = 300.0


def summaries_of(soak: Soak) -> Summaries:
    found = {life.allocator.name: summarize(life) for life in soak.lives}
    return {name: summary for name, summary in found.items() if summary is not None}


def document(soak: Soak, experiment: Experiment, summaries: Summaries) -> Document:
    content = report.document(experiment, _samples(soak))
    content["soak"] = {
        "seconds": soak.plan.seconds,
        "epoch_seconds": soak.plan.epoch_seconds,
        "threads": soak.plan.threads,
        "work": soak.plan.load.work,
        "blocks": soak.plan.load.blocks,
        "stretch_steps": soak.steps,
        "checksums_compared": soak.compared,
        "interrupted": soak.interrupted,
        "uncounted": {
            life.allocator.name: life.uncounted for life in soak.lives if life.uncounted is not None
        },
        "allocators": {
            life.allocator.name: _life(life, summaries.get(life.allocator.name))
            for life in soak.lives
        },
    }
    return content


def _samples(soak: Soak) -> Samples:
    samples = Samples()
    for life in soak.lives:
        key = (NAME, life.allocator.name)
        for epoch in life.of(Phase.MEASURED):
            samples.add(key, _metrics(epoch))
        for epoch in life.of(Phase.COUNTED):
            if epoch.calls is not None:
                samples.add(key, {"syscalls_per_op": epoch.calls.total() / epoch.ops})
        if life.failure is not None:
            # What was measured before it failed stays: it is a life that ended, not a wrong sample.
            samples.failures[key] = life.failure
    return samples


def _metrics(epoch: Epoch) -> dict[str, float]:
    metrics = {
        "ns_per_op": epoch.ns_per_op,
        "cpu_ns_per_op": epoch.cpu_ns_per_op,
        "resident_bytes": epoch.memory.resident,
        "page_faults_per_op": (epoch.minor_faults + epoch.major_faults) / epoch.ops,
    }
    for call, figures in (("malloc", epoch.malloc_ns), ("free", epoch.free_ns)):
        for name, value in figures.items():
            metrics[f"{call}_{name.replace('.', '')}_ns"] = value
    return metrics


def _life(life: Life, summary: Summary | None) -> Document:
    epochs = life.of(Phase.MEASURED)
    return {
        "timer": life.timer,
        "summary": None if summary is None else _summary(summary),
        "histograms": {
            "units_per_ns": histogram.UNITS_PER_NS,
            "step_bits": histogram.STEP_BITS,
            "malloc": sorted(histogram.merge(epoch.malloc for epoch in epochs).items()),
            "free": sorted(histogram.merge(epoch.free for epoch in epochs).items()),
        },
        "epochs": [_epoch(phase, epoch) for phase, epoch in life.epochs],
    }


def _summary(summary: Summary) -> Document:
    return {
        **asdict(summary),
        "calls": dict(summary.calls.most_common()),
        "syscalls_per_op": summary.syscalls_per_op,
        "syscalls_per_op_at_most": summary.syscalls_per_op_at_most,
    }


def _epoch(phase: Phase, epoch: Epoch) -> Document:
    row: Document = {
        "phase": phase.value,
        "steps_so_far": epoch.steps_so_far,
        "start_s": epoch.start_ns * 1e-9,
        "seconds": epoch.seconds,
        "ops": epoch.ops,
        "checksum": epoch.checksum,
        "resident_bytes": epoch.memory.resident,
        "proportional_bytes": epoch.memory.proportional,
        "looks_at_memory": epoch.memory.looks,
        "live_bytes": epoch.live_bytes,
        "minor_faults": epoch.minor_faults,
        "major_faults": epoch.major_faults,
        "switches": epoch.switches,
    }
    if phase is Phase.COUNTED:
        row["calls"] = None if epoch.calls is None else dict(epoch.calls.most_common())
    else:
        row["ns_per_op"] = epoch.ns_per_op
        row["cpu_ns_per_op"] = epoch.cpu_ns_per_op
        row["malloc_ns"] = epoch.malloc_ns
        row["free_ns"] = epoch.free_ns
    return row


Rows = list[list[str]]

TAIL_HEADER = ("call", *histogram.PERCENTILES, "timed calls")


def steady_caption(soak: Soak, summaries: Summaries) -> str:
    epochs = max((summary.epochs for summary in summaries.values()), default=0)
    return f"{epochs} epochs of {soak.plan.epoch_seconds:g} s, {soak.plan.threads} threads"


def steady(summaries: Summaries) -> tuple[list[str], Rows]:
    """The header and a row for each allocator; a column that says nothing is left out."""
    columns: dict[str, Callable[[Summary], str]] = {
        "memory": lambda each: f"{each.resident_bytes / 2**20:,.1f} MiB",
        "over live": lambda each: f"{each.resident_bytes / each.live_bytes:.3f}",
        "memory drift": lambda each: _drift(each.resident_drift),
        "per hour": _per_hour,
        "ns per op": lambda each: number(each.ns_per_op),
        "CPU": lambda each: number(each.cpu_ns_per_op),
        "CV": lambda each: _percent(each.ns_per_op_cv),
        "throughput CV": lambda each: _percent(each.throughput_cv),
        "speed drift": lambda each: _drift(each.ns_per_op_drift),
        "faults per op": lambda each: rate(each.page_faults_per_op),
        "calls per op": _calls,
    }
    cells = {
        title: [figure(summary) for summary in summaries.values()]
        for title, figure in columns.items()
    }
    shown = {title: column for title, column in cells.items() if set(column) != {"–"}}
    return ["allocator", *shown], [
        list(row) for row in zip(summaries, *shown.values(), strict=True)
    ]


def tail_rows(summaries: Summaries) -> Rows:
    """Percentiles: a row for malloc and one for free of each allocator."""
    rows = []
    for name, summary in summaries.items():
        for call, figures, samples in (
            ("malloc", summary.malloc_ns, summary.malloc_samples),
            ("free", summary.free_ns, summary.free_samples),
        ):
            cells = [duration(figures[each]) if figures else "–" for each in histogram.PERCENTILES]
            rows.append([f"{name} {call}", *cells, f"{samples:,}"])
    return rows


def notes(soak: Soak) -> list[str]:
    """What the figures lack."""
    lines = [
        f"system calls of {life.allocator.name} were not counted: {life.uncounted}"
        for life in soak.lives
        if life.uncounted is not None
    ]
    if soak.interrupted:
        lines.append("the soak was interrupted before its end")
    return lines


CALLS_HEADER = ("allocator", "operations traced", "system calls")


def calls_rows(summaries: Summaries) -> Rows:
    return [
        [
            name,
            f"{summary.counted_ops:,}",
            ", ".join(f"{call} {count:,}" for call, count in summary.calls.most_common(6))
            or "none",
        ]
        for name, summary in summaries.items()
        if summary.counted_ops
    ]


def tables(console: Console, soak: Soak, summaries: Summaries) -> None:
    console.print(_table(f"Soak: {steady_caption(soak, summaries)}", *steady(summaries)))
    tail = "Latency of a call, over all measured epochs"
    console.print(_table(tail, TAIL_HEADER, tail_rows(summaries)))
    if calls_rows(summaries):
        console.print(_table("System calls, by name", CALLS_HEADER, calls_rows(summaries)))
    for line in notes(soak):
        console.print(f"[yellow]note:[/yellow] {escape(line)}", highlight=False, soft_wrap=True)
    for name, summary in summaries.items():
        console.print(verdict(name, summary), highlight=False, soft_wrap=True)


def _table(title: str, header: Sequence[str], rows: Rows) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column(header[0], no_wrap=True)
    for column in header[1:]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} %"


def _drift(found: Drift | None) -> str:
    if found is None:
        return "–"
    return f"{found.run:+.2f} % ({found.low:+.2f} to {found.high:+.2f})"


def _per_hour(summary: Summary) -> str:
    """Not said of a run too short to speak of hours."""
    if summary.resident_drift is None or summary.seconds < HOURLY_FROM_SECONDS:
        return "–"
    return f"{summary.resident_drift.hour:+.2f} %"


def rate(value: float) -> str:
    """Events per operation: most are rare."""
    return "0" if value == 0 else f"{value:.1e}" if value < 0.01 else f"{value:.3f}"


def duration(ns: float) -> str:
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns:.3g} ns"


def _calls(summary: Summary) -> str:
    found, most = summary.syscalls_per_op, summary.syscalls_per_op_at_most
    if found is None or most is None:
        return "–"
    return rate(found) if found > 0 else f"<{rate(most)}"


def verdict(name: str, summary: Summary) -> str:
    """One allocator's soak in a sentence."""
    drift, variation = summary.resident_drift, summary.ns_per_op_cv
    if drift is None or variation is None:
        return f"{name}: too few epochs to speak of drift; soak longer"
    parts = [
        f"memory {_direction(drift)} ({drift.run:+.2f} % over the run, {drift.low:+.2f} to "
        f"{drift.high:+.2f})",
        f"speed varies by {variation:.2f} % between epochs",
    ]
    if summary.malloc_ns:
        tail = max(summary.malloc_ns["p99.99"], summary.free_ns["p99.99"])
        parts.append(f"1 call in 10,000 takes longer than {duration(tail)}")
    if summary.syscalls_per_op is not None:
        parts.append(f"{_calls(summary)} system calls per operation")
    return f"{name}: {'; '.join(parts)}"


def _direction(drift: Drift) -> str:
    if max(abs(drift.low), abs(drift.high)) < DRIFT_PERCENT:
        return "steady"
    if drift.low <= 0 <= drift.high:
        return "without a drift that could be told from noise"
    return "growing" if drift.run > 0 else "shrinking"
