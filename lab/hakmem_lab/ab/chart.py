"""A picture of a trial: how the intervals closed in, look by look.

For each benchmark the interval of B over A (and, faint, that of the control) at every planned look,
over the number of pairs, with the margin as a band around 0. A verdict is where the interval lies
when it stops: within the band, or wholly above or below it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hakmem_lab.ab.judge import Answer
from hakmem_lab.ab.trial import Record
from hakmem_lab.ab.verdict import Look, Plan, look
from hakmem_lab.errors import LabError
from hakmem_lab.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_EFFECT, _CONTROL, _MARGIN = "#0b5cd5", "#7d8590", "#e3e8ee"
_INCHES = (7.0, 2.8)  # of each benchmark


def write(answer: Answer, path: Path) -> None:
    """As PNG, SVG or PDF, by the name."""
    from matplotlib.figure import Figure

    records = [record for record in answer.records if record.look is not None]
    if not records:
        raise LabError("nothing was measured, so there is nothing to draw")
    width, height = _INCHES
    figure = Figure(figsize=(width, height * len(records)), layout="constrained")
    plan = answer.question.limits.plan
    for axes, record in zip(
        figure.subplots(len(records), squeeze=False).flat, records, strict=True
    ):
        _draw(axes, record, plan)
    try:
        figure.savefig(path, dpi=144)
    except (OSError, ValueError) as error:
        raise LabError(f"cannot write {path}: {error}") from None


def looks(record: Record, plan: Plan) -> list[Look]:
    """As they were taken; the last one may have come before its time."""
    # One right before the last would be drawn over it.
    planned = [rounds for rounds in plan.schedule() if rounds < 0.85 * len(record.rounds)]
    return [look(record.rounds[:rounds], plan) for rounds in (*planned, len(record.rounds))]


def _draw(axes: Axes, record: Record, plan: Plan) -> None:
    taken = looks(record, plan)
    margin = plan.margin * 100
    axes.axhspan(-margin, margin, color=_MARGIN, zorder=0, label=f"margin, ±{margin:g} %")
    axes.axhline(0, color=_CONTROL, linewidth=0.6, zorder=1)
    # Side by side, as one would hide the other.
    _bars(axes, taken, "control", _CONTROL, "A over A", 1.04)
    _bars(axes, taken, "effect", _EFFECT, "B over A", 1.0)
    axes.set_xscale("log")
    axes.set_xticks([2 * each.rounds for each in taken], minor=False)
    axes.set_xticklabels([f"{2 * each.rounds:,}" for each in taken], fontsize=8)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("pairs", fontsize=9)
    axes.set_ylabel("%", fontsize=9)
    axes.set_title(f"{record.workload.name}: {record.verdict}", loc="left", fontsize=10)
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _bars(axes: Axes, taken: list[Look], which: str, colour: str, label: str, shift: float) -> None:
    ratios: list[Estimate] = [getattr(each, which) for each in taken]
    places = [2 * each.rounds * shift for each in taken]
    middles = [(each.value - 1) * 100 for each in ratios]
    below = [(each.value - each.low) * 100 for each in ratios]
    above = [(each.high - each.value) * 100 for each in ratios]
    axes.errorbar(
        places, middles, yerr=(below, above), fmt="o", markersize=4, capsize=3, linewidth=1.2,
        color=colour, label=label,
    )  # fmt: skip
