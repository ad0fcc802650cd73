"""Where things are: in a checkout, or under the prefix of `make install`.

In a checkout this file is lab/hakmem_lab/paths.py; the library and the drivers are in
build/release. Installed, it is PREFIX/share/hakmem/lab/hakmem_lab/paths.py; the drivers are in
PREFIX/share/hakmem/bench and the library in PREFIX/lib.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from hakmem_lab.errors import MissingError

_HOME = Path(__file__).resolve().parents[2]


def is_checkout() -> bool:
    return (_HOME / "CMakePresets.json").is_file()


def checkout() -> Path:
    """The root of the source tree; an error when the command was installed without it."""
    if not is_checkout():
        raise MissingError("this needs a checkout of HAKMEM's source; the command is installed")
    return _HOME


def library() -> Path:
    """libhakmem.so: $HAKMEM_LIBRARY, else the release build, else the installed one."""
    chosen = os.environ.get("HAKMEM_LIBRARY")
    if chosen:
        candidates = [Path(chosen)]
        advice = "it is what HAKMEM_LIBRARY names"
    elif is_checkout():
        candidates = [_HOME / "build/release/libhakmem.so"]
        advice = "build it with: make"
    else:
        prefix = _HOME.parents[1]
        candidates = sorted(prefix.glob("lib*/libhakmem.so"))
        candidates += sorted(prefix.glob("lib/*/libhakmem.so"))
        advice = f"it should have been installed under {prefix}"
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    where = str(candidates[0]) if candidates else "libhakmem.so"
    raise MissingError(f"the library is not there: {where} ({advice})")


def system_libc() -> Path:
    """The C library that this process runs with: the system's malloc is in it."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        name = line.split(maxsplit=5)[-1]
        if Path(name).name.startswith(("libc.so", "ld-musl")):
            return Path(name)
    raise MissingError("the C library of this process cannot be found")


def version(library_path: Path) -> str:
    """What HAKMEM's header says, with the commit in a checkout; "" for a library from elsewhere."""
    if os.environ.get("HAKMEM_LIBRARY"):
        return ""
    prefix = _HOME if is_checkout() else _HOME.parents[1]
    header = prefix / "include/hakmem/hakmem.h"
    if not header.is_file():
        return ""
    numbers = re.findall(r"^#define HAK_VERSION_\w+ (\d+)", header.read_text(), re.MULTILINE)
    commit = _commit() if library_path.is_relative_to(prefix) and is_checkout() else ""
    return ".".join(numbers) + (f" ({commit})" if commit else "")


def _commit() -> str:
    describe = ["git", "-C", str(_HOME), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(describe, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def bench_dir() -> Path:
    """The folder of the drivers; $HAKMEM_BUILD names another build to take them from."""
    chosen = os.environ.get("HAKMEM_BUILD")
    if chosen:
        return Path(chosen) / "bench"
    return _HOME / "build/release/bench" if is_checkout() else _HOME / "bench"


def tool(name: str) -> Path:
    """A program or library of bench/, built on the way when this is a checkout without it."""
    path = bench_dir() / name
    if not path.is_file() and is_checkout() and not os.environ.get("HAKMEM_BUILD"):
        _build_tools()
    if not path.is_file():
        raise MissingError(f"a part of the lab is not there: {path} (build it with: make)")
    return path.resolve()


def _build_tools() -> None:
    command = [str(_HOME / "tools/build"), "release", "--target", "lab_tools"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingError(f"building the drivers failed: {' '.join(command)}\n{done.stdout}")


def peers_dir() -> Path:
    """Where `hakmem peers install` puts other allocators."""
    if is_checkout():
        return _HOME / ".peers"
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local/share") / "hakmem/peers"


def results_dir() -> Path:
    return checkout() / "docs/results"
