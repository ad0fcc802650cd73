"""What malloc and free execute when they hit: recorded, not guessed.

bench/tools/trace_calls.c runs the calls of a preloaded library one instruction at a time. What it
lists is disassembled and counted here. A recording cannot be of the wrong path, and assumes nothing
of the library, so it works on any allocator.

The path of a call is the shortest of its repeats. A longer one is a call that also did something
for the calls to come: refilled a list, counted towards the next look at the clock.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import capstone

from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.machine_code.elf import Function, Image, image_of
from hakmem_lab.machine_code.instructions import KINDS, is_repeated, kinds_of
from hakmem_lab.measure import Allocator, environment, preloadable

CODE_LINE_BYTES = 64
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Pair:
    """A call, and the one that takes its block back. Names as people know them, and as ELF does."""

    allocate: str
    free: str
    allocate_symbol: str
    free_symbol: str


C_CALLS = Pair("malloc", "free", "malloc", "free")
CXX_CALLS = Pair("operator new", "operator delete", "_Znwm", "_ZdlPvm")


@dataclass(frozen=True)
class Step:
    """One executed instruction."""

    insn: capstone.CsInsn
    image: Image

    @property
    def function(self) -> Function | None:
        return self.image.function_at(self.insn.address)


@dataclass(frozen=True)
class HitPath:
    """All that one call executed."""

    steps: tuple[Step, ...]

    def counts(self) -> dict[str, int]:
        result = {"instructions": len(self.steps)} | dict.fromkeys(KINDS, 0)
        for step in self.steps:
            for kind in kinds_of(step.insn, step.image.machine):
                result[kind] += 1
        return result | self._footprint()

    def _footprint(self) -> dict[str, int]:
        """The code that must be in the instruction cache: bytes, and the lines they lie in."""
        sizes = {(step.image.path, step.insn.address): step.insn.size for step in self.steps}
        lines = {
            (file, place // CODE_LINE_BYTES)
            for (file, address), size in sizes.items()
            for place in (address, address + size - 1)
        }
        return {"code_bytes": sum(sizes.values()), "code_lines": len(lines)}

    def files(self) -> set[Path]:
        return {step.image.path for step in self.steps}


# What was executed: (file, address) of each instruction; and that for each (call, size).
Trace = tuple[tuple[str, int], ...]
Traces = dict[tuple[str, int], Trace]


def record(allocator: Allocator, tracer: Path, pair: Pair, sizes: Sequence[int]) -> Traces:
    """Runs every size. RunError, NotMappedError: what ran proves nothing, and why."""
    library = allocator.library
    if library is not None and (machine := image_of(str(library)).machine) != platform.machine():
        raise RunError(f"{allocator.name} cannot be traced: its code is {machine}'s")
    with tempfile.TemporaryDirectory(prefix="hakmem-lab-") as name:
        preload = str(preloadable(library, Path(name))) if library else ""
        traces = _shortest(_run(allocator.name, preload, tracer, pair, sizes), pair)
    for (call, _), steps in traces.items():
        _require_served(allocator, call, steps[0][0])
    return traces


def _run(
    name: str, preload: str, tracer: Path, pair: Pair, sizes: Sequence[int]
) -> subprocess.CompletedProcess[str]:
    # Step by step, time flies: what HAKMEM does for guard sampling every few milliseconds would be
    # all that there is to see.
    variables = {"HAKMEM_OPTIONS": "guard_rate=0"}
    if preload:
        variables["LD_PRELOAD"] = preload
    words = [str(tracer), pair.allocate_symbol, pair.free_symbol, *map(str, sizes)]
    try:
        done = subprocess.run(
            words,
            env=environment(Allocator(name, None), variables),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"{name} cannot be traced: no end after {_TIMEOUT_SECONDS} s") from None
    if done.returncode != 0:
        raise RunError(f"{name} cannot be traced: {_reason(done)}")
    return done


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    own = [line for line in done.stderr.splitlines() if line.startswith("trace_calls: ")]
    if own:
        return own[-1].removeprefix("trace_calls: ")
    if done.returncode < 0:
        return f"{signal.Signals(-done.returncode).name} as soon as it was loaded"
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"the traced program ended with status {done.returncode}"


def _shortest(done: subprocess.CompletedProcess[str], pair: Pair) -> Traces:
    names = {pair.allocate_symbol: pair.allocate, pair.free_symbol: pair.free}
    traces: Traces = {}
    for line in done.stdout.splitlines():
        symbol, size, *places = line.split(" ")
        split = (place.rpartition(":") for place in places)
        steps = tuple((file.replace("%20", " "), int(address, 16)) for file, _, address in split)
        key = (names[symbol], int(size))
        if key not in traces or len(steps) < len(traces[key]):
            traces[key] = steps
    return traces


def _require_served(allocator: Allocator, call: str, file: str) -> None:
    """The dynamic linker only warns when a preload fails, and then traces the system's malloc."""
    library = allocator.library
    if library is not None and not (Path(file).exists() and os.path.samefile(file, library)):
        raise NotMappedError(f"{allocator.name} cannot be traced: {call} is that of {file}")


def path_of(trace: Trace) -> HitPath:
    steps: list[Step] = []
    for file, address in trace:
        image = image_of(os.path.realpath(file))
        if steps and steps[-1].insn.address == address and is_repeated(steps[-1].insn):
            continue
        steps.append(Step(image.instruction_at(address), image))
    return HitPath(tuple(steps))
