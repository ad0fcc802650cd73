#!/usr/bin/env python3
"""Holds what malloc and free execute when they hit to limits and to a reviewed listing.

Usage: fast_path.py LIBRARY [--update] [--show]

The lab records the calls and counts their instructions (lab/hakmem_lab/machine_code); this program
holds the counts against the limits, and compares the listing with the reviewed one in tests/golden/
(one a compiler and architecture). After a change that is meant, `--update` writes the golden file
anew: its diff is what a reviewer reads.

Every size of a group is run, and each different path that the sizes take is listed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))

from hakmem_lab.errors import LabError  # noqa: E402
from hakmem_lab.machine_code.elf import Image, image_of  # noqa: E402
from hakmem_lab.machine_code.listing import stable_listing  # noqa: E402
from hakmem_lab.machine_code.trace import (  # noqa: E402
    C_CALLS,
    HitPath,
    Trace,
    Traces,
    path_of,
    record,
)
from hakmem_lab.measure import Allocator  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"

SMALL = (1, 16, 24, 100, 256, 512, 1000, 1024)
MIDDLE = (1025, 1500, 2048, 3000, 8192, 20000, 32768)


@dataclass(frozen=True)
class Group:
    """Calls that share limits: (most instructions, most conditional branches), None if free."""

    title: str
    call: str
    sizes: tuple[int, ...]
    limits: tuple[int, int] | None


GROUPS = (
    Group("malloc, up to 1 KiB", "malloc", SMALL, (15, 2)),
    Group("malloc, 1 to 32 KiB", "malloc", MIDDLE, (26, 3)),
    Group("free, up to 1 KiB", "free", SMALL, (17, 2)),
    Group("free, 1 to 32 KiB", "free", MIDDLE, None),
)

NEVER = ("calls", "atomics", "fences", "divisions")
SHOWN = ("instructions", "branches", "loads", "stores", *NEVER)


@dataclass(frozen=True)
class GroupPath:
    """One of the paths that the sizes of a group take, and which do."""

    path: HitPath
    sizes: list[int]

    @property
    def counts(self) -> dict[str, int]:
        return self.path.counts()

    def described(self) -> str:
        return "sizes " + ", ".join(map(str, self.sizes))


def paths_of(group: Group, traces: Traces) -> list[GroupPath]:
    """The different paths of a group's sizes."""
    found: dict[Trace, list[int]] = defaultdict(list)
    for size in group.sizes:
        found[traces[group.call, size]].append(size)
    return [GroupPath(path_of(trace), sizes) for trace, sizes in found.items()]


def faults_of(group: Group, path: GroupPath, image: Image) -> list[str]:
    counts = path.counts
    faults = [f"{counts[kind]} {kind}, allowed: none" for kind in NEVER if counts[kind]]
    # The limits are for gcc on x86-64; elsewhere the golden file alone guards the length.
    if group.limits and image.compiler.startswith("gcc") and image.machine == "x86_64":
        for kind, most in zip(("instructions", "branches"), group.limits, strict=True):
            if counts[kind] > most:
                faults.append(f"{counts[kind]} {kind}, allowed: {most}")
    return faults


def golden_text(image: Image, groups: dict[Group, list[GroupPath]]) -> str:
    lines = [
        f"# What a hit executes, compiled by {image.compiler} for {image.machine}.",
        "# Written by tools/fast_path.py --update; read the diff before committing it.",
    ]
    for group, paths in groups.items():
        for path in paths:
            counts = path.counts
            figures = ", ".join(f"{counts[kind]} {kind}" for kind in SHOWN if counts[kind])
            title = f"{group.title} ({path.described()}): {figures}"
            lines += ["", title, *stable_listing(path.path)]
    return "\n".join(lines) + "\n"


def print_table(groups: dict[Group, list[GroupPath]], image: Image) -> int:
    """Prints every path's counts; returns how many break a limit."""
    print(f"{'path':<22}" + "".join(f"{kind:>14}" for kind in SHOWN) + "  limits")
    broken = 0
    for group, paths in groups.items():
        for path in paths:
            limits = (
                "{} instructions, {} branches".format(*group.limits) if group.limits else "none"
            )
            figures = "".join(f"{path.counts[kind]:>14}" for kind in SHOWN)
            print(f"{group.title:<22}{figures}  {limits}")
            for fault in faults_of(group, path, image):
                print(f"    FAULT ({path.described()}): {fault}")
                broken += 1
    return broken


def traces_of(library: Path, tracer: Path) -> Traces:
    """Every size's; an error unless all of them stay inside the library."""
    traces = record(Allocator(library.name, library), tracer, C_CALLS, SMALL + MIDDLE)
    misses = [
        f"{call} of {size} bytes: {len(steps)} instructions, some in {', '.join(sorted(elsewhere))}"
        for (call, size), steps in traces.items()
        if (elsewhere := {file for file, _ in steps} - {str(library)})
    ]
    if misses:
        raise LabError("these calls do not hit:\n" + "\n".join(misses))
    return traces


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "library", type=Path, nargs="?", default=ROOT / "build/release/libhakmem.so"
    )
    parser.add_argument("--tracer", type=Path, help="default: bench/trace_calls by the library")
    parser.add_argument("--update", action="store_true", help="write the golden file anew")
    parser.add_argument("--show", action="store_true", help="print the listings too")
    parser.add_argument("--limits-only", action="store_true", help="compare with no golden file")
    arguments = parser.parse_args()

    library = arguments.library.resolve()
    try:
        traces = traces_of(library, arguments.tracer or library.parent / "bench/trace_calls")
    except LabError as error:
        sys.exit(f"fast_path: {error}")
    groups = {group: paths_of(group, traces) for group in GROUPS}
    image = image_of(str(library))

    broken = print_table(groups, image)
    text = golden_text(image, groups)
    if arguments.show:
        print(text)
    if not arguments.limits_only:
        broken += compare(text, image, library, arguments.update)
    return 1 if broken else 0


def compare(text: str, image: Image, library: Path, update: bool) -> int:
    """Holds the listing to its golden file; 1 when it differs."""
    golden = GOLDEN / f"fast_path.{image.compiler}-{image.machine}.txt"
    if update:
        golden.write_text(text)
        print(f"wrote {golden.relative_to(ROOT)}")
    elif not golden.exists():
        print(f"no {golden.relative_to(ROOT)}: this compiler's code is held to the limits only")
    elif golden.read_text() != text:
        print(f"the fast paths are not those of {golden.relative_to(ROOT)}:", flush=True)
        subprocess.run(["diff", "-u", golden, "-"], input=text, text=True, check=False)
        print(f"if that is meant: tools/fast_path.py --update {library.relative_to(ROOT)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
