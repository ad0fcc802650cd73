"""The pages of results: one program under several allocators, or a suite of benchmarks.

Which of the two a document is shows in it, so a result that was kept can be shown again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hakmem_lab import metrics, page, stats, verdicts
from hakmem_lab.charts.spread import spread
from hakmem_lab.charts.suite import over_subject
from hakmem_lab.page import Cell, Section, Table
from hakmem_lab.report import View
from hakmem_lab.suites import STUB, in_order

_SPREAD = (
    "Lower is better. The large dot is the median, the bar its 95 % interval, the faint dots are "
    "the single runs; the dashed line stands at {base}'s median. Axes do not begin at 0."
)
_OVER = (
    "A mark right of the line: that allocator needs more than {subject}, by that factor; the bar "
    "is the 95 % interval."
)
_GRID = "green: surely less than {subject}, red: surely more, bold: the least"


def write(path: Path, view: View) -> None:
    """A page of any document that `compare` or `bench` wrote."""
    if is_program(view):
        (benchmark,) = view.benchmarks()
        page.write(
            path,
            f"{benchmark} under {len(view.allocators())} allocators",
            program(view, benchmark),
            view.content,
            verdicts.sentences(view, benchmark, base_of(view)),
            notes(view),
        )
    else:
        title = f"{len(view.benchmarks())} benchmarks under {len(view.allocators())} allocators"
        page.write(path, title, suite(view), view.content, (), notes(view))


def is_program(view: View) -> bool:
    """One program, of which the time as a whole is asked, and not that of its operations."""
    return len(view.benchmarks()) == 1 and "ns_per_op" not in view.metrics()


def base_of(view: View) -> str:
    """What the subject was set against: as asked for, or else the system's allocator."""
    return str(view.content.get("base", "glibc"))


def program(view: View, benchmark: str) -> list[Section]:
    base = base_of(view)
    pictures = [spread(view, benchmark, metric, base) for metric in view.metrics()]
    tables = [_medians(view, benchmark), _ratios(view, benchmark, base)]
    return [
        Section("Side by side", pictures, _SPREAD.format(base=base)),
        Section("Figures", [each for each in tables if each.rows]),
    ]


def _medians(view: View, benchmark: str) -> Table:
    rows: list[list[str | Cell]] = []
    for allocator in view.allocators():
        row: list[str | Cell] = [allocator]
        for metric in view.metrics():
            estimate = view.result(benchmark, allocator, metric)
            row.append("–" if estimate is None else metrics.figure(estimate.value, metric))
        rows.append(row)
    return Table("medians", ["allocator", *map(metrics.title, view.metrics())], rows)


def _ratios(view: View, benchmark: str, base: str) -> Table:
    rows: list[list[str | Cell]] = []
    for allocator in view.allocators():
        if allocator != base and base in view.allocators():
            ratios = [
                view.ratio_to(benchmark, allocator, base, metric) for metric in view.metrics()
            ]
            rows.append([allocator, *map(judged, ratios)])
    caption = f"over {base}, with 95 % intervals; green: surely less, red: surely more"
    return Table(caption, ["allocator", *map(metrics.title, view.metrics())], rows)


def judged(ratio: stats.Estimate | None) -> Cell:
    if ratio is None:
        return Cell("–", "muted")
    text = f"{ratio.value:.3f} ({ratio.low:.3f}–{ratio.high:.3f})"
    return Cell(text, "better" if ratio.high < 1 else "worse" if ratio.low > 1 else "")


def suite(view: View) -> list[Section]:
    """A section for each metric: the picture and the figures behind it."""
    sections = []
    for metric in view.metrics():
        picture = over_subject(view, metric)
        blocks = [] if picture is None else [picture]
        lead = "" if picture is None else _OVER.format(subject=view.subject())
        heading = metrics.heading(metric)
        sections.append(Section(heading, [*blocks, _grid(view, metric)], lead))
    return sections


def _grid(view: View, metric: str) -> Table:
    allocators = view.allocators()
    divisor, unit = metrics.scale(metric)
    rows = []
    for benchmark in in_order(view.benchmarks()):
        estimates = [view.result(benchmark, name, metric) for name in allocators]
        if any(estimates):
            rows.append([benchmark, *_cells(view, benchmark, metric, divisor)])
    caption = f"{f'{unit}; ' if unit else ''}{_GRID.format(subject=view.subject())}"
    return Table(caption, ["benchmark", *allocators], rows)


def _cells(view: View, benchmark: str, metric: str, divisor: float) -> list[str | Cell]:
    values = {name: view.result(benchmark, name, metric) for name in view.allocators()}
    least = min(
        (found.value for name, found in values.items() if found and name != STUB), default=None
    )
    cells: list[str | Cell] = []
    for name, found in values.items():
        if found is None:
            cells.append(Cell("–", "muted"))
            continue
        text = metrics.number(found.value / divisor)
        ratio = view.ratio_to(benchmark, name, view.subject(), metric)
        if name == STUB:
            cells.append(Cell(text, "muted"))
        elif found.value == least:
            cells.append(Cell(text, "best"))
        elif ratio is None or ratio.low <= 1 <= ratio.high:
            cells.append(text)
        else:
            cells.append(Cell(text, "better" if ratio.high < 1 else "worse"))
    return cells


def notes(view: View) -> Sequence[str]:
    """What is missing, what failed, and what was cut short."""
    content = view.content
    lines = [f"Missing: {name} ({reason})" for name, reason in content["missing"].items()]
    lines += [
        f"Failed: {row['benchmark']} under {row['allocator']}: {row['reason']}"
        for row in content["failed"]
    ]
    return lines + [str(note) for note in content.get("notes", ())]
