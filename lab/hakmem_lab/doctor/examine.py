"""All checks, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable

from hakmem_lab.doctor import checks_limits, checks_pages, checks_process, checks_processors
from hakmem_lab.doctor.finding import Finding
from hakmem_lab.doctor.host import Host

Check = Callable[[Host], Finding | list[Finding] | None]

CHECKS: tuple[Check, ...] = (
    *checks_pages.CHECKS,
    *checks_limits.CHECKS,
    *checks_processors.CHECKS,
    *checks_process.CHECKS,
)


def examine(host: Host) -> list[Finding]:
    """What all checks say. A check that does not apply to this machine says nothing."""
    findings: list[Finding] = []
    for check in CHECKS:
        found = check(host)
        if found is not None:
            findings += found if isinstance(found, list) else [found]
    return findings
