"""Results as tables for people, on the terminal (rich)."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab import stats
from hakmem_lab.report import UNITS, View
from hakmem_lab.suites import STUB, in_order

TITLES = {
    "ns_per_op": "time per operation",
    "wall_s": "time",
    "cpu_s": "CPU time",
    "peak_rss_bytes": "peak memory",
    "page_faults": "page faults",
    "average_rss_bytes": "average resident memory",
    "rss_after_100ms_bytes": "resident 0.1 s after",
    "rss_after_bytes": "resident after the work",
    "rss_after_2s_bytes": "resident 2 s after",
    "private_bytes": "memory of one more process",
    "thread_bytes": "memory of one more thread",
    "fragmentation": "resident over live memory",
}

# What a column of figures is in, and what a value is multiplied with to be shown so.
_SHOWN = {"ns": ("ns", 1.0), "s": ("ms", 1e3), "bytes": ("MiB", 2.0**-20)}
_SMALL = {"thread_bytes", "private_bytes"}


def shown(metric: str) -> tuple[str, float]:
    if metric in _SMALL:
        return "KiB", 2.0**-10
    return _SHOWN.get(UNITS[metric], ("", 1.0))


def heading(metric: str) -> str:
    """What a table of this metric is about: "peak memory in MiB"."""
    unit, _ = shown(metric)
    return f"{TITLES[metric]} in {unit}" if unit else TITLES[metric]


def figure(value: float, metric: str) -> str:
    """Three digits that matter, in the unit that people expect."""
    if UNITS[metric] == "bytes":
        unit, factor = shown(metric)
        return f"{value * factor:,.1f} {unit}"
    if metric == "page_faults":
        return f"{value:,.0f}"
    if UNITS[metric] == "s":
        return f"{value:,.1f} s" if value >= 100 else f"{number(value * 1000)} ms"
    return number(value)


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def interval(estimate: stats.Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


def judged(estimate: stats.Estimate | None) -> str:
    """A ratio, green when all of its interval is below 1, red when all is above."""
    if estimate is None:
        return "–"
    colour = "green" if estimate.high < 1 else "red" if estimate.low > 1 else "default"
    return f"[{colour}]{interval(estimate)}[/{colour}]"


def _table(title: str, first: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def compare(console: Console, view: View, benchmark: str, base: str) -> None:
    """One program: a row for each allocator, with its time against the base's."""
    metrics = ("wall_s", "cpu_s", "peak_rss_bytes", "page_faults")
    columns = [TITLES[metric] for metric in metrics]
    table = _table(
        f"{escape(benchmark)}: medians of {view.content['runs']} runs",
        "allocator",
        [columns[0], "95 % interval", *columns[1:]],
    )
    for allocator in view.allocators():
        cells = [allocator]
        for metric in metrics:
            estimate = view.result(benchmark, allocator, metric)
            cells.append("–" if estimate is None else figure(estimate.value, metric))
            if metric == "wall_s":
                cells.append("–" if estimate is None else _spread(estimate, metric))
        table.add_row(*cells)
    console.print(table)
    sentence = verdict(view, benchmark, base)
    if sentence:
        console.print(sentence)


def _spread(estimate: stats.Estimate, metric: str) -> str:
    """Both ends with the unit said once: 787-1,180 ms."""
    low, high = figure(estimate.low, metric), figure(estimate.high, metric)
    if low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0]
    return f"{low}–{high}"


def verdict(view: View, benchmark: str, base: str) -> str | None:
    """What the table says about HAKMEM, in one sentence."""
    if view.content["runs"] < 2:
        return "One run says nothing about the next: no verdict."
    time = view.ratio(benchmark, base, "wall_s")
    memory = view.ratio(benchmark, base, "peak_rss_bytes")
    if time is None or memory is None:
        return None  # one of the two failed, or HAKMEM is itself the base
    return (
        f"hakmem against {base}: {_change(time, 'faster', 'slower', 'as fast')}, "
        f"{_change(memory, 'smaller', 'larger', 'as large')}"
    )


