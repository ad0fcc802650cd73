"""What the checks may look at. All of it can be made up: files are read below `root`, and what no
file tells (limits, the environment, the C library) is a field."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

UNLIMITED = resource.RLIM_INFINITY


@dataclass(frozen=True)
class Limit:
    """UNLIMITED is -1."""

    soft: int = UNLIMITED
    hard: int = UNLIMITED


def _limits() -> dict[str, Limit]:
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        name.removeprefix("RLIMIT_"): Limit(*resource.getrlimit(getattr(resource, name)))
        for name in names
    }


def _rseq_size() -> int | None:
    """Bytes of the area that glibc has registered; 0: none; None: this glibc is too old to say."""
    try:
        return ctypes.c_uint.in_dll(ctypes.CDLL(None), "__rseq_size").value
    except (ValueError, OSError):
        return None


@dataclass(frozen=True)
class Host:
    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    limits: Mapping[str, Limit] = field(default_factory=_limits)
    machine: str = field(default_factory=platform.machine)
    libc: str = field(default_factory=lambda: platform.libc_ver()[1])
    rseq_bytes: int | None = field(default_factory=_rseq_size)
    page_bytes: int = field(default_factory=lambda: os.sysconf("SC_PAGE_SIZE"))
    processors: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    which: Callable[[str], str | None] = shutil.which

    def text(self, path: str) -> str | None:
        """A file's contents; None when it is not there or may not be read."""
        try:
            found = (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return found.replace("\0", " ").strip()

    def number(self, path: str) -> int | None:
        text = self.text(path)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None

    def chosen(self, path: str) -> str | None:
        """The marked word of a setting such as `always [madvise] never`."""
        found = re.search(r"\[([\w+-]+)\]", self.text(path) or "")
        return found.group(1) if found else None

    def glob(self, pattern: str) -> list[str]:
        """The paths that match, from `/`, sorted."""
        return sorted(f"/{path.relative_to(self.root)}" for path in self.root.glob(pattern[1:]))

    def meminfo(self, name: str) -> int | None:
        """A line of /proc/meminfo, in bytes where the kernel says kB."""
        pattern = rf"^{re.escape(name)}:\s+(\d+)( kB)?\s*$"
        found = re.search(pattern, self.text("/proc/meminfo") or "", re.MULTILINE)
        return int(found[1]) * (1024 if found[2] else 1) if found else None

    def limit(self, name: str) -> int:
        """The soft limit: the one that counts."""
        return self.limits.get(name, Limit()).soft

    def raise_limit(self, name: str, option: str, to: str) -> str:
        """What to type: a shell may raise its soft limit up to the hard one, only root that."""
        if self.limits.get(name, Limit()).hard == UNLIMITED:
            return f"ulimit -{option} {to}"
        return f"sudo prlimit --pid $$ --{name.lower()}=unlimited:unlimited"

    def kernel(self) -> tuple[int, int] | None:
        found = re.match(r"(\d+)\.(\d+)", self.text("/proc/sys/kernel/osrelease") or "")
        return (int(found[1]), int(found[2])) if found else None


def size(count: int) -> str:
    """Bytes in the unit that people would use."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << power:
            return f"{count / (1 << power):,.4g} {unit}"
    return f"{count} bytes"
