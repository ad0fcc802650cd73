"""Runs a program twice, under glibc's allocator and under HAKMEM, and compares.

LD_PRELOAD puts the library in front of a program's own malloc. That is easy to
get wrong without noticing: the dynamic linker only warns when a preload fails,
and then the "HAKMEM" run is a second glibc run that passes everything. So no run
here counts until two things are proved:

  mapped   /proc/PID/maps of the process names the library (servers.py);
  served   at its exit the process wrote statistics, through
           HAKMEM_OPTIONS=stats=exit:json, with blocks_taken > 0 (prove_served).

The two sides get equal folders, equal and otherwise empty environments, and run
at the same time, since most of these programs use one processor or wait. What
they print may differ in times, process ids and addresses only, and only where the
test lists a Filter for it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Watcher = Callable[[subprocess.Popen[str]], None]

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("HAKMEM_LIBRARY", ROOT / "build/release/libhakmem.so")).resolve()

# Another allocator may be given as HAKMEM_LIBRARY, to see whether a failure is
# HAKMEM's own or any allocator's. It keeps no statistics of HAKMEM's kind.
KEEPS_STATISTICS = LIBRARY.name.startswith("libhakmem")

# For runs of the same programs in another mode.
MORE_OPTIONS = os.environ.get("HAKMEM_MORE_OPTIONS", "")

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Filter:
    """One difference that is allowed: every match of pattern becomes replacement."""

    pattern: str
    replacement: str


# "1.3 ms", "0.01s", "2 min 3 sec", "12 seconds"
TIMES = Filter(r"\b\d+(\.\d+)?\s?(ms|msecs?|s|secs?|seconds?|min(utes?)?)\b", "<time>")
CLOCK = Filter(r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "<clock>")
ADDRESSES = Filter(r"\b0x[0-9a-f]{6,16}\b", "<address>")


@dataclass(frozen=True)
class Side:
    """One of the two worlds; everything that its programs write lies under root."""

    name: str
    root: Path
    library: Path | None = None

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def statistics(self) -> Path:
        return self.root / "statistics"

    def prepare(self) -> Side:
        """Makes the folders; other users may enter, and leave statistics."""
        self.work.mkdir(parents=True)
        self.statistics.mkdir()
        self.root.chmod(0o755)
        self.statistics.chmod(0o1777)
        return self

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        env = {"PATH": PATH, "HOME": str(self.work), "TMPDIR": str(self.work)}
        env |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb"}
        if self.library is not None:
            env["LD_PRELOAD"] = str(self.library)
            if KEEPS_STATISTICS:
                where = self.statistics / "%p.json"
                options = [f"stats=exit:json,stats_file={where}", MORE_OPTIONS]
                env["HAKMEM_OPTIONS"] = ",".join(filter(None, options))
        return env | dict(extra or {})


@dataclass(frozen=True)
class Sides:
    glibc: Side
    hakmem: Side

    def __iter__(self) -> Iterator[Side]:
        return iter((self.glibc, self.hakmem))

    def at_once(self, work: Callable[[Side], T]) -> tuple[T, T]:
        """work for both sides in parallel; the first exception is raised when both ended."""
        with ThreadPoolExecutor(2) as pool:
            glibc, hakmem = (pool.submit(work, side) for side in self)
        return glibc.result(), hakmem.result()


@dataclass(frozen=True)
class Result:
    argv: Sequence[str]
    pid: int
    returncode: int
    stdout: str
    stderr: str = field(default="")

    def __str__(self) -> str:
        streams = f"stdout:\n{self.stdout[-2000:]}\nstderr:\n{self.stderr[-4000:]}"
        return f"{' '.join(self.argv)}\nexit code {self.returncode}\n{streams}"


def end_group(process: subprocess.Popen[str]) -> None:
    """Ends a process that run() or a server started as the leader of its own group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(
    side: Side,
    *argv: str | Path,
    stdin: str | None = None,
    timeout: float = 120,
    environment: Mapping[str, str] | None = None,
    succeeds: bool = True,
    user: str | None = None,
    watch: Watcher | None = None,
    is_served: bool = True,
) -> Result:
    """Runs a program to its end in side.work and, unless told not to, proves that HAKMEM served it.

    watch, called in a thread of its own, may look at the process while it runs.
    """
    command = [str(word) for word in argv]
    process = subprocess.Popen(
        command,
        cwd=side.work,
        env=side.environment(environment),
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,
        **identity(user),
    )
    with ThreadPoolExecutor(1) as pool:
        watched = pool.submit(watch or (lambda _: None), process)
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            said = f"{(late.stdout or b'')[-2000:]!r}\n{(late.stderr or b'')[-2000:]!r}"
            words = " ".join(command)
            raise AssertionError(f"{side.name}: not over in {timeout} s: {words}\n{said}") from None
        finally:
            end_group(process)
    watched.result()
    result = Result(command, process.pid, process.returncode, stdout, stderr)
    if succeeds:
        assert result.returncode == 0, f"{side.name}: {result}"
    if is_served:
        prove_served(side, process.pid)
    return result