def _change(ratio: stats.Estimate, better: str, worse: str, equal: str) -> str:
    """Ratios as changes: 0.93 (0.91-0.95) is 7 % less (5-9 %)."""
    low, high = (ratio.low - 1) * 100, (ratio.high - 1) * 100
    if low <= 0 <= high:
        return f"{equal} within the noise ({low:+.1f} to {high:+.1f} %)"
    word = better if ratio.value < 1 else worse
    ends = sorted((abs(low), abs(high)))
    return f"{abs(ratio.value - 1) * 100:.1f} % {word} ({ends[0]:.1f}–{ends[1]:.1f} %)"


def grid(
    console: Console, view: View, metric: str, benchmarks: Sequence[str] | None = None
) -> None:
    """Many benchmarks: a row for each that has the metric, a column for each allocator."""
    rows = view.with_metric(metric, benchmarks)
    if not rows:
        return
    allocators = view.allocators()
    table = _table(_capital(heading(metric)), "benchmark", allocators)
    for benchmark in in_order(rows):
        table.add_row(benchmark, *grid_cells(view, benchmark, allocators, metric, "bold"))
    console.print(table)


def _capital(text: str) -> str:
    """Only the first letter: the rest may hold names of units."""
    return text[:1].upper() + text[1:]


def grid_cells(
    view: View, benchmark: str, allocators: Sequence[str], metric: str, best: str
) -> list[str]:
    """Medians of a row; the lowest of the allocators is set off, in rich's or Markdown's way."""
    estimates = [view.result(benchmark, allocator, metric) for allocator in allocators]
    values = {
        allocator: estimate.value
        for allocator, estimate in zip(allocators, estimates, strict=True)
        if estimate is not None
    }
    _, factor = shown(metric)
    lowest = min((value for name, value in values.items() if name != STUB), default=None)
    cells = []
    for allocator in allocators:
        value = values.get(allocator)
        if value is None:
            cells.append("–")
            continue
        text = number(value * factor)
        if value == lowest and allocator != STUB:
            text = f"**{text}**" if best == "markdown" else f"[bold]{text}[/bold]"
        cells.append(text)
    return cells


def ratios(
    console: Console,
    view: View,
    subject: str,
    metric: str,
    benchmarks: Sequence[str] | None = None,
) -> None:
    """The subject over each other allocator: below 1 is better, green when it is sure."""
    rows = view.with_metric(metric, benchmarks)
    others = [name for name in view.allocators() if name != subject]
    if not rows or not others or subject not in view.allocators():
        return
    if view.content["runs"] < 2:
        console.print("One run says nothing about the next: no ratios.")
        return
    title = f"{_capital(TITLES[metric])}: {subject} over the others (95 % interval)"
    table = _table(title, "benchmark", others)
    for benchmark in in_order(rows):
        cells = [judged(view.ratio(benchmark, other, metric)) for other in others]
        table.add_row(benchmark, *cells)
    table.add_section()
    table.add_row("geometric mean", *(_mean(view, other, metric, rows) for other in others))
    console.print(table)


def _mean(view: View, other: str, metric: str, benchmarks: Sequence[str]) -> str:
    found = [view.ratio(benchmark, other, metric) for benchmark in benchmarks]
    values = [estimate.value for estimate in found if estimate is not None]
    return f"{stats.geometric_mean(values):.3f}" if values else "–"


def trouble(console: Console, view: View) -> None:
    """What is missing and what failed: never silently left out of a table."""
    for name, reason in view.content["missing"].items():
        console.print(f"[yellow]missing:[/yellow] {name} ({escape(reason)})")
    for failure in view.content["failed"]:
        console.print(
            f"[red]failed:[/red] {escape(failure['benchmark'])} under {failure['allocator']}: "
            f"{escape(failure['reason'])}",
            highlight=False,
            soft_wrap=True,
        )
