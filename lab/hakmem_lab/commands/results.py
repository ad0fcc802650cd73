"""`hakmem results`: results that were kept, shown again, compared, or made into tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab import pages, paths, report, results, tables
from hakmem_lab.commands.common import HtmlOption, JsonOption, err, out, typed
from hakmem_lab.difference import Difference, main_metrics
from hakmem_lab.errors import LabError

results_app = typer.Typer(
    help="Results that were kept: shown again, compared, made into README's tables.",
    no_args_is_help=True,
)


@results_app.command("table")
def results_table_command(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; 1 if not up to date.")
    ] = False,
    page: Annotated[Path | None, typer.Option(metavar="F", help="Default: README.md.")] = None,
) -> None:
    """Make the tables of README.md anew from docs/results."""
    page = page or paths.checkout() / "README.md"
    right = results.update(page, paths.results_dir(), check)
    if right:
        out.print(f"{page}: up to date")
    elif check:
        raise LabError(
            f"{page}: its tables are not those of docs/results; run: hakmem results table"
        )
    else:
        out.print(f"{page}: tables made anew")


@results_app.command("show")
def results_show_command(
    file: Annotated[Path, typer.Argument(metavar="F", help="What --json has written.")],
    html: HtmlOption = None,
    png: Annotated[
        Path | None, typer.Option(metavar="F", help="Write its pictures to F-METRIC.png.")
    ] = None,
) -> None:
    """Show a result again: its tables, and its page or its pictures."""
    view = report.View(report.read(file))
    if pages.is_program(view):
        tables.compare(out, view, view.benchmarks()[0], pages.base_of(view))
    else:
        tables.suite(out, view)
    tables.trouble(out, view)
    if html is not None:
        pages.write(html, view)
        err.print(f"written: {html}", highlight=False)
    if png is not None:
        for metric, picture in pages.pictures(view).items():
            target = png.with_name(f"{png.stem}-{metric}.png")
            picture.write(target)
            err.print(f"written: {target}", highlight=False)


@results_app.command("diff")
def results_diff_command(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="An earlier --json file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A later one.")],
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Compare two results of the same benchmarks: what has changed, new over old."""
    difference = Difference(report.View(report.read(old)), report.View(report.read(new)))
    for metric in main_metrics(difference.metrics()):
        tables.changes(out, difference, metric)
    for note in difference.notes():
        out.print(f"[yellow]note:[/yellow] {note}", highlight=False, soft_wrap=True)
    content = difference.document(typed())
    if json is not None:
        report.write(json, content)
        err.print(f"written: {json}", highlight=False)
    if html is not None:
        pages.write_difference(html, difference, content)
        err.print(f"written: {html}", highlight=False)
