"""What HAKMEM costs a small program: resident memory at its peak, and system calls at its start.

Both are counts and not times, so a test may hold them to a bound.

The kernel keeps a process's peak resident memory and gives it to the parent that
waits for it (getrusage(2), ru_maxrss). A child starts with its parent's peak and
exec does not forget it, so the measured program must not be a direct child of
Python, which is larger: time(1) starts it from a small process of its own.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

import sql
from harness import Side, Sides, run

SAMPLES = 9
LARGEST_RATIO = 1.03
LARGEST_EXTRA_KIB = 512
LARGEST_EXTRA_CALLS = 25

PROGRAMS = {
    "python3": ("/usr/bin/python3", "-c", "pass"),
    "ls": ("/bin/ls", "-la", "/usr/bin"),
    "sqlite3 in memory": ("/usr/bin/sqlite3", "-batch", "-init", "memory.sql", ":memory:", ""),
    "sqlite3 in a file": ("/usr/bin/sqlite3", "-batch", "-init", "file.sql", "rows.db", ""),
}


def preloaded(side: Side) -> list[str]:
    """The start of a command that preloads the library into what follows and nothing before."""
    preload = [] if side.library is None else [f"LD_PRELOAD={side.library}"]
    return ["/usr/bin/env", *preload]


def bare(side: Side, *argv: str) -> str:
    """Runs a measuring tool without the library, and without statistics, which cost memory too."""
    tool = Side(side.name, side.root)
    return run(tool, *argv).stderr


def peak_kib(side: Side, argv: tuple[str, ...]) -> int:
    report = side.root / "peak"
    for left in side.work.glob("rows.db*"):
        left.unlink()
    said = bare(side, "/usr/bin/time", "-f", "%M", "-o", str(report), *preloaded(side), *argv)
    assert "ERROR: ld.so" not in said, said
    return int(report.read_text())


@pytest.mark.parametrize("program", PROGRAMS)
def test_peak_resident_memory(sides: Sides, program: str) -> None:
    argv = PROGRAMS[program]
    for side in sides:
        (side.work / "memory.sql").write_text(sql.IN_MEMORY)
        (side.work / "file.sql").write_text(sql.SCRIPT)
    run(sides.hakmem, *argv)  # Proves that the library gets into this program and serves it.
    peaks = [sides.at_once(lambda side: peak_kib(side, argv)) for _ in range(SAMPLES)]
    glibc, hakmem = (statistics.median(column) for column in zip(*peaks, strict=True))
    bound = LARGEST_RATIO * glibc + LARGEST_EXTRA_KIB
    print(f"{program}: glibc {glibc:.0f} KiB, HAKMEM {hakmem:.0f} KiB, bound {bound:.0f} KiB")
    assert hakmem <= bound


def system_calls(side: Side) -> list[str]:
    """The calls of /bin/true from its exec to its end."""
    trace = side.root / "trace"
    bare(side, "/usr/bin/strace", "-f", "-o", str(trace), *preloaded(side), "/bin/true")
    lines = trace.read_text().splitlines()
    # env's own calls come before the second exec.
    start = max(i for i, line in enumerate(lines) if "execve(" in line and line.endswith(" = 0"))
    return [line for line in lines[start:] if re.match(r"\d+ +\w+\(", line)]


def test_system_calls_at_start(sides: Sides) -> None:
    glibc, hakmem = (system_calls(side) for side in sides)
    library = Path(str(sides.hakmem.library)).name
    assert any("openat" in call and library in call for call in hakmem), "it was not preloaded"
    assert not any(library in call for call in glibc)
    print(f"/bin/true: glibc {len(glibc)} system calls, HAKMEM {len(hakmem)}")
    assert len(hakmem) - len(glibc) <= LARGEST_EXTRA_CALLS, "\n".join(hakmem)
