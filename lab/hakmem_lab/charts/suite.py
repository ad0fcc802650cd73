"""Many benchmarks at once: ratios on a logarithmic axis, a row a benchmark, a mark an allocator.

Right of the line at 1 is more, left of it less; twice as much and half as much are equally far
from the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hakmem_lab import metrics, stats
from hakmem_lab.charts.palette import Palette, marker
from hakmem_lab.charts.picture import NARROW, Picture, new_figure
from hakmem_lab.difference import Difference
from hakmem_lab.report import View
from hakmem_lab.suites import STUB, in_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 25
_FRAME = 110
# Every second and every third of them are even steps too, and 1 is always among them.
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class _Ratios:
    """What a chart shows: of(row, name) for the marks, and words for the line at 1."""

    title: str
    axis: str
    side: str
    rows: Sequence[str]
    names: Sequence[str]
    of: Callable[[str, str], stats.Estimate | None]


def over_subject(view: View, metric: str) -> Picture | None:
    """Each allocator over the subject; None where there is nothing to compare."""
    subject = view.subject()
    ratios = _Ratios(
        f"{metrics.heading(metric)}: each allocator over {subject}",
        f"times {subject}'s",
        f"right of the line {subject} needs less",
        in_order(view.benchmarks()),
        [name for name in view.allocators() if name not in (subject, STUB)],
        lambda benchmark, other: view.ratio_to(benchmark, other, subject, metric),
    )
    return _picture(ratios)


def new_over_old(difference: Difference, metric: str) -> Picture | None:
    """Each allocator's newer result over its older one."""
    ratios = _Ratios(
        f"{metrics.heading(metric)}: new over old",
        "times the older result",
        "left of the line the newer one is better",
        in_order(difference.benchmarks()),
        difference.allocators(),
        lambda benchmark, name: difference.ratio(benchmark, name, metric),
    )
    return _picture(ratios)


def _picture(ratios: _Ratios) -> Picture | None:
    rows = [row for row in ratios.rows if any(ratios.of(row, name) for name in ratios.names)]
    if not rows:
        return None

    def draw(width: int, colours: Palette) -> Figure:
        wide = width > NARROW
        figure, axes = new_figure(width, _FRAME + _ROW * len(rows))
        for number in range(0, len(rows), 2):
            axes.axhspan(number - 0.5, number + 0.5, color=colours["band"], lw=0, zorder=0)
        axes.axvline(1, color=colours["hakmem"], linewidth=1.6, zorder=1)
        axes.set_xscale("log")
        for number in range(len(ratios.names)):
            _marks(axes, ratios, rows, number, colours)
        _ratio_axis(axes, width)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_title(ratios.title if wide else ratios.title.replace(": ", ":\n"))
        axes.set_xlabel(f"{ratios.axis}{'; ' if wide else chr(10)}{ratios.side}")
        figure.legend(loc="outside lower center", ncols=6 if wide else 3, handletextpad=0.2)
        return figure

    return Picture(ratios.title, _describe(ratios, rows), draw, wide=True)


def _marks(axes: Axes, ratios: _Ratios, rows: Sequence[str], number: int, colours: Palette) -> None:
    """One allocator's marks, a little above or below the others' in each row."""
    name = ratios.names[number]
    colour = colours.series(name, number)
    shift = 0.62 * ((number + 0.5) / len(ratios.names) - 0.5)
    label: str | None = name
    for place, row in enumerate(rows):
        ratio = ratios.of(row, name)
        if ratio is None:
            continue
        axes.plot([ratio.low, ratio.high], [place + shift] * 2, color=colour, lw=1.6, zorder=2)
        axes.plot(
            ratio.value, place + shift, marker(name, number), color=colour, markersize=6,
            mew=0.6, mec=colours["card"], label=label, linestyle="none", zorder=3,
        )  # fmt: skip
        label = None


def _ratio_axis(axes: Axes, width: int) -> None:
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.9), max(high, 1.1))
    ticks = _ratio_ticks(*axes.get_xlim(), room=9 if width > NARROW else 5)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.grid(axis="x")


def _ratio_ticks(low: float, high: float, room: int) -> list[float]:
    """Even factors; over less than a factor of 4, even differences."""
    from matplotlib.ticker import MaxNLocator

    if high / low < 4:
        steps = MaxNLocator(room - 1, steps=[1, 2, 5, 10]).tick_values(low, high)
        return [float(tick) for tick in steps if low <= tick <= high]
    choices = ([tick for tick in _TICKS[::step] if low <= tick <= high] for step in (1, 2, 3, 6))
    return next((choice for choice in choices if len(choice) <= room), [1.0])


def _describe(ratios: _Ratios, rows: Sequence[str]) -> str:
    parts = []
    for name in ratios.names:
        found = [ratios.of(row, name) for row in rows]
        values = [ratio.value for ratio in found if ratio is not None and ratio.value > 0]
        if values:
            parts.append(f"{name} {stats.geometric_mean(values):.2f}")
    return f"{len(rows)} benchmarks. Geometric means, {ratios.axis}: {', '.join(parts)}."
