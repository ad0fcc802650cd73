"""The pages of results: one program under several allocators, a suite of benchmarks, or what has
changed between two results.

Which of the first two a document is shows in it, so a result that was kept can be shown again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hakmem_lab import metrics, page, stats, verdicts
from hakmem_lab.charts.picture import Picture
from hakmem_lab.charts.spread import spread
from hakmem_lab.charts.suite import new_over_old, over_subject
from hakmem_lab.difference import Difference
from hakmem_lab.page import Cell, Section, Table
from hakmem_lab.report import Document, View
from hakmem_lab.suites import STUB, in_order

_SPREAD = (
    "Lower is better. The large dot is the median, the bar its 95 % interval, the faint dots are "
    "the single runs; the dashed line stands at {base}'s median. Axes do not begin at 0."
)
_OVER = (
    "A mark right of the line: that allocator needs more than {subject}, by that factor; the bar "
    "is the 95 % interval."
)
_NEW_OVER_OLD = (
    "A mark left of the line: less than before. The two results were not interleaved, so a change "
    "that allocators share which have not changed is the machine's."
)
_GRID = "green: surely less than {subject}, red: surely more, bold: the least"


def write(path: Path, view: View) -> None:
    """A page of any document that `compare` or `bench` wrote."""
    if is_program(view):
        (benchmark,) = view.benchmarks()
        count = len(view.allocators())
        page.write(
            path,
            f"{benchmark} under {count} allocators" if count else f"{benchmark}: all runs failed",
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


def pictures(view: View) -> dict[str, Picture]:
    """A picture for each metric of a document."""
    if is_program(view):
        (benchmark,) = view.benchmarks()
        return {metric: spread(view, benchmark, metric, base_of(view)) for metric in view.metrics()}
    found = {metric: over_subject(view, metric) for metric in view.metrics()}
    return {metric: picture for metric, picture in found.items() if picture is not None}


def program(view: View, benchmark: str) -> list[Section]:
    base = base_of(view)
    lead = _SPREAD.format(base=base)
    if "client" in view.content:
        client = view.content["client"]
        lead = f"The time is that of the client ({client}), all else the server's. {lead}"
    tables = [_medians(view, benchmark), _ratios(view, benchmark, base)]
    if not view.metrics():
        return []
    return [
        Section("Side by side", list(pictures(view).values()), lead),
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
    """A row for each metric: intervals are wide, and there are fewer allocators than metrics."""
    others = [name for name in view.allocators() if name != base]
    rows: list[list[str | Cell]] = []
    for metric in view.metrics():
        ratios = [view.ratio_to(benchmark, name, base, metric) for name in others]
        if any(ratios):
            rows.append([metrics.title(metric), *map(judged, ratios)])
    caption = f"over {base}, with 95 % intervals; green: surely less, red: surely more"
    return Table(caption, ["", *others], rows)


def judged(ratio: stats.Estimate | None) -> Cell:
    if ratio is None:
        return Cell("–", "muted")
    text = f"{ratio.value:.3f} ({ratio.low:.3f}–{ratio.high:.3f})"
    return Cell(text, "better" if ratio.high < 1 else "worse" if ratio.low > 1 else "")


def suite(view: View) -> list[Section]:
    """A section for each metric: the picture and the figures behind it."""
    sections = []
    found = pictures(view)
    for metric in view.metrics():
        blocks = [found[metric]] if metric in found else []
        lead = _OVER.format(subject=view.subject()) if blocks else ""
        sections.append(Section(metrics.heading(metric), [*blocks, _grid(view, metric)], lead))
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


def write_difference(path: Path, difference: Difference, content: Document) -> None:
    """The page of two results: a section for each metric that both have."""
    sections = []
    for metric in difference.metrics():
        picture = new_over_old(difference, metric)
        blocks = [] if picture is None else [picture]
        heading = metrics.heading(metric)
        sections.append(Section(heading, [*blocks, _changes(difference, metric)], _NEW_OVER_OLD))
    old, new = (content[side]["created"][:16].replace("T", " ") for side in ("old", "new"))
    page.write(
        path, f"Results of {new} against those of {old}", sections, content, (), difference.notes()
    )


def _changes(difference: Difference, metric: str) -> Table:
    names = difference.allocators()
    rows: list[list[str | Cell]] = []
    for benchmark in in_order(difference.benchmarks()):
        ratios = [difference.ratio(benchmark, name, metric) for name in names]
        if any(ratios):
            rows.append([benchmark, *map(judged, ratios)])
    caption = "new over old, with 95 % intervals; green: surely less, red: surely more"
    return Table(caption, ["benchmark", *names], rows)


def notes(view: View) -> Sequence[str]:
    """What is missing, what failed, and what was cut short."""
    content = view.content
    lines = [f"Missing: {name} ({reason})" for name, reason in content["missing"].items()]
    lines += [
        f"Failed: {row['benchmark']} under {row['allocator']}: {row['reason']}"
        for row in content["failed"]
    ]
    lines += [f"Note: {note}" for note in content.get("notes", ())]
    return lines + ["Interrupted: not all runs were made."] * bool(content.get("interrupted"))
