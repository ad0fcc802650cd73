"""How many instructions does an operation take? A second opinion that no noise can touch.

Callgrind counts every instruction of a run. A benchmark is run in two lengths: their difference is
made of measured steps alone, without start, warm-up and end (but for some hundred instructions:
printing the time takes as many as it has digits). What this does not see is what an
instruction costs: an atomic counts as one, as does a load that misses every cache.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.ab.workload import Workload
from hakmem_lab.errors import MissingError, NotMappedError, RunError
from hakmem_lab.measure import Allocator, environment

# Divisors of a benchmark's length: the first pair that gives two different ones is taken.
_LENGTHS = ((400, 100), (10, 5))
_TIMEOUT_SECONDS = 900


@dataclass(frozen=True)
class Count:
    """Instructions of an operation; of all the program where that has no operations."""

    a: float
    b: float
    unit: str

    @property
    def ratio(self) -> float:
        return self.b / self.a


def count(workload: Workload, a: Path, b: Path) -> Count:
    if workload.benchmark is None:
        return Count(_total(workload, a)[0], _total(workload, b)[0], "program")
    return Count(_of_operation(workload, a), _of_operation(workload, b), "operation")


def _of_operation(workload: Workload, library: Path) -> float:
    for divisors in _LENGTHS:
        short, long = (
            _total(workload.with_variables({"BENCH_DIVIDE": str(divisor)}), library)
            for divisor in divisors
        )
        if long[1] > short[1]:
            return (long[0] - short[0]) / (long[1] - short[1])
    raise RunError(f"{workload.name} has one length only, so its instructions cannot be counted")


def _total(workload: Workload, library: Path) -> tuple[int, int]:
    """All instructions of a run, and how many operations the driver says it was."""
    if shutil.which("valgrind") is None:
        raise MissingError("--instructions needs callgrind: apt-get install valgrind")
    with tempfile.TemporaryDirectory(prefix="hakmem-ab-") as name:
        stdout = _callgrind(workload, library, Path(name))
        profiles = [path.read_text(errors="replace") for path in Path(name).glob("profile.*")]
    if not any(f" {library}\n" in text for text in profiles):
        raise NotMappedError(f"{library} was not executed under callgrind")
    total = sum(
        int(line.split()[1])
        for text in profiles
        for line in text.splitlines()
        if line.startswith("totals:")
    )
    return total, int(json.loads(stdout)["ops"]) if workload.benchmark else 1


def _callgrind(workload: Workload, library: Path, folder: Path) -> bytes:
    command = workload.command
    words = ["valgrind", "--tool=callgrind", "--quiet", "--trace-children=yes"]
    words += [f"--callgrind-out-file={folder}/profile.%p", *command.words]
    variables = {**command.variables, "LD_PRELOAD": str(library)}
    try:
        done = subprocess.run(
            words,
            input=command.stdin,
            env=environment(Allocator("counted", library), variables),
            cwd=command.directory,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"{workload.name} did not end within {_TIMEOUT_SECONDS} seconds under callgrind"
        ) from None
    if done.returncode != 0:
        complaint = done.stderr.decode(errors="replace").strip()[-300:]
        raise RunError(f"{workload.name} failed under callgrind: {complaint}")
    return done.stdout
