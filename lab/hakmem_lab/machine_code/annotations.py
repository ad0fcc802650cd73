"""The notes that our sources carry about their atomics.

Above each atomic read-modify-write and each fence stands a comment of this form:

    /* atomic: warm, correctness; pairs with the release in os_lock_release. */
    atomic_compare_exchange_strong_explicit(...)

    how often    cold   when memory is mapped, moved or given back; at start, end and fork
                 warm   once a batch of blocks, or once a large block
                 hot    in malloc and free when they hit: never, by the rules of the house
    what for     correctness   without it the allocator would be wrong
                 telemetry     without it a figure of the statistics would be
    and then     its partner, or why it needs none

An atomic that is used in several places is as hot as in the hottest of them. A note holds for the
statement below it, which has an atomic or a fence, or the note is stale.

This reads C as text: comments and strings are told apart, parentheses counted, and that is all. An
atomic that hides from it (a macro, x++ on an _Atomic) is found in the machine code (verdict.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.errors import MissingError

FORM = "/* atomic: cold|warm, correctness|telemetry; its partner */"
_SOURCES = (".c", ".h", ".cc", ".hpp")

_COMMENT_OR_STRING = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL
)
_NOTE = re.compile(r"atomic: (hot|warm|cold), (telemetry|correctness); (\S.*)")
# What must carry a note. Any other atomic_ call may: atomic_store is an XCHG on x86-64.
_REQUIRED = re.compile(
    r"(__)?atomic_(fetch_\w+|\w+_fetch|exchange\w*|compare_exchange\w*|(flag_)?test_and_set\w*"
    r"|thread_fence|signal_fence)|__sync_\w+|_mm_[lms]fence|__builtin_ia32_[lms]fence"
)
_OPERATION = re.compile(
    r"\b((?:__)?atomic_\w+|__sync_\w+|_mm_[lms]fence|__builtin_ia32_[lms]fence"
    r"|(?:__)?asm(?:__)?(?:\s+(?:__)?volatile(?:__)?)?)\s*\("
)
_ASSEMBLY = re.compile(
    r"\b(lock|xchg\w*|[mls]fence|st\w?x[rp]\w*|cas\w*|swp\w*|ld(add|clr|eor|set)\w*|dmb|dsb)\b"
)


@dataclass(frozen=True)
class Note:
    """What a comment says of the atomic below it."""

    heat: str  # hot, warm or cold
    purpose: str  # telemetry or correctness
    partner: str


@dataclass(frozen=True)
class Operation:
    """An atomic operation or a fence as it is written, from its name to its closing parenthesis."""

    file: str  # from the source folder
    first_line: int
    last_line: int
    name: str
    needs_note: bool
    note: Note | None


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, at a line; file from the source folder."""

    file: str
    line: int
    what: str


@dataclass(frozen=True)
class Sources:
    """All operations of a source folder; those that need no note, only where they have one."""

    folder: Path
    operations: tuple[Operation, ...]
    faults: tuple[Fault, ...]  # notes that say nothing, or stand above nothing

    def at(self, file: str, line: int) -> Operation | None:
        """The operation written at a line; file as the compiler wrote it."""
        name = self.name_of(file)
        found = [
            each
            for each in self.operations
            if each.file == name and each.first_line <= line <= each.last_line
        ]
        return found[0] if found else None

    def name_of(self, file: str) -> str:
        """src/os/lock.h, or an absolute path that ends so, is os/lock.h."""
        return f"/{file}".rpartition(f"/{self.folder.name}/")[2]


def read_sources(folder: Path) -> Sources:
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES)
    if not files:
        raise MissingError(f"there are no sources in {folder}")
    found: list[Operation | Fault] = []
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        found += _read(path.relative_to(folder).as_posix(), text)
    return Sources(
        folder,
        tuple(each for each in found if isinstance(each, Operation)),
        tuple(each for each in found if isinstance(each, Fault)),
    )


def _read(file: str, text: str) -> Iterator[Operation | Fault]:
    code = _COMMENT_OR_STRING.sub(_blank, text)
    notes: dict[int, Note] = {}  # by the place where the comment ends
    for found in _COMMENT_OR_STRING.finditer(text):
        words = _words_of(found["comment"] or "")
        if not words.startswith("atomic:"):
            continue
        if parts := _NOTE.fullmatch(words):
            notes[found.end()] = Note(parts[1], parts[2], parts[3])
        else:
            yield Fault(file, _line(text, found.start()), f"the note is not of the form {FORM}")
    used: set[int] = set()
    for found in _OPERATION.finditer(code):
        end = _closing(code, found.end() - 1)
        above = [place for place in notes if place <= found.start()]
        place = max(above, default=-1)
        holds = bool(above) and not re.search(r"[;{}]", code[place : found.start()])
        required = _is_required(found[1], text[found.start() : end])
        if holds:
            used.add(place)
        if holds or required:
            lines = _line(code, found.start()), _line(code, end)
            note = notes[place] if holds else None
            yield Operation(file, *lines, found[1].split()[0], required, note)
    for place in sorted(notes.keys() - used):
        yield Fault(file, _line(text, place), "a note about an atomic, and none below it")


def _is_required(name: str, statement: str) -> bool:
    if "asm" in name:
        return _ASSEMBLY.search(statement) is not None
    return _REQUIRED.fullmatch(name) is not None


def _blank(found: re.Match[str]) -> str:
    """As long as before and with the same lines, so that places in the text stay right."""
    return re.sub(r"[^\n]", " ", found[0])


def _words_of(comment: str) -> str:
    """A comment without its marks, on one line."""
    bare = re.sub(r"^/\*+|\*+/$|^//+", "", comment)
    lines = (re.sub(r"^\s*\*?\s*|\s*\\?\s*$", "", line) for line in bare.split("\n"))
    return " ".join(line for line in lines if line)


def _closing(code: str, opening: int) -> int:
    """The place of the parenthesis that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(code)):
        depth += (code[place] == "(") - (code[place] == ")")
        if depth == 0:
            return place
    return opening


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
