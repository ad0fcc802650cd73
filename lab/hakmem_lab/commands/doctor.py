"""`hakmem doctor`: what of this machine matters for memory, and what to type to change it."""

from __future__ import annotations

from typing import Annotated

import typer

from hakmem_lab import report
from hakmem_lab.commands.common import JsonOption, err, out, prepare, typed
from hakmem_lab.doctor import noise, show
from hakmem_lab.doctor.examine import examine
from hakmem_lab.doctor.host import Host


def doctor_command(
    quick: Annotated[bool, typer.Option("--quick", help="Do not measure the noise.")] = False,
    json: JsonOption = None,
) -> None:
    """Say what of this machine and kernel matters for memory, and what to change.

    Nothing is changed. Ends in 0 whatever is found."""
    prepare(json)
    host = Host()
    findings = examine(host)
    measured = None
    if not quick:
        with err.status(f"measuring the noise for {noise.SECONDS} seconds"):
            measured = noise.measure()
        findings += noise.findings(measured)
    show.tables(out, findings)
    if json is not None:
        report.write(json, show.document(typed(), findings, measured))
        err.print(f"written: {json}", highlight=False)
