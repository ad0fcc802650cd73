"""`hakmem symbolize`: file and line for the stacks of a report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hakmem_lab.commands.common import err
from hakmem_lab.errors import MissingError
from hakmem_lab.symbolize import symbolize


def symbolize_command(
    report: Annotated[
        Path | None, typer.Argument(help="What HAKMEM printed; default: standard input.")
    ] = None,
) -> None:
    """Add file and line to the stacks of HAKMEM's reports, in whatever log they stand."""
    missing: set[str] = set()
    try:
        with sys.stdin if report is None else report.open(errors="replace") as lines:
            for line in symbolize((line.rstrip("\n") for line in lines), missing):
                print(line, flush=True)
    except OSError as error:
        raise MissingError(f"cannot read {report}: {error.strerror}") from None
    for name in sorted(missing):
        err.print(
            f"hakmem: cannot read {escape(name)}: its frames stay as they were",
            highlight=False,
            soft_wrap=True,
        )
