"""Results as tables for people, on the terminal (rich)."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab import metrics, stats, verdicts
from hakmem_lab.metrics import figure, number
from hakmem_lab.report import View
from hakmem_lab.suites import STUB, in_order

# Two tables of one program: narrow enough for a terminal of 80 columns each.
_TIME = ("wall_s", "cpu_s", "context_switches")
_MEMORY = ("peak_rss_bytes", "avg_pss_bytes", "page_faults", "syscalls")


def interval(estimate: stats.Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


def judged(estimate: stats.Estimate | None) -> str:
    """A ratio, green when all of its interval is below 1, red when all is above."""
    if estimate is None:
        return "–"
    colour = "green" if estimate.high < 1 else "red" if estimate.low > 1 else "default"
    return f"[{colour}]{interval(estimate)}[/{colour}]"


def _table(title: str | None, first: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def compare(console: Console, view: View, benchmark: str, base: str) -> None:
    """One program: a row for each allocator; what it took, and what it held and asked for."""
    title = f"[italic]{escape(benchmark)}: medians of {view.content['runs']} runs[/italic]"
    console.print(title, highlight=False, soft_wrap=True)
    for group in (_TIME, _MEMORY):
        present = [metric for metric in group if metric in view.metrics()]
        if present:
            console.print(_program_table(view, benchmark, base, present))
    for sentence in verdicts.sentences(view, benchmark, base):
        console.print(sentence, highlight=False, soft_wrap=True)


def _program_table(view: View, benchmark: str, base: str, names: Sequence[str]) -> Table:
    """The first metric with its interval and its ratio to the base's."""
    first, rest = names[0], names[1:]
    columns = [metrics.title(first), "95 % interval", f"over {base}", *map(metrics.title, rest)]
    table = _table(None, "allocator", columns)
    for allocator in view.allocators():
        estimate = view.result(benchmark, allocator, first)
        ratio = view.ratio_to(benchmark, allocator, base, first)
        cells = ["–", "–"]
        if estimate is not None:
            cells = [figure(estimate.value, first), _spread(estimate, first)]
        others = [view.result(benchmark, allocator, metric) for metric in rest]
        table.add_row(
            allocator,
            *cells,
            judged(ratio),
            *(
                "–" if other is None else figure(other.value, metric)
                for other, metric in zip(others, rest, strict=True)
            ),
        )
    return table


def _spread(estimate: stats.Estimate, metric: str) -> str:
    """Both ends with the unit said once: 787-1,180 ms."""
    low, high = figure(estimate.low, metric), figure(estimate.high, metric)
    if " " in low and low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0]
    return f"{low}–{high}"


def grid(console: Console, view: View, metric: str) -> None:
    """Many benchmarks: a row for each, a column for each allocator."""
    allocators = view.allocators()
    unit = {"ns_per_op": " in ns", "peak_rss_bytes": " in MiB"}.get(metric, "")
    table = _table(f"{metrics.heading(metric)}{unit}", "benchmark", allocators)
    for benchmark in in_order(view.benchmarks()):
        table.add_row(benchmark, *grid_cells(view, benchmark, allocators, metric, "bold"))
    console.print(table)


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
    lowest = min((value for name, value in values.items() if name != STUB), default=None)
    cells = []
    for allocator in allocators:
        value = values.get(allocator)
        if value is None:
            cells.append("–")
            continue
        text = number(value / 2**20 if metric == "peak_rss_bytes" else value)
        if value == lowest and allocator != STUB:
            text = f"**{text}**" if best == "markdown" else f"[bold]{text}[/bold]"
        cells.append(text)
    return cells


def ratios(console: Console, view: View, subject: str, metric: str) -> None:
    """The subject over each other allocator: below 1 is better, green when it is sure."""
    others = [name for name in view.allocators() if name != subject]
    if not others or subject not in view.allocators():
        return
    title = f"{metrics.heading(metric)}: {subject} over the others (95 % interval)"
    table = _table(title, "benchmark", others)
    for benchmark in in_order(view.benchmarks()):
        cells = [judged(view.ratio(benchmark, other, metric)) for other in others]
        table.add_row(benchmark, *cells)
    table.add_section()
    table.add_row("geometric mean", *(_mean(view, other, metric) for other in others))
    console.print(table)


def _mean(view: View, other: str, metric: str) -> str:
    mean = view.mean_ratio(other, metric)
    return "–" if mean is None else f"{mean:.3f}"


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
