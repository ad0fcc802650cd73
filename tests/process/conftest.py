"""Running the programs of this folder under the library that was just built."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("HAKMEM_BUILD", "build/release")).resolve()
LIBRARY = Path(os.environ.get("HAKMEM_LIBRARY", BUILD / "libhakmem.so")).resolve()
# What starts programs of another C library or processor; ends in what is to be preloaded.
LAUNCHER = os.environ.get("HAKMEM_LAUNCHER", "")

# For runs of all programs in another mode.
MORE_OPTIONS = os.environ.get("HAKMEM_MORE_OPTIONS", "")


# For tests that start programs of this machine's own.
native = pytest.mark.skipif(LAUNCHER != "", reason="starts programs of this machine's C library")


def run_with_children(
    command: list[str], environment: dict[str, str], timeout: int
) -> subprocess.CompletedProcess[str]:
    """Waits for the process alone, and ends what it has left behind: a child that hangs would hold
    pipes open."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        leader = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            status = leader.wait(timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(leader.pid, signal.SIGKILL)
            leader.wait()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, status, output.read(), errors.read())


@dataclass
class Runner:
    """Starts programs that test themselves; see support.h."""

    build: Path = BUILD
    library: Path = LIBRARY
    # What hangs ends itself (support.c: hang_guard), but for a shell that has not got to it yet.
    timeout: int = int(os.environ.get("HANG_SECONDS", "120")) + 60
    clean: dict[str, str] = field(
        default_factory=lambda: {
            name: os.environ[name] for name in ("PATH", "HANG_SECONDS") if name in os.environ
        }
    )

    def path(self, name: str) -> Path:
        return self.build / "tests" / "process" / name

    def __call__(
        self,
        program: str | Path,
        *arguments: str | int | Path,
        before: Sequence[str] = (),
        preload: bool = True,
        options: str = "",
        environment: dict[str, str] | None = None,
        kernel: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program of this folder, demands that it ends well, returns what it wrote.

        `before` is a command that execs the rest of its line, such as a shell that sets limits.
        `kernel` asks for another kernel: see tests/kernel/kernel.c."""
        path = self.path(program) if isinstance(program, str) else program
        if LAUNCHER and not path.exists():
            pytest.skip(f"there is no {path.name} for this C library")
        variables = {**self.clean, **(environment or {})}
        if options or MORE_OPTIONS:
            variables["HAKMEM_OPTIONS"] = ",".join(filter(None, [options, MORE_OPTIONS]))
        libraries = [str(self.library)] if preload else []
        if kernel:
            variables["KERNEL"] = kernel
            libraries.append(str(self.build / "tests" / "kernel" / "libkernel.so"))
        launcher = LAUNCHER.split()
        if launcher:
            launcher[-1] += ":".join(libraries)
        elif libraries:
            variables["LD_PRELOAD"] = ":".join(libraries)
        command = [*before, *launcher, str(path), *map(str, arguments)]
        finished = run_with_children(command, variables, self.timeout)
        told = f"{' '.join(command)}\nstdout: {finished.stdout}\nstderr: {finished.stderr}"
        assert finished.returncode == 0, f"status {finished.returncode}: {told}"
        assert finished.stdout.splitlines()[-1:] == ["ok"], told
        return finished


@pytest.fixture
def run() -> Runner:
    return Runner()


def limited(setting: str) -> list[str]:
    """A shell that sets limits and becomes the program."""
    return ["/bin/sh", "-c", f'{setting} && exec "$0" "$@"']
