"""Results as tables for people, on the terminal (rich)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab import metrics, stats, verdicts
from hakmem_lab.difference import Difference, main_metrics
from hakmem_lab.metrics import figure, number
from hakmem_lab.report import View
from hakmem_lab.suites import METRICS, STUB, by_suite, in_order

# Three tables of one program, each narrow enough for a terminal of 80 columns: what it took, what
# it held, what it asked of the kernel. The first two begin with what the verdict is about.
_JUDGED = (("wall_s", "cpu_s"), ("peak_rss_bytes", "avg_pss_bytes"))
_KERNEL = ("page_faults", "context_switches", "syscalls", "memory_syscalls")


def interval(estimate: stats.Estimate) -> str:
    # The blank is one at which no line is broken.
    return f"{estimate.value:.3f}\N{NO-BREAK SPACE}({estimate.low:.3f}–{estimate.high:.3f})"


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
    """One program: a row for each allocator."""
    title = f"[italic]{escape(benchmark)}: medians of {view.content['runs']} runs[/italic]"
    if not view.metrics():
        return  # every run failed
    console.print(title, highlight=False, soft_wrap=True)
    for first, *rest in _JUDGED:
        if first in view.metrics():
            judged_by = {"95 % interval": _interval_of, f"over {base}": _ratio_over(base)}
            console.print(_program_table(view, benchmark, [first, *rest], judged_by))
    if any(metric in view.metrics() for metric in _KERNEL):
        console.print(_program_table(view, benchmark, _KERNEL, {}))
    if "client" in view.content:
        console.print("The time is the client's, all else the server's.", highlight=False)
    for sentence in verdicts.sentences(view, benchmark, base):
        console.print(sentence, highlight=False, soft_wrap=True)


# A cell about a metric of an allocator.
_CellOf = Callable[[View, str, str, str], str]


def _program_table(
    view: View, benchmark: str, names: Sequence[str], about_first: Mapping[str, _CellOf]
) -> Table:
    """A column for each metric that is there; behind the first of them, what is said about it."""
    present = [metric for metric in names if metric in view.metrics()]
    titles = [metrics.title(metric) for metric in present]
    table = _table(None, "allocator", [titles[0], *about_first, *titles[1:]])
    for allocator in view.allocators():
        cells = []
        for metric in present:
            estimate = view.result(benchmark, allocator, metric)
            cells.append("–" if estimate is None else figure(estimate.value, metric))
        about = [say(view, benchmark, allocator, present[0]) for say in about_first.values()]
        table.add_row(allocator, cells[0], *about, *cells[1:])
    return table


def _interval_of(view: View, benchmark: str, allocator: str, metric: str) -> str:
    estimate = view.result(benchmark, allocator, metric)
    return "–" if estimate is None else _spread(estimate, metric)


def _ratio_over(base: str) -> _CellOf:
    return lambda view, benchmark, allocator, metric: judged(
        view.ratio_to(benchmark, allocator, base, metric)
    )


def _spread(estimate: stats.Estimate, metric: str) -> str:
    """Both ends with the unit said once: 787-1,180 ms."""
    low, high = figure(estimate.low, metric), figure(estimate.high, metric)
    if " " in low and low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0]
    return f"{low}–{high}"


def suite(console: Console, view: View) -> None:
    """Many benchmarks: for each suite what they took, how that compares, the memory they held."""
    for name, members in by_suite(view.benchmarks()).items():
        console.rule(f"suite {name}" if name else "other benchmarks", align="left")
        shown = METRICS[name] if name else main_metrics(view.metrics())
        for number_of_table, metric in enumerate(shown):
            grid(console, view, metric, members)
            if number_of_table == 0:
                ratios(console, view, view.subject(), metric, members)


def grid(
    console: Console, view: View, metric: str, benchmarks: Sequence[str] | None = None
) -> None:
    """Many benchmarks: a row for each that has the metric, a column for each allocator."""
    rows = view.with_metric(metric, benchmarks)
    if not rows:
        return
    allocators = view.allocators()
    _, unit = metrics.scale(metric)
    heading = f"{metrics.heading(metric)} in {unit}" if unit else metrics.heading(metric)
    table = _table(heading, "benchmark", allocators)
    for benchmark in in_order(rows):
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
    divisor, _ = metrics.scale(metric)
    lowest = min((value for name, value in values.items() if name != STUB), default=None)
    cells = []
    for allocator in allocators:
        value = values.get(allocator)
        if value is None:
            cells.append("–")
            continue
        text = number(value / divisor)
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
    title = f"{metrics.heading(metric)}: {subject} over the others (95 % interval)"
    table = _table(title, "benchmark", others)
    for benchmark in in_order(rows):
        cells = [judged(view.ratio(benchmark, other, metric)) for other in others]
        table.add_row(benchmark, *cells)
    table.add_section()
    means = (view.mean_ratio_to(subject, other, metric, rows) for other in others)
    table.add_row("geometric mean", *map(judged, means))
    console.print(table)


def trouble(console: Console, view: View) -> None:
    """What is missing, failed or was cut short: never silently left out of a table."""
    if view.content.get("interrupted"):
        console.print("[yellow]interrupted:[/yellow] not all runs were made")
    for note in view.content.get("notes", ()):
        console.print(f"[yellow]note:[/yellow] {escape(note)}", highlight=False, soft_wrap=True)
    for name, reason in view.content["missing"].items():
        console.print(f"[yellow]missing:[/yellow] {name} ({escape(reason)})")
    for failure in view.content["failed"]:
        console.print(
            f"[red]failed:[/red] {escape(failure['benchmark'])} under {failure['allocator']}: "
            f"{escape(failure['reason'])}",
            highlight=False,
            soft_wrap=True,
        )


def changes(console: Console, difference: Difference, metric: str) -> None:
    """New over old: a row for each benchmark, a column for each allocator."""
    title = f"{metrics.heading(metric)}: new over old (95 % interval)"
    table = _table(title, "benchmark", difference.allocators())
    for benchmark in in_order(difference.benchmarks()):
        ratios = [difference.ratio(benchmark, name, metric) for name in difference.allocators()]
        if any(ratios):
            table.add_row(benchmark, *map(judged, ratios))
    table.add_section()
    means = (difference.mean_ratio(name, metric) for name in difference.allocators())
    table.add_row("geometric mean", *("–" if mean is None else f"{mean:.3f}" for mean in means))
    console.print(table)
