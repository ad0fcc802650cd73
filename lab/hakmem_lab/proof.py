"""Proof that a program used the allocator that it is measured with.

The dynamic linker only warns when a library in LD_PRELOAD cannot be loaded, and says nothing when
it ignores the variable (static and privileged programs). A comparison would then measure glibc
against itself. So every sample must bring two kinds of evidence, or it is refused:

1. The witness (bench/tools/witness.c), preloaded before the allocator, has written one line for
   each process that it was loaded into: which object a call of malloc and of free reaches. Every
   line must name the allocator's library, and the measured process itself must have a line. This
   holds for processes of any length of life.
2. A process that was started without the variable (`env -i`, static, privileged) writes no line.
   Those are caught from outside: a watch over the process tree looks every tenth of a second, and
   a process that is there for three looks must have the library in its /proc/PID/maps. A measured
   process that ends before that, under another command name than the one its witness wrote, has
   executed something that was not seen, and is refused too.

What escapes: a child (not the measured process itself) that throws its environment away and lives
less than three tenths of a second.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.errors import NotMappedError

LOOK_EVERY_SECONDS = 0.1


@dataclass(frozen=True)
class Testimony:
    """One line of the witness: in process pid, malloc and free are those of these objects."""

    pid: int
    command: str
    malloc_object: str
    free_object: str


def parse_testimonies(text: str) -> list[Testimony]:
    testimonies = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 4 or not fields[0].isdigit():
            raise NotMappedError(f"the witness wrote a line that cannot be read: {line!r}")
        testimonies.append(Testimony(int(fields[0]), fields[1], fields[2], fields[3]))
    return testimonies


def _is_library(name: str, library: Path | None) -> bool:
    """library None stands for the system's malloc, which lives in libc."""
    if library is None:
        return Path(name).name.startswith(("libc.so", "libc-", "ld-musl"))
    try:
        return os.path.samefile(name, library)
    except OSError:
        return False


def check(
    testimonies: list[Testimony],
    allocator: str,
    library: Path | None,
    pid: int,
    last_command: str,
    seen_mapped: set[int],
) -> None:
    """Raises NotMappedError unless the evidence is whole. seen_mapped: processes of the watch."""
    own = [testimony for testimony in testimonies if testimony.pid == pid]
    if not own and pid not in seen_mapped:
        raise NotMappedError(
            f"{allocator} could not be proved in the program: nothing is preloaded into one that "
            "is linked statically, runs with raised privileges or clears its environment"
        )
    for testimony in testimonies:
        for function, name in (
            ("malloc", testimony.malloc_object),
            ("free", testimony.free_object),
        ):
            if not _is_library(name, library):
                raise NotMappedError(
                    f"{allocator} was to be measured, but in '{testimony.command}' (process "
                    f"{testimony.pid}) {function} is that of {name}"
                )
    if own and own[-1].command != last_command and pid not in seen_mapped:
        raise NotMappedError(
            f"the program became '{last_command}' after '{own[-1].command}' had been seen to use "
            f"{allocator}, and ended before it could be looked at again"
        )


@dataclass
class Watch:
    """Looks at the processes below root while it runs, and remembers what they had mapped. The
    lab's own, which run between root and the program, are no part of the program."""

    root: int
    library: Path | None
    helpers: frozenset[str] = frozenset()  # executables
    mapped: set[int] = field(default_factory=set)
    unmapped: dict[int, str] = field(default_factory=dict)
    _seen: dict[int, tuple[str, int]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def check(self, allocator: str) -> None:
        for pid, program in sorted(self.unmapped.items()):
            raise NotMappedError(
                f"{allocator} was not loaded into a process of the program: {program} "
                f"(process {pid}) has not mapped it"
            )

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_SECONDS):
            for pid in descendants(self.root):
                self.look(pid)

    def look(self, pid: int) -> None:
        """The first look at a program only notes it; a second may find its library, a third may
        find that it has none."""
        program = _program(pid)
        if program is None or program in self.helpers:
            return  # gone, or not the program's: the launcher's child too, before its exec
        known, looks = self._seen.get(pid, ("", 0))
        looks = looks + 1 if known == program else 1
        self._seen[pid] = (program, looks)
        if looks == 1:
            self.mapped.discard(pid)
        elif self.library is None:
            self.mapped.add(pid)
        elif pid not in self.mapped:
            state = has_mapped(pid, self.library)
            if state:
                self.mapped.add(pid)
            elif state is False and looks > 2:
                self.unmapped[pid] = program


def _program(pid: int) -> str | None:
    """The executable that a live process runs; None when it is gone."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except PermissionError:
        return f"a privileged process ({_comm(pid)})"
    except OSError:
        return None


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"


def has_mapped(pid: int, library: Path) -> bool | None:
    """None when that cannot be told: the process is gone, or is still being loaded."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except PermissionError:
        return False
    except OSError:
        return None
    # address, permissions, offset, device, inode, and then the name, which may hold blanks.
    fields = (line.split(maxsplit=5) for line in maps.splitlines())
    mapped = {field[5] for field in fields if len(field) == 6}
    if not mapped:
        return None
    if str(library) in mapped or str(library.resolve()) in mapped:
        return True
    files = {Path(name).name for name in mapped}
    # The dynamic linker maps what is preloaded before it maps libc.
    loading = any(name.startswith("ld-linux") for name in files) and not any(
        name.startswith("libc.so") for name in files
    )
    return None if loading else False


def descendants(root: int) -> list[int]:
    """The live processes below root, without root itself."""
    found: list[int] = []
    todo = [root]
    while todo:
        pids = _children(todo.pop())
        found += pids
        todo += pids
    return found


def _children(pid: int) -> list[int]:
    """None of a process or thread that ends meanwhile."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found
