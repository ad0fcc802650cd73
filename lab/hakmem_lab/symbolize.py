"""The stacks of HAKMEM's reports with file and line.

A process that finds an error names the functions that its objects export, and for all others the
object and the place in it: reading debug information takes memory and locks that it may not have
then. Afterwards there is time:

    hakmem:     #0 0x55b01281b19a (/usr/bin/server+0x119a)
    hakmem:     #0 0x55b01281b19a drop at /src/server.c:17 (/usr/bin/server+0x119a)
    hakmem:        inlined into main at /src/server.c:30

The objects must be those that ran, with debug information (-g) for lines; without, functions that
are not exported have names at least. binutils' addr2line reads it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from hakmem_lab.errors import MissingError

_FRAME = re.compile(
    r"^(?P<head>(?:.*\s)?#\d+ 0x[0-9a-f]+) (?:(?P<symbol>\S+)\+0x[0-9a-f]+ )?"
    r"\((?P<object>/.*)\+0x(?P<offset>[0-9a-f]+)\)$"
)


@dataclass(frozen=True)
class Frame:
    """A line of a report. offset: where the call returns to, from where the object begins."""

    head: str
    symbol: str
    object: str
    offset: int


@dataclass(frozen=True)
class Place:
    """The first of a frame is the innermost: those before the last were inlined into the next."""

    function: str
    line: str  # "file:line", or empty

    def __str__(self) -> str:
        return f"{self.function} at {self.line}" if self.line else self.function


def frame_of(line: str) -> Frame | None:
    found = _FRAME.match(line)
    if found is None:
        return None
    return Frame(found["head"], found["symbol"] or "", found["object"], int(found["offset"], 16))


def symbolize(lines: Iterable[str], missing: set[str]) -> Iterator[str]:
    """The lines, those of frames with what is known of them; each stack as soon as it is whole.
    Objects that cannot be read are added to missing, and their frames stay as they are."""
    for is_stack, group in groupby(lines, lambda line: frame_of(line) is not None):
        if is_stack:
            yield from _stack(list(group), missing)
        else:
            yield from group


def _stack(lines: Sequence[str], missing: set[str]) -> Iterator[str]:
    frames = [frame for frame in map(frame_of, lines) if frame is not None]
    known: dict[tuple[str, int], list[Place]] = {}
    for name in dict.fromkeys(frame.object for frame in frames):
        offsets = sorted({frame.offset for frame in frames if frame.object == name})
        known |= {(name, offset): found for offset, found in places(name, offsets, missing)}
    for line, frame in zip(lines, frames, strict=True):
        yield from _described(line, frame, known.get((frame.object, frame.offset), []))


def _described(line: str, frame: Frame, found: Sequence[Place]) -> Iterator[str]:
    if not found:
        yield line
        return
    yield f"{frame.head} {found[0]} ({frame.object}+0x{frame.offset:x})"
    indent = frame.head[: frame.head.index("#")] + "   "
    for outer in found[1:]:
        yield f"{indent}inlined into {outer}"


def places(
    name: str, offsets: Sequence[int], missing: set[str]
) -> Iterator[tuple[int, list[Place]]]:
    """What addr2line says of places in an object, as far as it knows the function."""
    start = _first_address(name)
    if start is None:
        missing.add(name)
        return
    # A return address is behind its call, perhaps in another line or function.
    addresses = [f"0x{start + offset - 1:x}" for offset in offsets]
    done = subprocess.run(
        [_addr2line(), "-a", "-f", "-i", "-C", "-e", name, *addresses],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    answers = re.split(r"^0x[0-9a-f]+\n", done.stdout, flags=re.MULTILINE)[1:]
    for offset, answer in zip(offsets, answers, strict=False):
        rows = answer.splitlines()
        found = [Place(*_named(*pair)) for pair in zip(rows[::2], rows[1::2], strict=False)]
        if found and found[0].function != "??":
            yield offset, found


def _named(function: str, line: str) -> tuple[str, str]:
    file, _, number = re.sub(r" \(discriminator \d+\)$", "", line).rpartition(":")
    return function, f"{file}:{number}" if file != "??" and number.isdecimal() else ""


@cache
def _first_address(name: str) -> int | None:
    """Where the object's image begins in its own addresses: 0, or as a program is linked that
    cannot be moved. None: it is not there, or no object."""
    try:
        with Path(name).open("rb") as file:
            loaded = [part for part in ELFFile(file).iter_segments() if part["p_type"] == "PT_LOAD"]
            starts = [int(part["p_vaddr"] - part["p_vaddr"] % part["p_align"]) for part in loaded]
            return min(starts)
    except (OSError, ELFError, ValueError):
        return None


@cache
def _addr2line() -> str:
    found = shutil.which("addr2line")
    if found is None:
        raise MissingError("there is no addr2line here; install it with: apt-get install binutils")
    return found
