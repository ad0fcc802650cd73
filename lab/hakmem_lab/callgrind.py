"""Callgrind: the instructions that a run executed, all of them or those of a library's functions.

A profile has, for each function, the object it lies in and lines of what it cost:

    ob=(4) /path/libhakmem.so        names are written once, afterwards only their number
    fn=(210) malloc
    34 12                            a place in the source, and how many instructions
    calls=7 0
    35 900                           what was executed in the callee, which has lines of its own
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.errors import MissingError, RunError
from hakmem_lab.measure import Allocator, Command, environment

_TIMEOUT_SECONDS = 900
_NAME = re.compile(r"\((\d+)\)(?: (.*))?")
_COST = re.compile(r"(?:[+-]?\d+|\*) (\d+)")


@dataclass(frozen=True)
class Profile:
    stdout: bytes
    texts: tuple[str, ...]  # of each process

    @property
    def total(self) -> int:
        lines = (line for text in self.texts for line in text.splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith("totals:"))

    def executed(self, library: Path) -> bool:
        return any(f" {library}\n" in text for text in self.texts)

    def functions_of(self, library: Path) -> Counter[str]:
        """Instructions by function, without those of its callees; inlined ones are the caller's."""
        found: Counter[str] = Counter()
        for text in self.texts:
            found += _functions(text.splitlines(), str(library))
        return found


def _functions(lines: Iterable[str], library: str) -> Counter[str]:
    names: dict[tuple[str, str], str] = {}
    found: Counter[str] = Counter()
    here = {"ob": "", "fn": ""}
    is_of_callee = False
    for line in lines:
        key, equals, value = line.partition("=")
        kind = key[-2:]
        if equals and kind in here:  # cob and cfn are the callee's, of the same numbers
            match = _NAME.fullmatch(value)
            if match is None:
                continue
            name = names.setdefault((kind, match[1]), match[2] or "")
            if key == kind:
                here[kind] = name
        elif key == "calls":
            is_of_callee = True
        elif (cost := _COST.fullmatch(line)) is not None:
            if not is_of_callee and here["ob"] == library:
                found[here["fn"]] += int(cost[1])
            is_of_callee = False
    return found


def profile(
    name: str, command: Command, allocator: Allocator, between: tuple[str, str] | None = None
) -> Profile:
    """Runs the command, which messages call by this name. Between the calls of two functions of the
    program, if they are told, and else from its start to its end."""
    if shutil.which("valgrind") is None:
        raise MissingError("counting instructions needs callgrind: apt-get install valgrind")
    with tempfile.TemporaryDirectory(prefix="hakmem-callgrind-") as folder:
        bounds = [f"--zero-before={between[0]}", f"--dump-before={between[1]}"] if between else []
        stdout = _run(name, command, allocator, Path(folder), bounds)
        texts = [path.read_text(errors="replace") for path in Path(folder).glob("profile.*")]
    if between is not None:
        texts = [text for text in texts if f"\ndesc: Trigger: --dump-before={between[1]}\n" in text]
        if not texts:
            raise RunError(f"{name} did not call {between[1]}, so nothing was counted")
    return Profile(stdout, tuple(texts))


def _run(
    name: str, command: Command, allocator: Allocator, folder: Path, more: Sequence[str]
) -> bytes:
    words = ["valgrind", "--tool=callgrind", "--quiet", "--trace-children=yes", *more]
    words += [f"--callgrind-out-file={folder}/profile.%p", *command.words]
    variables = {**command.variables, "LD_PRELOAD": str(allocator.library)}
    try:
        done = subprocess.run(
            words,
            input=command.stdin,
            env=environment(allocator, variables),
            cwd=command.directory,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"{name} did not end within {_TIMEOUT_SECONDS} seconds under callgrind"
        ) from None
    if done.returncode != 0:
        complaint = done.stderr.decode(errors="replace").strip()[-300:]
        raise RunError(f"{name} failed under callgrind: {complaint}")
    return done.stdout
