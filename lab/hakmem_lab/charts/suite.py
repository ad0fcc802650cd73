"""Many benchmarks at once: each allocator over the subject, on a logarithmic axis.

A row is a benchmark, a mark an allocator: right of the line at 1 it needs more than the subject,
left of it less. Twice as much and half as much are equally far from the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hakmem_lab import metrics
from hakmem_lab.charts.palette import Palette, marker
from hakmem_lab.charts.picture import NARROW, Picture, new_figure
from hakmem_lab.report import View
from hakmem_lab.suites import STUB, in_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 25
_FRAME = 110
# Every second and every third of them are even steps too, and 1 is always among them.
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def over_subject(view: View, metric: str) -> Picture | None:
    """None where there is nothing to compare."""
    subject = view.subject()
    others = [name for name in view.allocators() if name not in (subject, STUB)]
    rows = [
        benchmark
        for benchmark in in_order(view.benchmarks())
        if any(view.ratio_to(benchmark, other, subject, metric) for other in others)
    ]
    if not rows:
        return None
    title = f"{metrics.heading(metric)}: each allocator over {subject}"

    def draw(width: int, colours: Palette) -> Figure:
        figure, axes = new_figure(width, _FRAME + _ROW * len(rows))
        for number in range(0, len(rows), 2):
            axes.axhspan(number - 0.5, number + 0.5, color=colours["band"], lw=0, zorder=0)
        axes.axvline(1, color=colours["hakmem"], linewidth=1.6, zorder=1)
        axes.set_xscale("log")
        for number, other in enumerate(others):
            _marks(axes, view, metric, rows, (other, number, len(others)), colours)
        _ratio_axis(axes, width)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_title(title if width > NARROW else title.replace(": ", ":\n"))
        axes.set_xlabel(
            f"times {subject}'s{'; ' if width > NARROW else chr(10)}"
            f"right of the line {subject} needs less"
        )
        figure.legend(
            loc="outside lower center", ncols=6 if width > NARROW else 3, handletextpad=0.2
        )
        return figure

    return Picture(title, _describe(view, metric, rows, others), draw, wide=True)


def _marks(
    axes: Axes,
    view: View,
    metric: str,
    rows: list[str],
    series: tuple[str, int, int],
    colours: Palette,
) -> None:
    """One allocator's marks, a little above or below the others' in each row."""
    other, number, count = series
    colour = colours.series(other, number)
    shift = 0.62 * ((number + 0.5) / count - 0.5)
    label: str | None = other
    for place, benchmark in enumerate(rows):
        ratio = view.ratio_to(benchmark, other, view.subject(), metric)
        if ratio is None:
            continue
        axes.plot([ratio.low, ratio.high], [place + shift] * 2, color=colour, lw=1.6, zorder=2)
        axes.plot(
            ratio.value, place + shift, marker(other, number), color=colour, markersize=6,
            mew=0.6, mec=colours["card"], label=label, linestyle="none", zorder=3,
        )  # fmt: skip
        label = None


def _ratio_axis(axes: Axes, width: int) -> None:
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.8), max(high, 1.25))
    low, high = axes.get_xlim()
    room = 9 if width > NARROW else 5
    choices = ([t for t in _TICKS[::step] if low <= t <= high] for step in (1, 2, 3, 6))
    ticks = next((choice for choice in choices if len(choice) <= room), [1])
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.grid(axis="x")


def _describe(view: View, metric: str, rows: list[str], others: list[str]) -> str:
    parts = []
    for other in others:
        mean = view.mean_ratio(other, metric)
        if mean is not None:
            parts.append(f"{other} {1 / mean:.2f}")
    return f"{len(rows)} benchmarks. Geometric means over {view.subject()}: {', '.join(parts)}."
