"""A soak as pictures: memory, speed and the tail over time, and the whole range of latencies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem_lab import page
from hakmem_lab.charts.palette import Palette
from hakmem_lab.charts.picture import NARROW, Picture, new_figure
from hakmem_lab.metrics import number
from hakmem_lab.report import Document
from hakmem_lab.soak import histogram, result
from hakmem_lab.soak.driver import Epoch
from hakmem_lab.soak.result import Summaries
from hakmem_lab.soak.session import Phase, Soak

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MINUTES_FROM_SECONDS = 600.0


def tail_ns(epoch: Epoch) -> float:
    """p99.99 of malloc and free together."""
    return histogram.percentiles(epoch.malloc + epoch.free).get("p99.99", 0.0)


_PANELS: tuple[tuple[str, Callable[[Epoch], float], bool], ...] = (
    ("resident memory, MiB", lambda epoch: epoch.memory.resident / 2**20, False),
    ("time per operation, ns", lambda epoch: epoch.ns_per_op, False),
    ("p99.99 of malloc and free, µs", lambda epoch: tail_ns(epoch) / 1000, True),
)


class _Times:
    """When epochs ended, from the start of the soak, in the unit that fits."""

    def __init__(self, soak: Soak) -> None:
        epochs = [epoch for life in soak.lives for _, epoch in life.epochs]
        self._start_ns = min(epoch.start_ns for epoch in epochs)
        length = (max(epoch.end_ns for epoch in epochs) - self._start_ns) * 1e-9
        self._divisor = 60.0 if length >= MINUTES_FROM_SECONDS else 1.0
        self.unit = "minutes" if self._divisor > 1 else "seconds"
        warm = [epoch for life in soak.lives for epoch in life.of(Phase.WARM_UP)]
        self.warm_until = max((self.of(epoch) for epoch in warm), default=0.0)

    def of(self, epoch: Epoch) -> float:
        return (epoch.end_ns - self._start_ns) * 1e-9 / self._divisor


def over_time(soak: Soak) -> Picture:
    """Three panels over one axis of time; the warm-up is shaded. Counted epochs have no place in
    it: their times are strace's."""
    times = _Times(soak)
    shown = {
        life.allocator.name: [epoch for phase, epoch in life.epochs if phase is not Phase.COUNTED]
        for life in soak.lives
        if life.epochs
    }

    def draw(width: int, colours: Palette) -> Figure:
        figure, first = new_figure(width, 600 if width > NARROW else 560)
        first.remove()
        panels = figure.subplots(len(_PANELS), 1, sharex=True)
        for axes, (title, value, logarithmic) in zip(panels, _PANELS, strict=True):
            _plain(axes)
            axes.axvspan(0, times.warm_until, color=colours["rule"], alpha=0.4, linewidth=0)
            for place, (name, epochs) in enumerate(shown.items()):
                axes.plot(
                    [times.of(epoch) for epoch in epochs],
                    [value(epoch) for epoch in epochs],
                    color=colours.series(name, place),
                    label=name,
                    linewidth=1.5,
                    marker="." if len(epochs) < 40 else None,
                )
            axes.set_title(title)
            axes.margins(x=0)
            if logarithmic:
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(lambda tick, _: f"{tick:,.10g}")
            axes.yaxis.set_minor_formatter(lambda tick, _: "")
        panels[-1].set_xlabel(f"{times.unit}; shaded: warm-up")
        if len(shown) > 1:
            handles, names = panels[0].get_legend_handles_labels()
            columns = min(len(names), 6 if width > NARROW else 3)
            figure.legend(handles, names, loc="outside lower center", ncols=columns)
        return figure

    return Picture("A heap over time", _description(shown), draw, wide=True)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, which="both")
    axes.set_axisbelow(True)
    axes.grid(axis="y")


def _description(shown: dict[str, list[Epoch]]) -> str:
    lines = []
    for name, epochs in shown.items():
        first, last = epochs[0].memory.resident / 2**20, epochs[-1].memory.resident / 2**20
        speeds = [epoch.ns_per_op for epoch in epochs]
        lines.append(
            f"{name}: memory from {first:,.1f} to {last:,.1f} MiB, an operation takes "
            f"{number(min(speeds))} to {number(max(speeds))} ns"
        )
    return "; ".join(lines) + "."


def latencies(soak: Soak) -> Picture:
    """How many calls are slower than what: each step to the right is ten times rarer."""
    curves = {}
    for life in soak.lives:
        epochs = life.of(Phase.MEASURED)
        calls = histogram.merge(epoch.malloc + epoch.free for epoch in epochs)
        if calls:
            curves[life.allocator.name] = _curve(calls)

    def draw(width: int, colours: Palette) -> Figure:
        figure, axes = new_figure(width, 300 if width > NARROW else 280)
        axes.grid(axis="both")
        for place, (name, (rarity, values)) in enumerate(curves.items()):
            axes.step(
                rarity, values, where="post", color=colours.series(name, place), label=name,
                linewidth=1.5,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_xscale("log")
        axes.set_xlim(left=1)
        axes.set_xlabel("one call in so many takes at least as long")
        axes.set_title("latency of malloc and free")
        axes.tick_params(length=0, which="both")
        axes.xaxis.set_major_formatter(lambda tick, _: _short(tick))
        axes.yaxis.set_major_formatter(lambda tick, _: result.duration(tick))
        axes.yaxis.set_minor_formatter(lambda tick, _: "")
        if len(curves) > 1:
            columns = min(len(curves), 6 if width > NARROW else 3)
            figure.legend(loc="outside lower center", ncols=columns)
        return figure

    text = "; ".join(
        f"{name}: at most {result.duration(max(y))}" for name, (_, y) in curves.items()
    )
    return Picture("Latencies", f"Latency against rarity. {text}.", draw, wide=True)


def _short(count: float) -> str:
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:g}{unit}"
    return f"{count:g}"


def _curve(calls: histogram.Histogram) -> tuple[list[float], list[float]]:
    """For each value, one call in how many takes at least as long."""
    left = total = calls.total()
    rarity, values = [], []
    for bucket in sorted(calls):
        rarity.append(total / left)
        values.append(max(histogram.value_ns(bucket), 1 / histogram.UNITS_PER_NS))
        left -= calls[bucket]
    return rarity, values


def write_page(path: Path, soak: Soak, summaries: Summaries, content: Document) -> None:
    """Pictures, tables and sentences in one file."""
    over = page.Section(
        "Over time",
        [over_time(soak)],
        "A point an epoch. A heap in good health is flat in all three.",
    )
    caption = result.steady_caption(soak, summaries)
    steady_tables = [
        page.Table(caption, *result.steady(summaries)),
        page.Table("System calls", result.CALLS_HEADER, result.calls_rows(summaries)),
    ]
    steady = page.Section(
        "Steady state",
        [table for table in steady_tables if table.rows],
        "Drift from the first measured epoch to the last, with its 95 % interval; CV between them.",
    )
    tail = page.Section(
        "Latency",
        [
            latencies(soak),
            page.Table("All measured epochs", result.TAIL_HEADER, result.tail_rows(summaries)),
        ],
        "One call in 64 was timed.",
    )
    # One sentence, of the first: that is what the soak is about, and the tables have the others.
    verdicts = [result.verdict(name, summary) for name, summary in list(summaries.items())[:1]]
    failures = [f"{row['allocator']} failed: {row['reason']}" for row in content["failed"]]
    notes = [*failures, *result.notes(soak)]
    page.write(path, "hakmem soak", [over, steady, tail], content, verdicts, notes)