def identity(user: str | None) -> dict[str, Any]:
    """Popen's arguments to run as user, which only root can and must do."""
    if user is None or os.geteuid() != 0:
        return {}
    return {"user": user, "group": user, "extra_groups": []}


def prove_served(side: Side, *pids: int) -> None:
    """Each of pids, ended by now, wrote statistics that say that it took blocks.

    A program that leaves by _exit(2), as dash does, writes none. Its children may have written
    some as well, and rightly say 0 blocks when they are like /bin/true.
    """
    if side.library is None or not KEEPS_STATISTICS:
        return
    for pid in pids:
        file = side.statistics / f"{pid}.json"
        assert file.exists(), f"process {pid} left no statistics"
        counts = json.loads(file.read_text())
        assert counts["pid"] == pid, counts
        served = counts["blocks_taken"] + counts["guarded"]["taken"]
        assert served > 0, f"HAKMEM served nothing to {pid}: {counts}"


def filtered(side: Side, text: str, filters: Sequence[Filter]) -> list[str]:
    text = text.replace(str(side.root), "<root>")
    for each in filters:
        text = re.sub(each.pattern, each.replacement, text, flags=re.MULTILINE)
    return text.splitlines()


def assert_same_text(sides: Sides, texts: Sequence[str], *filters: Filter) -> None:
    """texts are what the two sides said, glibc first."""
    glibc, hakmem = texts
    expected = filtered(sides.glibc, glibc, filters)
    got = filtered(sides.hakmem, hakmem, filters)
    if expected != got:
        lines = list(difflib.unified_diff(expected, got, "glibc", "hakmem", lineterm="", n=2))
        raise AssertionError("\n".join(["output differs:", *lines[:80]]))


def assert_same(
    sides: Sides, *argv: str | Path, filters: Sequence[Filter] = (), **options: Any
) -> str:
    """Runs argv on both sides; exit code, stdout and stderr must agree. Returns glibc's stdout."""
    glibc, hakmem = sides.at_once(lambda side: run(side, *argv, **options))
    assert glibc.returncode == hakmem.returncode, f"glibc: {glibc}\n\nhakmem: {hakmem}"
    assert_same_text(sides, (glibc.stderr, hakmem.stderr), *filters)
    assert_same_text(sides, (glibc.stdout, hakmem.stdout), *filters)
    return glibc.stdout


def digests(folder: Path, *patterns: str) -> dict[str, str]:
    """SHA-256 of every file below folder that fits one of the patterns, by relative path."""
    files = {file for pattern in patterns for file in folder.rglob(pattern) if file.is_file()}
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(files)
    }


def assert_same_files(sides: Sides, *patterns: str) -> dict[str, str]:
    """The files that both sides produced are the same, byte for byte, and there are some."""
    glibc, hakmem = (digests(side.work, *patterns) for side in sides)
    assert glibc, f"nothing was produced that fits {patterns}"
    differing = sorted(name for name in glibc | hakmem if glibc.get(name) != hakmem.get(name))
    assert not differing, f"files differ: {differing[:20]}"
    return glibc


def write_both(sides: Sides, name: str, text: str) -> None:
    """Puts the same input file into both working folders."""
    for side in sides:
        target = side.work / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
