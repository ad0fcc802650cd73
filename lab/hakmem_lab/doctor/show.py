"""Findings as tables for people, grouped by verdict, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab import machine
from hakmem_lab.doctor.finding import Finding, Verdict
from hakmem_lab.doctor.noise import Noise
from hakmem_lab.report import SCHEMA, Document

_TITLES = {
    Verdict.WARN: "[yellow]To be changed[/yellow]",
    Verdict.NOTE: "[cyan]To be known[/cyan]",
    Verdict.OK: "[green]As it should be[/green]",
}


def tables(console: Console, findings: Sequence[Finding]) -> None:
    for verdict, title in _TITLES.items():
        group = [finding for finding in findings if finding.verdict is verdict]
        if group:
            console.print(_table(title, group))
            _commands(console, group)
    counts = {
        verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict
    }
    console.print(
        f"{counts[Verdict.WARN]} to be changed, {counts[Verdict.NOTE]} to be known, "
        f"{counts[Verdict.OK]} as they should be",
        highlight=False,
    )
    if any(finding.type.startswith(("sudo sysctl", "echo ")) for finding in findings):
        console.print(
            "What is changed in /proc/sys and /sys lasts until the next boot; "
            "a sysctl line in /etc/sysctl.d keeps it.",
            highlight=False,
        )


def _table(title: str, findings: Sequence[Finding]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("what", no_wrap=True)
    table.add_column("here", overflow="fold")
    table.add_column("means", overflow="fold")
    for finding in findings:
        table.add_row(escape(finding.name), escape(finding.found), escape(finding.means))
    return table


def _commands(console: Console, findings: Sequence[Finding]) -> None:
    """Each on a line of its own, never folded: they are there to be copied."""
    for finding in findings:
        if finding.type:
            console.print(
                f"  [dim]{escape(finding.name)}:[/dim] {escape(finding.type)}",
                highlight=False,
                soft_wrap=True,
            )
    if any(finding.type for finding in findings):
        console.print()


def document(command: str, findings: Sequence[Finding], noise: Noise | None) -> Document:
    return {
        "schema": SCHEMA,
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "findings": [asdict(finding) for finding in findings],
        "noise": None if noise is None else noise.document(),
    }
