"""`hakmem results`: the project's own published results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab import paths, results
from hakmem_lab.commands.common import out
from hakmem_lab.errors import LabError

results_app = typer.Typer(help="The project's own published results.", no_args_is_help=True)


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
