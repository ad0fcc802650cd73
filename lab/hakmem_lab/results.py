"""README's tables, made from the results that are kept in docs/results.

A table stands between two comments; what is between them is replaced:

    <!-- results micro ns_per_op -->       medians, a row for each benchmark
    <!-- results sqlite -->                one program, a row for each allocator
    <!-- results micro cpu_s over scudo -->  geometric means, each allocator over that one
    ...
    <!-- end of results -->

`micro` is docs/results/micro.json. The figures, the machine and the command under the table all
come from that file, so a table cannot say what was not measured.
"""

from __future__ import annotations

import re
from pathlib import Path

from hakmem_lab import machine, metrics, report, tables
from hakmem_lab.errors import LabError
from hakmem_lab.report import View
from hakmem_lab.suites import in_order

_END = "<!-- end of results -->"
_BLOCK = re.compile(
    r"(?P<begin><!-- results (?P<name>[\w.-]+)(?: (?P<metric>\w+)(?: over (?P<base>\w+))?)? -->\n)"
    r".*?(?P<end>" + re.escape(_END) + ")",
    re.DOTALL,
)
_ROW_METRICS = ("wall_s", "cpu_s", "peak_rss_bytes", "page_faults")


def render(text: str, results: Path) -> str:
    """The text with every marked table made anew from the folder of results."""
    if not _BLOCK.search(text):
        raise LabError("there is no table to make: no line '<!-- results NAME METRIC -->'")

    def replacement(found: re.Match[str]) -> str:
        view = View(report.read(results / f"{found['name']}.json"))
        if found["base"]:
            return f"{found['begin']}{_means(view, found['metric'], found['base'])}{found['end']}"
        rows = _grid(view, found["metric"]) if found["metric"] else _programs(view)
        return f"{found['begin']}{rows}\n{_caption(view)}\n{found['end']}"

    return _BLOCK.sub(replacement, text)


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *rows])


def _require(metric: str) -> None:
    if metric not in metrics.METRICS:
        raise LabError(f"there is no metric '{metric}'; there are: {', '.join(metrics.METRICS)}")


def _means(view: View, metric: str, base: str) -> str:
    """Each allocator over base: the geometric mean, and how the benchmarks lie about it."""
    _require(metric)
    rows = []
    for allocator in view.allocators():
        mean = view.mean_ratio_to(allocator, base, metric)
        found = [view.ratio_to(name, allocator, base, metric) for name in view.benchmarks()]
        values = [estimate.value for estimate in found if estimate is not None]
        if mean is None:
            continue
        below = f"{sum(value < 1 for value in values)} of {len(values)}"
        cells = f"{mean.value:.3f}", f"{mean.low:.3f}–{mean.high:.3f}", below, f"{max(values):.2f}"
        rows.append([allocator, *cells])
    if not rows:
        raise LabError(f"there are no results of '{base}' to hold others against")
    header = [f"{metrics.title(metric)} over {base}", "geometric mean", "95 % interval"]
    return _markdown([*header, "below 1", "at most"], rows)


def _grid(view: View, metric: str) -> str:
    _require(metric)
    allocators = view.allocators()
    rows = [
        [benchmark, *tables.grid_cells(view, benchmark, allocators, metric, "markdown")]
        for benchmark in in_order(view.with_metric(metric))
    ]
    unit = {"ns_per_op": "ns per operation", "peak_rss_bytes": "peak MiB"}.get(metric)
    if unit is None:
        unit = ", ".join(part for part in (metrics.title(metric), metrics.scale(metric)[1]) if part)
    return _markdown([unit, *allocators], rows)


def _programs(view: View) -> str:
    rows = []
    for benchmark in view.benchmarks():
        for allocator in view.allocators():
            estimates = [view.result(benchmark, allocator, metric) for metric in _ROW_METRICS]
            cells = [
                "–" if estimate is None else metrics.figure(estimate.value, metric)
                for estimate, metric in zip(estimates, _ROW_METRICS, strict=True)
            ]
            rows.append([allocator, *cells])
    return _markdown(["allocator", *(metrics.title(metric) for metric in _ROW_METRICS)], rows)


def _caption(view: View) -> str:
    content = view.content
    date = str(content["created"])[:10]
    lines = [
        f"Medians of {content['runs']} interleaved runs, {date}, "
        f"{machine.sentence(content['machine'])}. Again with: `{content['command']}`"
    ]
    versions = [
        f"{row['name']} {row['version']}" for row in content["allocators"] if row["version"]
    ]
    if versions:
        lines.append(f"Versions: {', '.join(versions)}.")
    if content["missing"]:
        lines.append(f"Missing: {', '.join(content['missing'])}.")
    failed = [f"{row['benchmark']} under {row['allocator']}" for row in content["failed"]]
    if failed:
        lines.append(f"Failed: {', '.join(failed)}.")
    return "  \n".join(lines)


def update(page: Path, results: Path, check: bool) -> bool:
    """Makes the tables of a page anew; with check, only tells whether they are as they should be.

    Returns whether the page was already right."""
    try:
        before = page.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot read {page}: {error.strerror}") from None
    after = render(before, results)
    if not check and after != before:
        page.write_text(after, encoding="utf-8")
    return after == before
