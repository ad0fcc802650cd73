"""Do the notes in the sources and the machine code of the library agree?

Checked both ways, as each side sees what the other cannot. The sources show fences that this
processor needs no instruction for, and code of other processors. The machine code shows what no
search for names finds: a macro, `counter++` on an _Atomic, a store in an order that takes an XCHG.

    1. each atomic read-modify-write and each fence in the sources has a note of the right form
    2. each note stands above one
    3. each atomic and fence instruction of the library comes from a line that has a note
       (clang joins equal ends of branches and names no line for them: those it passes over)
    4. no note says hot, and no fast path executes an atomic or a fence
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.machine_code.annotations import FORM, Fault, Operation, Sources
from hakmem_lab.machine_code.atomics import Atomic
from hakmem_lab.machine_code.elf import Image
from hakmem_lab.machine_code.trace import HitPath

# What a hit must not execute.
FORBIDDEN = ("atomics", "fences")

Paths = Mapping[tuple[str, int], HitPath]


def operation_of(sources: Sources | None, atomic: Atomic) -> Operation | None:
    """The line of the source that an instruction was compiled from."""
    return sources.at(*atomic.place) if sources and atomic.place else None


def faults_of(sources: Sources, image: Image, atomics: Sequence[Atomic], paths: Paths) -> list[str]:
    """Every fault as a line; none when all is well."""
    if not image.lines.are_there:
        raise LabError(
            f"{image.path} has no debug information, so its atomics cannot be matched with the "
            "sources; build it with -g"
        )
    found = {*sources.faults, *_faults_of_sources(sources), *_faults_of_code(sources, atomics)}
    where = sources.folder.name
    lines = [
        f"{where}/{fault.file}:{fault.line}: {fault.what}"
        for fault in sorted(found, key=lambda fault: (fault.file, fault.line, fault.what))
    ]
    if lines and (newer := _newer(sources, image.path, found)):
        lines.append(f"note: {where}/{newer} is newer than {image.path}; was it built since?")
    lines += [
        f"{atomic.function}: `{atomic.text}` at {atomic.address:#x} is of no line of the sources"
        for atomic in atomics
        if atomic.place is None
    ]
    return lines + _faults_of_paths(paths)


def _faults_of_sources(sources: Sources) -> Iterable[Fault]:
    for each in sources.operations:
        if each.needs_note and each.note is None:
            yield Fault(each.file, each.first_line, f"{each.name} has no note above it: {FORM}")
        elif each.note and each.note.heat == "hot":
            yield Fault(each.file, each.first_line, f"{each.name} is hot: the fast path has none")


def _faults_of_code(sources: Sources, atomics: Iterable[Atomic]) -> Iterable[Fault]:
    compiled = set()
    for atomic in atomics:
        operation = operation_of(sources, atomic)
        compiled.add(operation)
        if atomic.place and atomic.place[1] and operation is None:
            what = f"`{atomic.text}` in {atomic.function}, and no atomic_ call with a note above it"
            yield Fault(sources.name_of(atomic.place[0]), atomic.place[1], what)
    for each in sources.operations:
        if not each.needs_note and each not in compiled:
            what = f"a note above {each.name}, which is no read-modify-write and no fence"
            yield Fault(each.file, each.first_line, what)


def _faults_of_paths(paths: Paths) -> list[str]:
    lines = []
    for (call, size), path in paths.items():
        counts = path.counts()
        lines += [
            f"fast path of {call}, {size} bytes: {counts[kind]} {kind}, allowed: none"
            for kind in FORBIDDEN
            if counts[kind]
        ]
    return lines


def _newer(sources: Sources, library: Path, faults: Iterable[Fault]) -> str | None:
    built = library.stat().st_mtime
    for fault in faults:
        path = sources.folder / fault.file
        if path.is_file() and path.stat().st_mtime > built:
            return fault.file
    return None
