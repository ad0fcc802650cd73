"""What HAKMEM costs a small program: resident memory at its peak, and system calls at its start.

Both are counts and not times, so a test may hold them to a bound.

The kernel keeps a process's peak resident memory and gives it to the parent that
waits for it (getrusage(2), ru_maxrss). A child starts with its parent's peak and
exec does not forget it, so the measured program must not be a direct child of
Python, which is larger: time(1) starts it from a small process of its own.

That peak is short by what each processor has counted and not yet added up, some
200 KiB of a program that grows by brk. So a program that lives long enough is
looked at while it runs, too: /proc/PID/smaps_rollup counts pages in the page table.

Of a library the kernel maps 64 KiB around each page that is touched. Where those begin is
chance, 80 KiB in all for one program, unless addresses are not randomised.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from pathlib import Path

import pytest

import sql
from harness import Side, Sides, Watcher, run

SAMPLES = 9
# sqlite3's peaks scatter by 100 KiB, and medians of nine by 50, which is as far as it is from the
# bound: it fails when three in four runs are over.
QUARTER = SAMPLES // 4
LOOK_SECONDS = 0.002
LARGEST_RATIO = 1.03
LARGEST_EXTRA_KIB = 512
LARGEST_EXTRA_CALLS = 25
# What guard sampling may cost besides: each of its 64 blocks a page.
LARGEST_SAMPLING_KIB = 64 * 4

PROGRAMS = {
    "python3": ("/usr/bin/python3", "-c", "pass"),
    "ls": ("/bin/ls", "-la", "/usr/bin"),
    "sqlite3 in memory": ("/usr/bin/sqlite3", "-batch", "-init", "memory.sql", ":memory:", ""),
    "sqlite3 in a file": ("/usr/bin/sqlite3", "-batch", "-init", "file.sql", "rows.db", ""),
}


def is_allowed(*argv: str) -> bool:
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


SAME_ADDRESSES: tuple[str, ...] = ("/usr/bin/setarch", "-R")
if not is_allowed(*SAME_ADDRESSES, "/bin/true"):  # some containers
    SAME_ADDRESSES = ()


def preloaded(side: Side, options: str = "") -> list[str]:
    """The start of a command that preloads the library into what follows and nothing before."""
    preload = [] if side.library is None else [f"LD_PRELOAD={side.library}"]
    return ["/usr/bin/env", *preload, f"HAKMEM_OPTIONS={options}"]


def bare(side: Side, *argv: str, watch: Watcher | None = None) -> str:
    """Runs a measuring tool without the library, and without statistics, which cost memory too."""
    tool = Side(side.name, side.root)
    return run(tool, *argv, watch=watch).stderr


class Looker:
    """Looks at the memory of a process's only child until that ends."""

    def __init__(self) -> None:
        self.peak_kib = 0

    def __call__(self, parent: subprocess.Popen[str]) -> None:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        try:
            while not children.read_text():
                time.sleep(LOOK_SECONDS)
            (child,) = children.read_text().split()
            while resident := re.search(
                r"^Rss: +(\d+) kB", Path(f"/proc/{child}/smaps_rollup").read_text(), re.MULTILINE
            ):
                self.peak_kib = max(self.peak_kib, int(resident[1]))
                time.sleep(LOOK_SECONDS)
        except (OSError, ValueError):  # it has ended
            return


def peak_kib(side: Side, argv: tuple[str, ...], options: str = "") -> int:
    report = side.root / "peak"
    for left in side.work.glob("rows.db*"):
        left.unlink()
    looker = Looker()
    timer = ("/usr/bin/time", "-f", "%M", "-o", str(report))
    said = bare(side, *timer, *SAME_ADDRESSES, *preloaded(side, options), *argv, watch=looker)
    assert "ERROR: ld.so" not in said, said
    return max(looker.peak_kib, int(report.read_text()))


@pytest.mark.parametrize("program", PROGRAMS)
def test_peak_resident_memory(sides: Sides, program: str) -> None:
    argv = PROGRAMS[program]
    for side in sides:
        (side.work / "memory.sql").write_text(sql.IN_MEMORY)
        (side.work / "file.sql").write_text(sql.SCRIPT)
    run(sides.hakmem, *argv)  # Proves that the library gets into this program and serves it.
    # One at a time: how much is purged follows the clock, and beside another the program is slower.
    peaks = [
        (
            peak_kib(sides.glibc, argv),
            peak_kib(sides.hakmem, argv, "guard_rate=0"),
            peak_kib(sides.hakmem, argv),
        )
        for _ in range(SAMPLES)
    ]
    glibc, hakmem, sampled = (sorted(column) for column in zip(*peaks, strict=True))
    bound = LARGEST_RATIO * statistics.median(glibc) + LARGEST_EXTRA_KIB
    print(f"{program}: bound {bound:.0f} KiB; glibc {glibc}, HAKMEM {hakmem}, sampling {sampled}")
    assert hakmem[QUARTER] <= bound
    assert sampled[QUARTER] <= bound + LARGEST_SAMPLING_KIB


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
