"""Does the benchmark execute what was changed?

Whole optimisations have been measured on code that never ran. So before anything is timed, every
instruction in which the two libraries differ is watched (bench/tools/reach.c) while the benchmark
runs once under each. The answer is exact for that run: an instruction was executed, or it was not.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab import paths
from hakmem_lab.ab.code import Library
from hakmem_lab.ab.difference import Difference, differences
from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.measure import Allocator, Command, environment

_CANNOT_RUN = 127


@dataclass(frozen=True)
class Change:
    """What is different between two libraries, as far as that can be told."""

    identical: bool  # byte for byte
    complete: bool  # both have names for all of their functions
    differences: tuple[Difference, ...]

    @property
    def can_be_checked(self) -> bool:
        """Code differs, and it is known where."""
        return bool(self.differences)

    @property
    def instructions(self) -> int:
        return sum(max(len(each.a), len(each.b)) for each in self.differences)


@dataclass(frozen=True)
class Reached:
    """A changed function, and how many of its changed instructions a benchmark executed."""

    function: str
    kind: str
    changed: int
    executed: int


def compare(a: Path, b: Path) -> Change:
    if a.read_bytes() == b.read_bytes():
        return Change(True, True, ())
    ours, theirs = Library(a), Library(b)
    complete = ours.is_complete and theirs.is_complete
    return Change(False, complete, tuple(differences(ours, theirs)))


def run(change: Change, a: Path, b: Path, command: Command) -> list[Reached]:
    """Runs the command under both. What ran first comes first."""
    hit_a = _hits(a, [address for each in change.differences for address in each.a], command)
    hit_b = _hits(b, [address for each in change.differences for address in each.b], command)
    found = [
        Reached(
            each.function,
            each.kind,
            len(each.a) + len(each.b),
            len(hit_a.intersection(each.a)) + len(hit_b.intersection(each.b)),
        )
        for each in change.differences
    ]
    return sorted(found, key=lambda each: (-each.executed, each.function))


def _hits(library: Path, addresses: Sequence[int], command: Command) -> set[int]:
    """Which of the addresses the command executes."""
    if not addresses:
        return set()
    code = Library(library)
    by_offset = {code.file_offset(address): address for address in addresses}
    with tempfile.TemporaryDirectory(prefix="hakmem-ab-") as name:
        report, points = Path(name, "report"), Path(name, "points")
        points.write_text("".join(f"{offset:x}\n" for offset in by_offset), encoding="ascii")
        _watch(library, [str(report), str(library), str(library), str(points)], command)
        facts = dict(_facts(report))
    if facts["mapped"] == [0] and facts["status"] == [_CANNOT_RUN]:
        raise RunError(f"cannot run '{command.words[0]}'")
    if facts["mapped"] == [0]:
        raise NotMappedError(f"'{command.words[0]}' does not map {library} when it is preloaded")
    if facts["status"] != [0]:
        raise RunError(
            f"'{command.words[0]}' failed while its code was watched ({facts['status']})"
        )
    return {by_offset[offset] for offset in facts.get("hit", [])}


def _watch(library: Path, words: Sequence[str], command: Command) -> None:
    try:
        done = subprocess.run(
            [str(paths.tool("reach")), *words, *command.words],
            input=command.stdin,
            env=environment(Allocator("watched", library), command.variables),
            cwd=command.directory,
            capture_output=True,
            timeout=command.timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"'{command.words[0]}' did not end within {command.timeout_seconds:g} seconds"
        ) from None
    if done.returncode != 0:
        complaint = done.stderr.decode(errors="replace").strip().splitlines()
        raise RunError(complaint[-1] if complaint else "the code could not be watched")


def _facts(report: Path) -> Iterator[tuple[str, list[int]]]:
    facts: dict[str, list[int]] = {}
    for line in report.read_text(encoding="ascii").splitlines():
        kind, _, number = line.partition(" ")
        facts.setdefault(kind, []).append(int(number, 16 if kind == "hit" else 10))
    yield from facts.items()
