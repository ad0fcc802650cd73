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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hakmem_lab import paths, proof
from hakmem_lab.errors import MissingError, RunError
from hakmem_lab.memory import Sampler
from hakmem_lab.proof import descendants

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
    watch: bool = True  # look at its processes while it runs: proof, and average memory


@dataclass(frozen=True)
class Run:
    """What one run showed."""

    metrics: dict[str, float]
    stdout: bytes


def environment(allocator: Allocator | None, variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    kept.setdefault("PATH", os.defpath)
    kept.update(variables)
    if allocator is not None and allocator.options:
        kept[OPTIONS_VARIABLE] = allocator.options
    return kept


def require_program(word: str) -> None:
    """Refuses a command before the first run of many, not in the middle of them."""
    if shutil.which(word) is None:
        raise MissingError(f"there is no program '{word}' to run")


def preloadable(library: Path, directory: Path) -> str:
    """LD_PRELOAD separates paths by blanks and colons, so a path that has them needs another."""
    if not set(" :\t\n") & set(str(library)):
        return str(library)
    link = directory / library.name.replace(" ", "_").replace(":", "_")
    link.symlink_to(library)
    return str(link)


def tail(stream: bytes) -> str:
    """The last lines that a program wrote, for a message about its end."""
    lines = stream.decode(errors="replace").strip().splitlines()[-8:]
    return "".join(f"\n    {line}" for line in lines)


def run(command: Command, allocator: Allocator) -> Run:
    """Runs the command once. RunError: it failed. NotMappedError: it proves nothing."""
    with work_folder() as directory:
        started = Started(command, allocator, directory)
        stdout = started.communicate()
        return Run(started.metrics(), stdout)


def count(command: Command, allocator: Allocator) -> dict[str, float]:
    """Runs the command once, slowly, and counts its calls into the kernel (bench/tools/count.c)."""
    return counted(command, allocator)[0]


def counted(command: Command, allocator: Allocator) -> tuple[dict[str, float], bytes]:
    """The same, and what it printed."""
    with work_folder() as directory:
        started = Started(command, allocator, directory, counting=True)
        stdout = started.communicate()
        return started.counts(), stdout


@contextmanager
def work_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hakmem-lab-") as name:
        directory = Path(name)
        directory.chmod(0o755)  # the program may change its user
        yield directory


class Started:
    """A command that the launcher runs under an allocator, and what is known of it afterwards.
    Under None it runs as it comes, with nothing to be proved: a client that a server is tried with.

    Output goes through pipes that communicate() empties, or, for a program that goes on while
    others run (serve.py), to files in the folder."""

    def __init__(
        self,
        command: Command,
        allocator: Allocator | None,
        directory: Path,
        counting: bool = False,
        to_files: bool = False,
    ) -> None:
        self._command, self._allocator, self._counting = command, allocator, counting
        self._report = directory / "report"
        self._counts = directory / "counts"
        self._witness = directory / "witness"
        self._output = [directory / "stdout", directory / "stderr"]
        self._witness.touch()
        self._witness.chmod(0o666)
        counter = [str(paths.tool("count")), str(self._counts)] if counting else []
        self._open([*counter, *_launcher(self._report, command, allocator, directory)], to_files)
        helpers = frozenset(str(paths.tool(name)) for name in ("launch", "count"))
        library = allocator.library if allocator else None
        self._watch = proof.Watch(self.process.pid, library, helpers)
        self._sampler = Sampler(partial(descendants, self.process.pid))
        if command.watch and allocator is not None:
            self._watch.start()
            if not counting:
                self._sampler.start()

    def _open(self, words: Sequence[str], to_files: bool) -> None:
        variables = {**self._command.variables, "LAB_WITNESS": str(self._witness)}
        with ExitStack() as files:
            streams = [
                files.enter_context(path.open("wb")) if to_files else subprocess.PIPE
                for path in self._output
            ]
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL if to_files else subprocess.PIPE,
                stdout=streams[0],
                stderr=streams[1],
                env=environment(self._allocator, variables),
                cwd=self._command.directory,
                start_new_session=True,
            )

    def communicate(self) -> bytes:
        """Waits for the end and judges it; what the program printed."""
        command = self._command
        try:
            stdout, stderr = self.process.communicate(command.stdin, command.timeout_seconds)
        except subprocess.TimeoutExpired:
            raise RunError(
                f"'{command.words[0]}' did not end within {command.timeout_seconds:g} seconds"
            ) from None
        finally:
            self.close()
        status = self.judge(stderr)
        if status != 0:
            raise RunError(f"'{command.words[0]}' {ending(status)}{tail(stderr) or tail(stdout)}")
        return stdout

    def judge(self, stderr: bytes) -> int:
        """Proves the allocator; the status that the program ended in, or -signal. Mapping is judged
        before failure: a program without its library may fail for that very reason. One that
        crashed may have done so in the allocator's first call, before it could bear witness."""
        if self.process.returncode != 0:
            raise RunError(f"'{self._command.words[0]}' could not be started:{tail(stderr)}")
        facts = self.facts()
        status = facts["status"]
        if self._allocator is not None and (status >= 0 or self._witness.stat().st_size > 0):
            self._prove(facts, self._allocator)
        return status

    def _prove(self, facts: Mapping[str, int], allocator: Allocator) -> None:
        witness = self._witness.read_text(encoding="utf-8", errors="replace")
        proof.check(
            proof.parse_testimonies(witness),
            allocator.name,
            allocator.library,
            facts["pid"],
            str(facts["command"]),
            self._watch.mapped,
        )
        self._watch.check(allocator.name)

    def facts(self) -> dict[str, int]:
        """What the launcher wrote when the program had ended."""
        facts: dict[str, int] = json.loads(self._report.read_text(encoding="utf-8"))
        return facts

    def counts(self) -> dict[str, float]:
        counts: dict[str, int] = json.loads(self._counts.read_text(encoding="utf-8"))
        return {name: float(value) for name, value in counts.items()}

    def metrics(self) -> dict[str, float]:
        facts, average = self.facts(), self._sampler.average_bytes()
        return {
            "wall_s": facts["wall_ns"] * 1e-9,
            "cpu_s": (facts["user_us"] + facts["system_us"]) * 1e-6,
            "peak_rss_bytes": float(facts["peak_rss_bytes"]),
            "page_faults": float(facts["minor_faults"] + facts["major_faults"]),
            "context_switches": float(facts["voluntary_switches"] + facts["involuntary_switches"]),
            **({} if average is None else {"avg_pss_bytes": average}),
        }

    def output(self) -> bytes:
        """What a program whose output goes to files has printed so far: errors, then the rest."""
        return b"".join(path.read_bytes() for path in reversed(self._output))

    def stop_looking(self) -> None:
        self._sampler.stop()
        self._watch.stop()

    def program_pid(self) -> int:
        """The live program itself: it is the launcher's first child, and that the counter's."""
        below = descendants(self.process.pid)
        place = 1 if self._counting else 0
        if len(below) <= place:
            raise ProcessLookupError(f"'{self._command.words[0]}' has ended")
        return below[place]

    def close(self) -> None:
        """Ends what still runs, whatever happened; the launcher ends what a program leaves behind
        when it ends by itself."""
        self.stop_looking()
        if self.process.poll() is None:
            for pid in descendants(self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def _launcher(
    report: Path, command: Command, allocator: Allocator | None, directory: Path
) -> Sequence[str]:
    preload = "" if allocator is None else preload_value(allocator, directory)
    return [str(paths.tool("launch")), str(report), preload, *command.words]


def preload_value(allocator: Allocator, directory: Path) -> str:
    """LD_PRELOAD for a measured process: the witness, then the allocator if it is not the
    system's. directory outlives the process."""
    libraries = [paths.tool("libwitness.so")]
    if allocator.library is not None:
        libraries.append(allocator.library)
    return ":".join(preloadable(library, directory) for library in libraries)


def ending(status: int) -> str:
    """How a program ended, from the launcher's report: an exit status, or -signal."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def words_of(command: Sequence[str]) -> str:
    """The command as one would type it: double quotes where single ones stand inside."""
    return " ".join(
        f'"{word}"' if "'" in word and not set('"$`\\!') & set(word) else shlex.quote(word)
        for word in command
    )
