"""One run of one program under one allocator, in a clean environment, with proof.

The program is started by bench/tools/launch.c, which reads the clock and the kernel's account of
the run (its head says why Python cannot). LD_PRELOAD holds the witness and then the allocator;
without an allocator to preload, the system's malloc is measured, with the witness alone.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab import paths, proof
from hakmem_lab.errors import MissingError, RunError

# What a program may see of the caller's environment. Anything else (MALLOC_ARENA_MAX, a preload,
# a variable that only one of two shells sets) could make one sample unlike another.
KEPT_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM")

OPTIONS_VARIABLE = "HAKMEM_OPTIONS"


@dataclass(frozen=True)
class Allocator:
    """An allocator that can be measured. library None: the system's, nothing is preloaded."""

    name: str
    library: Path | None
    version: str = ""
    origin: str = ""
    options: str = ""  # for HAKMEM_OPTIONS


@dataclass(frozen=True)
class Command:
    """What is run, the same for every allocator."""

    words: tuple[str, ...]
    timeout_seconds: float = 600.0
    variables: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    stdin: bytes = b""
    watch: bool = True  # look at its children while it runs
    # It is linked with an allocator of its own, which would stand in for the system's.
    brings_malloc: bool = False


@dataclass(frozen=True)
class Run:
    """What one run showed."""

    metrics: dict[str, float]
    stdout: bytes


def environment(allocator: Allocator, variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    kept.setdefault("PATH", os.defpath)
    kept.update(variables)
    if allocator.options:
        kept[OPTIONS_VARIABLE] = allocator.options
    return kept


def require_program(word: str) -> None:
    """Refuses a command before the first run of many, not in the middle of them."""
    if shutil.which(word) is None:
        raise MissingError(f"there is no program '{word}' to run")


def _preloadable(library: Path, directory: Path) -> str:
    """LD_PRELOAD separates paths by blanks and colons, so a path that has them needs another."""
    if not set(" :\t\n") & set(str(library)):
        return str(library)
    link = directory / library.name.replace(" ", "_").replace(":", "_")
    link.symlink_to(library)
    return str(link)


def _tail(stream: bytes) -> str:
    lines = stream.decode(errors="replace").strip().splitlines()[-8:]
    return "".join(f"\n    {line}" for line in lines)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _communicate(process: subprocess.Popen[bytes], command: Command) -> tuple[bytes, bytes]:
    try:
        return process.communicate(command.stdin, timeout=command.timeout_seconds)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        process.communicate()
        raise RunError(
            f"'{command.words[0]}' did not end within {command.timeout_seconds:g} seconds"
        ) from None
    except BaseException:
        _kill_group(process)
        process.wait()
        raise


def run(command: Command, allocator: Allocator) -> Run:
    """Runs the command once. RunError: it failed. NotMappedError: it proves nothing."""
    with tempfile.TemporaryDirectory(prefix="hakmem-lab-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        return _run_in(directory, command, allocator)


def _run_in(directory: Path, command: Command, allocator: Allocator) -> Run:
    report = directory / "report"
    witness = directory / "witness"
    witness.touch()
    witness.chmod(0o666)  # the program may change its user
    library = allocator.library
    if library is None and command.brings_malloc:
        library = paths.system_libc()
    preload = [paths.tool("libwitness.so"), *([library] if library is not None else [])]
    words = [
        str(paths.tool("launch")),
        str(report),
        ":".join(_preloadable(each, directory) for each in preload),
        *command.words,
    ]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(allocator, {**command.variables, "LAB_WITNESS": str(witness)}),
        cwd=command.directory,
        start_new_session=True,
    )
    watch = proof.Watch(process.pid, library)
    if command.watch:
        watch.start()
    try:
        stdout, stderr = _communicate(process, command)
    finally:
        watch.stop()
    if process.returncode != 0:
        raise RunError(f"'{command.words[0]}' could not be started:{_tail(stderr)}")
    facts = json.loads(report.read_text(encoding="utf-8"))
    # Mapping is judged first: a program without its library may fail for that very reason.
    _prove(facts, witness, watch, allocator.name)
    if facts["status"] != 0:
        raise RunError(
            f"'{command.words[0]}' {_ending(facts['status'])}{_tail(stderr) or _tail(stdout)}"
        )
    return Run(_metrics(facts), stdout)


def _prove(facts: Mapping[str, int], witness: Path, watch: proof.Watch, allocator: str) -> None:
    proof.check(
        proof.parse_testimonies(witness.read_text(encoding="utf-8", errors="replace")),
        allocator,
        watch.library,
        facts["pid"],
        str(facts["command"]),
        watch.mapped,
    )
    watch.check(allocator)


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _metrics(facts: Mapping[str, int]) -> dict[str, float]:
    return {
        "wall_s": facts["wall_ns"] * 1e-9,
        "cpu_s": (facts["user_us"] + facts["system_us"]) * 1e-6,
        "peak_rss_bytes": float(facts["peak_rss_bytes"]),
        "page_faults": float(facts["minor_faults"] + facts["major_faults"]),
    }


def words_of(command: Sequence[str]) -> str:
    """The command as one would type it."""
    return shlex.join(command)
