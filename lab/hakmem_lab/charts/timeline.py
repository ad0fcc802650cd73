"""Figures over time: several lines, one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hakmem_lab.charts.palette import Palette
from hakmem_lab.charts.picture import NARROW, Picture, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A page draws no more points than it has pixels.
_POINTS = 1500


def timeline(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    ylabel: str,
    title: str,
    xlabel: str = "seconds",
    from_zero: bool = True,
) -> Picture:
    """A line for each name: its times, in seconds, and its figures. An allocator has its colour."""

    def draw(width: int, colours: Palette) -> Figure:
        figure, axes = new_figure(width, 250 if width > NARROW else 230)
        axes.grid(axis="y")
        for number, (name, (times, figures)) in enumerate(series.items()):
            step = max(1, len(times) // _POINTS)
            axes.plot(
                times[::step],
                figures[::step],
                label=name,
                color=colours.series(name, number),
                linewidth=1.6,
                linestyle=("-", "--", "-.", ":")[number // 6 % 4],
            )
        if from_zero:
            axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.set_title(title)
        if len(series) > 1:
            columns = min(len(series), 6 if width > NARROW else 3)
            figure.legend(loc="outside lower center", ncols=columns, handlelength=1.6)
        return figure

    return Picture(title, _describe(series, ylabel), draw, wide=True)


def _describe(series: Mapping[str, tuple[Sequence[float], Sequence[float]]], ylabel: str) -> str:
    lines = [
        f"{name} from {figures[0]:,.4g} to {figures[-1]:,.4g}, at most {max(figures):,.4g}"
        for name, (_, figures) in series.items()
        if len(figures)
    ]
    return f"{ylabel} over time: {'; '.join(lines)}."
