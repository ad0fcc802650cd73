"""One program under several allocators, one metric: a row for each allocator.

The large dot is the median, the bar its 95 % interval, the faint dots are the samples. The axis
does not begin at 0, as it would for bars: what counts is how far apart the rows are against how
wide they are. The dashed line stands at the base's median.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hakmem_lab import metrics
from hakmem_lab.charts.palette import Palette
from hakmem_lab.charts.picture import Picture, new_figure
from hakmem_lab.report import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 25
_FRAME = 74
# Beyond that, rows would crowd at one end of a linear axis.
_LOGARITHMIC_FROM = 8.0


def spread(view: View, benchmark: str, metric: str, base: str) -> Picture:
    """The rows of one metric; allocators without it are left out."""
    rows = [name for name in view.allocators() if view.result(benchmark, name, metric) is not None]
    title = metrics.heading(metric)

    def draw(width: int, colours: Palette) -> Figure:
        figure, axes = new_figure(width, _FRAME + _ROW * len(rows))
        divisor, unit = metrics.scale(metric)
        for number, name in enumerate(rows):
            _row(axes, view, (benchmark, name, metric), len(rows) - 1 - number, divisor, colours)
        reference = view.result(benchmark, base, metric)
        if reference is not None:
            axes.axvline(reference.value / divisor, color=colours["muted"], lw=1, ls=(0, (3, 3)))
        _scale_axis(axes, [v for name in rows for v in view.samples(benchmark, name, metric)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_yticks(range(len(rows)), list(reversed(rows)))
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() == view.subject() else "normal")
        axes.set_title(f"{title}{f', {unit}' if unit else ''}")
        axes.grid(axis="x")
        return figure

    return Picture(title, _describe(view, benchmark, metric, rows), draw)


def _row(
    axes: Axes,
    view: View,
    key: tuple[str, str, str],
    place: int,
    divisor: float,
    colours: Palette,
) -> None:
    estimate = view.result(*key)
    assert estimate is not None
    name, metric = key[1], key[2]
    colour = colours["hakmem"] if name == view.subject() else colours["glibc"]
    samples = [value / divisor for value in view.samples(*key)]
    # Spread a little, always alike, so that equal samples do not hide each other.
    heights = [place + 0.16 * ((number * 7) % 5 - 2) / 2 for number in range(len(samples))]
    axes.scatter(samples, heights, s=14, color=colour, alpha=0.38, linewidths=0)
    low, value, high = (x / divisor for x in (estimate.low, estimate.value, estimate.high))
    axes.plot([low, high], [place, place], color=colour, linewidth=3.5, solid_capstyle="round")
    axes.plot(value, place, "o", color=colour, markersize=8.5, mew=1.5, mec=colours["card"])
    text = metrics.figure(estimate.value, metric)
    axes.annotate(
        text, (1, place), xycoords=("axes fraction", "data"), xytext=(6, 0),
        textcoords="offset points", va="center", ha="left",
        fontweight="bold" if name == view.subject() else "normal",
    )  # fmt: skip


def _scale_axis(axes: Axes, values: Sequence[float]) -> None:
    from matplotlib.ticker import MaxNLocator, NullFormatter

    if min(values) > 0 and max(values) / min(values) > _LOGARITHMIC_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
        if min(values) == max(values):  # no range at all: some air on both sides
            middle = axes.dataLim.x0
            axes.set_xlim(middle * 0.95 - 0.1, middle * 1.05 + 0.1)
            return
    axes.margins(x=0.06)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def _describe(view: View, benchmark: str, metric: str, rows: Sequence[str]) -> str:
    parts = []
    for name in rows:
        estimate = view.result(benchmark, name, metric)
        if estimate is not None:
            low, middle, high = (
                metrics.figure(value, metric)
                for value in (estimate.low, estimate.value, estimate.high)
            )
            parts.append(f"{name} {middle} ({low} to {high})")
    return f"Medians with 95 % intervals: {', '.join(parts)}."
