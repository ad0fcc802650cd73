"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """WARN: makes programs slower, larger or fail, or figures wrong. NOTE: good to know; a choice.
    OK: as it should be."""

    WARN = "warn"
    NOTE = "note"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """One thing that matters for memory."""

    name: str
    found: str
    verdict: Verdict
    means: str
    type: str = ""  # the command that changes it; "" when nothing needs to be changed, or can be
