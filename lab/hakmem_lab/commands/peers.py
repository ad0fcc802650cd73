"""`hakmem peers`: which other allocators are here, and how to get them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from hakmem_lab.commands.common import err, out
from hakmem_lab.peers import install as installer
from hakmem_lab.peers import registry
from hakmem_lab.peers.table import peers_table

peers_app = typer.Typer(help="The other allocators: which are here, and how to get them.")


@peers_app.callback(invoke_without_command=True)
def peers_command(context: typer.Context) -> None:
    """List the other allocators, and which of them are here."""
    if context.invoked_subcommand is None:
        out.print(peers_table())


@peers_app.command("install")
def peers_install_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Default: all of them.")
    ] = None,
) -> None:
    """Fetch the other allocators by their public packages; ends in 1 when one could not be had."""
    wanted = [registry.peer(name).name for name in names or []]
    wanted = wanted or [peer.name for peer in registry.PEERS]
    failed = installer.install(wanted, lambda line: err.print(line, highlight=False, markup=False))
    out.print(peers_table())
    for name, reason in failed.items():
        out.print(f"[yellow]missing:[/yellow] {name} ({escape(reason)})")
    if failed:
        raise typer.Exit(1)
