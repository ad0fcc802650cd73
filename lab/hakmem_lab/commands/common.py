"""What the commands share: consoles, options that mean the same in each, and the end of a run."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from hakmem_lab import pages, paths, report, tables
from hakmem_lab.errors import LabError
from hakmem_lab.measure import words_of
from hakmem_lab.schedule import Samples

# A file or a pipe has no width; a table in it should not be folded into 80 columns.
WIDTH_OF_A_FILE = 190

INTERRUPTED = 130  # as a shell says it of a program that Ctrl-C has ended


def _console(stream: TextIO) -> Console:
    known = stream.isatty() or "COLUMNS" in os.environ
    return Console(file=stream, width=None if known else WIDTH_OF_A_FILE)


out = _console(sys.stdout)
err = _console(sys.stderr)

# What follows the program's name is the program's.
PASS_ON: dict[str, Any] = {"allow_interspersed_args": False}

CommandArgument = Annotated[
    list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")
]
ProfileOption = Annotated[
    str | None, typer.Option(metavar="P", help="HAKMEM's profile: speed, balanced or lean.")
]
ProfilesOption = Annotated[
    str | None,
    typer.Option(metavar="P,Q,...", help="HAKMEM in these profiles too, each in a row of its own."),
]
VariantsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME=VALUE,...",
        help="HAKMEM with these options too, in a row of its own; may be repeated.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An option of HAKMEM; may be repeated."),
]
PeersOption = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Allocators beside HAKMEM; default: all that are here."),
]
RunsOption = Annotated[int, typer.Option(min=1, metavar="N", help="Measured runs of each.")]
WarmupOption = Annotated[int, typer.Option(min=0, metavar="N", help="Runs before them, dropped.")]
CountOption = Annotated[
    int, typer.Option(min=0, metavar="N", help="Runs in which system calls are counted.")
]
SeedOption = Annotated[
    int | None, typer.Option(metavar="N", help="Order of the runs; default: another each time.")
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="F", help="Write the results to this file.")
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="F", help="Write a page with charts to this file.")
]


def names_of(listed: str | None) -> list[str] | None:
    if listed is None:
        return None
    return [name.strip() for name in listed.split(",") if name.strip()]


def seed_of(chosen: int | None) -> int:
    return random.SystemRandom().randrange(2**31) if chosen is None else chosen


def typed() -> str:
    """The command as it was typed, for the record."""
    return words_of(["bin/hakmem" if paths.is_checkout() else "hakmem", *sys.argv[1:]])


def prepare(*files: Path | None) -> None:
    """Refuses files that cannot be written, before the first run and not after the last."""
    for file in files:
        if file is not None:
            report.require_writable(file)


def finish(
    view: report.View, samples: Samples, json: Path | None = None, html: Path | None = None
) -> None:
    """Says what is wrong, writes the files, and ends in 1 if a run failed."""
    tables.trouble(out, view)
    if json is not None:
        _keep(json, view.content)
    if html is not None:
        pages.write(html, view)
        err.print(f"written: {html}", highlight=False)
    if samples.interrupted:
        raise typer.Exit(INTERRUPTED)
    if samples.failures:
        raise typer.Exit(1)


def _keep(json: Path, content: report.Document) -> None:
    """What has been measured is not lost when its file cannot be written: it goes elsewhere."""
    try:
        report.write(json, content)
    except LabError:
        elsewhere = Path(tempfile.mkdtemp(prefix="hakmem-")) / json.name
        report.write(elsewhere, content)
        err.print(f"the results were kept in {elsewhere}", highlight=False)
        raise
    err.print(f"written: {json}", highlight=False)
