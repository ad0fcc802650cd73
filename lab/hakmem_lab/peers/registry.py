"""Which other allocators there are, and where each one is on this machine.

A peer that was installed by `hakmem peers install` lies in peers_dir() as NAME.so with NAME.json
beside it (version, origin). Debian's packages also count where the system has them already.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem_lab import paths
from hakmem_lab.errors import LabError, MissingError
from hakmem_lab.measure import Allocator
from hakmem_lab.options import allocator_options
from hakmem_lab.suites import STUB

HAKMEM = "hakmem"
SYSTEM = "glibc"


@dataclass(frozen=True)
class Peer:
    name: str
    version: str
    origin: str
    system_globs: tuple[str, ...] = ()  # where the system's own package would have put it
    default: bool = True  # measured when no peers are named


PEERS: tuple[Peer, ...] = (
    Peer("mimalloc", "3.4.3", "PyPI cmeel-mimalloc"),
    Peer(
        "tcmalloc",
        "gperftools 2.10",
        "Debian libtcmalloc-minimal4",
        (f"/usr/lib/{platform.machine()}-linux-gnu/libtcmalloc_minimal.so.4",),
    ),
    Peer("jemalloc", "5.3.1", "crate tikv-jemalloc-sys 0.7.1"),
    Peer("snmalloc", "0.7.6", "crate snmalloc-sys 0.7.6"),
    Peer("rpmalloc", "1.4.3", "crate rpmalloc-sys 0.2.3"),
    Peer(
        "scudo",
        "LLVM 14",
        "Debian libclang-rt-14-dev",
        (
            "/usr/lib/llvm-14/lib/clang/14*/lib/linux/"
            f"libclang_rt.scudo_standalone-{platform.machine()}.so",
        ),
        default=False,  # for the comparison of hardened allocators
    ),
)


def peer(name: str) -> Peer:
    for candidate in PEERS:
        if candidate.name == name:
            return candidate
    raise LabError(f"there is no peer '{name}'; there are: {', '.join(names())}")


def names() -> list[str]:
    return [SYSTEM, *(candidate.name for candidate in PEERS)]


def default_names() -> list[str]:
    return [SYSTEM, *(candidate.name for candidate in PEERS if candidate.default)]


def installed_library(name: str) -> Path:
    return paths.peers_dir() / f"{name}.so"


def find(candidate: Peer) -> Allocator | None:
    library = installed_library(candidate.name)
    if library.is_file():
        return _installed(candidate, library)
    for pattern in candidate.system_globs:
        for found in sorted(Path("/").glob(pattern.lstrip("/"))):
            origin = f"{candidate.origin} (installed)"
            return Allocator(candidate.name, found.resolve(), _debian_version(candidate), origin)
    return None


def _debian_version(candidate: Peer) -> str:
    package = candidate.origin.rpartition(" ")[2]
    query = ["dpkg-query", "-W", "-f", "${Version}", package]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return candidate.version
    return done.stdout.strip() or candidate.version


def _installed(candidate: Peer, library: Path) -> Allocator:
    note = library.with_suffix(".json")
    facts = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    version = facts.get("version", candidate.version)
    origin = facts.get("from", candidate.origin)
    return Allocator(candidate.name, library.resolve(), version, origin)


def system() -> Allocator:
    return Allocator(SYSTEM, None, platform.libc_ver()[1], "the system")


def preloaded_system() -> Allocator:
    """For programs that bring a malloc of their own: the C library put before it."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    library = re.search(r"(/\S+/libc(?:\.so\.6|-2\.\d+\.so))$", maps, re.MULTILINE)
    if library is None:
        raise MissingError("the C library of this system is not where it was looked for")
    return replace(system(), library=Path(library[1]))


def before_its_own(allocator: Allocator) -> Allocator:
    """The allocator in a form that takes the place of a program's own malloc."""
    return preloaded_system() if allocator.library is None else allocator


def stub() -> Allocator:
    return Allocator(STUB, paths.tool("libstub.so"), "", "the do-nothing limit")


def hakmem(options: str = "") -> Allocator:
    library = paths.library()
    return Allocator(HAKMEM, library, paths.version(library), "this build", options)


def hakmem_in(profile: str, settings: Sequence[str]) -> Allocator:
    """This build in a profile, beside itself in another: "hakmem (lean)"."""
    return replace(hakmem(allocator_options(profile, settings)), name=f"{HAKMEM} ({profile})")


def hakmem_with(variant: str, settings: Sequence[str]) -> Allocator:
    """This build with other options, beside itself without: "hakmem (hardened=1)"."""
    options = allocator_options(None, [*settings, *variant.split(",")])
    return replace(hakmem(options), name=f"{HAKMEM} ({variant})")


def choose(wanted: Sequence[str] | None) -> tuple[list[Allocator], dict[str, str]]:
    """The named peers, or all that are compared by default; and the missing, with the reason.

    A peer that was named and is not here is an error: the question could not be answered."""
    found: list[Allocator] = []
    missing: dict[str, str] = {}
    for name in default_names() if wanted is None else list(dict.fromkeys(wanted)):
        if name == SYSTEM:
            found.append(system())
            continue
        if name == STUB:
            found.append(stub())
            continue
        allocator = find(peer(name))
        if allocator is not None:
            found.append(allocator)
        elif wanted is None:
            missing[name] = "not here; fetch it with: hakmem peers install"
        else:
            raise MissingError(f"{name} is not here; fetch it with: hakmem peers install {name}")
    return found, missing
