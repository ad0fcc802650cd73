"""The commands of `hakmem`, put together. Each is a file of commands/: it reads its options, hands
the work to the modules below it, and prints. Exit statuses: 0 done, 1 something was measured wrong
or failed, 2 something is missing or the command line is wrong, 3 the library was not mapped into
the program, 4 the program failed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.markup import escape

from hakmem_lab.commands.ab import ab_command
from hakmem_lab.commands.audit import audit_command
from hakmem_lab.commands.bench import bench_command
from hakmem_lab.commands.bisect import bisect_command
from hakmem_lab.commands.common import PASS_ON, err
from hakmem_lab.commands.compare import compare_command
from hakmem_lab.commands.demo import demo_command
from hakmem_lab.commands.doctor import doctor_command
from hakmem_lab.commands.instructions import instructions_command
from hakmem_lab.commands.peers import peers_app
from hakmem_lab.commands.results import results_app
from hakmem_lab.commands.run import run_command
from hakmem_lab.commands.soak import soak_command
from hakmem_lab.commands.symbolize import symbolize_command
from hakmem_lab.errors import LabError

app = typer.Typer(
    name="hakmem",
    help="Runs programs under HAKMEM and says how it compares with other allocators.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

app.command("run", context_settings=PASS_ON)(run_command)
app.command("compare", context_settings=PASS_ON)(compare_command)
app.command("bench")(bench_command)
app.command("audit")(audit_command)
app.command("soak")(soak_command)
app.command("doctor")(doctor_command)
app.command("ab")(ab_command)
app.command("bisect")(bisect_command)
app.command("instructions")(instructions_command)
app.command("symbolize")(symbolize_command)
app.command("demo")(demo_command)
app.add_typer(peers_app, name="peers")
app.add_typer(results_app, name="results")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; an error of the lab is one line and an exit status."""
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="hakmem")
    except LabError as error:
        err.print(f"[red]hakmem:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        err.print("hakmem: interrupted")
        sys.exit(130)
