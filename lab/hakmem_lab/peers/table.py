"""The list of `hakmem peers`."""

from __future__ import annotations

from rich import box
from rich.table import Table

from hakmem_lab.peers import registry


def peers_table() -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("name", "version", "from", "library"):
        table.add_column(column, overflow="fold")
    system = registry.system()
    table.add_row(system.name, system.version, system.origin, "no preload")
    for peer in registry.PEERS:
        found = registry.find(peer)
        if found is None:
            table.add_row(peer.name, peer.version, peer.origin, "[yellow]missing[/yellow]")
        else:
            table.add_row(found.name, found.version, found.origin, str(found.library))
    return table
