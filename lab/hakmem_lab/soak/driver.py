"""One long-lived process under one allocator (bench/soak.c), told stretch by stretch what to do.

Between stretches it sleeps in a read of its standard input. Its memory is looked at from outside
all the while that it works and once more when it sleeps: a heap takes and purges from one moment to
the next, and of the mean of many looks a small drift stands out.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from hakmem_lab import paths, proof
from hakmem_lab.errors import RunError
from hakmem_lab.measure import Allocator, ending, environment, preload_value, tail
from hakmem_lab.memory import Memory, Sampler, look, mean
from hakmem_lab.soak import histogram
from hakmem_lab.soak.calls import Tracer

NAME = "soak"
START_SECONDS = 60.0
END_SECONDS = 10.0


class Work(StrEnum):
    """What the driver's threads do: a server's heap, or random_mixed."""

    SERVER = "server"
    MIXED = "mixed"


@dataclass(frozen=True)
class Load:
    """blocks are those alive in each thread of random_mixed; None: as many as the driver likes."""

    work: Work = Work.SERVER
    blocks: int | None = None

    def words(self) -> list[str]:
        """The driver's arguments."""
        if self.work is Work.SERVER:
            return []
        return [self.work, *([str(self.blocks)] if self.blocks is not None else [])]


SERVER = Load()


@dataclass(frozen=True)
class Epoch:
    """What one epoch, or a stretch of it, showed. calls is None where they were not counted."""

    steps_so_far: int  # of each thread since the start, measured or not
    start_ns: int  # of the monotonic clock
    end_ns: int
    thread_ns: int  # summed over threads
    cpu_ns: int  # the part of it in which they had a processor
    ops: int
    checksum: str
    live_bytes: int  # at the end
    memory: Memory
    minor_faults: int
    major_faults: int
    switches: int
    malloc: histogram.Histogram
    free: histogram.Histogram
    calls: Counter[str] | None = None
    uncounted: str | None = None  # why not, where they should have been
    malloc_ns: Mapping[str, float] = field(default_factory=dict)  # percentiles
    free_ns: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Between its stretches nothing runs, for the while that it takes to look at them."""
        return (self.end_ns - self.start_ns) * 1e-9

    @property
    def ns_per_op(self) -> float:
        return self.thread_ns / self.ops

    @property
    def cpu_ns_per_op(self) -> float:
        return self.cpu_ns / self.ops


def joined(stretches: Sequence[Epoch]) -> Epoch:
    """One after the other as a whole."""
    taking = histogram.merge(each.malloc for each in stretches)
    giving = histogram.merge(each.free for each in stretches)
    return replace(
        stretches[-1],
        start_ns=stretches[0].start_ns,
        thread_ns=sum(each.thread_ns for each in stretches),
        cpu_ns=sum(each.cpu_ns for each in stretches),
        ops=sum(each.ops for each in stretches),
        live_bytes=round(sum(each.live_bytes for each in stretches) / len(stretches)),
        memory=mean(each.memory for each in stretches),
        minor_faults=sum(each.minor_faults for each in stretches),
        major_faults=sum(each.major_faults for each in stretches),
        switches=sum(each.switches for each in stretches),
        malloc=taking,
        free=giving,
        malloc_ns=histogram.percentiles(taking),
        free_ns=histogram.percentiles(giving),
    )


class Driver:
    """A running driver with its proof; close() or stop() ends it."""

    def __init__(self, allocator: Allocator, threads: int, load: Load = SERVER) -> None:
        self.allocator = allocator
        self._home = tempfile.TemporaryDirectory(prefix="hakmem-soak-")
        self._directory = Path(self._home.name)
        self._buffer = bytearray()
        self.pid = 0
        self.steps_so_far = 0
        self.hello: dict[str, Any] = {}
        self._process = self._launch([str(threads), *load.words()])
        try:
            self._meet()
        except BaseException:
            self.stop()
            raise

    def _launch(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        words = [
            str(paths.tool("launch")),
            str(self._directory / "report"),
            preload_value(self.allocator, self._directory),
            str(paths.tool(NAME)),
            *arguments,
        ]
        self._witness = self._directory / "witness"
        self._witness.touch()
        with (self._directory / "stderr").open("wb") as stderr:
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(self.allocator, {"LAB_WITNESS": str(self._witness)}),
                start_new_session=True,
                bufsize=0,
            )

    def _meet(self) -> None:
        """Reads the first line and proves the allocator in the process that wrote it."""
        try:
            self.hello = self._read_line(START_SECONDS)
        except RunError:
            self._prove(0)  # a wrong library may be why it failed
            raise
        self.pid = int(self.hello["pid"])
        self._prove(self.pid)

    def _prove(self, pid: int) -> None:
        allocator = self.allocator
        text = self._witness.read_text(encoding="utf-8", errors="replace")
        testimonies = proof.parse_testimonies(text)
        pid = pid or next((each.pid for each in testimonies), 0)
        library = allocator.library
        mapped = pid != 0 and (library is None or proof.has_mapped(pid, library) is True)
        proof.check(testimonies, allocator.name, library, pid, NAME, {pid} if mapped else set())

    def epoch(self, lead: int, steps: int, limit_seconds: float, count: bool = False) -> Epoch:
        """Runs so many steps a thread without a pause, after a lead that is not measured: what the
        program calls an epoch."""
        calls: Counter[str] | None = None
        uncounted = None
        sampler = Sampler(lambda: [self.pid])
        sampler.start()
        try:
            if count:
                with Tracer(self.pid, self._directory) as tracer:
                    line = self._ask(lead, steps, limit_seconds)
                calls, uncounted = tracer.calls, tracer.failure
            else:
                line = self._ask(lead, steps, limit_seconds)
        finally:
            sampler.stop()
        self.steps_so_far += lead + steps
        try:
            return replace(self._epoch_of(line, sampler), calls=calls, uncounted=uncounted)
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"the driver's epoch cannot be read: {error!r}") from None

    def _epoch_of(self, line: dict[str, Any], sampler: Sampler) -> Epoch:
        start_ns, end_ns = int(line["start_ns"]), int(line["end_ns"])
        taking, giving = histogram.parse(line["malloc"]), histogram.parse(line["free"])
        at_rest = look(self.pid)
        if at_rest is None:
            raise RunError("the driver's memory cannot be looked at")
        return Epoch(
            steps_so_far=self.steps_so_far,
            start_ns=start_ns,
            end_ns=end_ns,
            thread_ns=int(line["thread_ns"]),
            cpu_ns=int(line["cpu_ns"]),
            ops=int(line["ops"]),
            checksum=str(line["checksum"]),
            live_bytes=int(line["live_bytes"]),
            memory=mean([*sampler.between(start_ns * 1e-9, end_ns * 1e-9), at_rest]),
            minor_faults=int(line["minor_faults"]),
            major_faults=int(line["major_faults"]),
            switches=int(line["switches"]),
            malloc=taking,
            free=giving,
            malloc_ns=histogram.percentiles(taking),
            free_ns=histogram.percentiles(giving),
        )

    def _ask(self, lead: int, steps: int, limit_seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{lead} {steps}\n".encode())
        except BrokenPipeError:
            raise self._ended() from None
        return self._read_line(limit_seconds)

    def _read_line(self, limit_seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        end = time.monotonic() + limit_seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise RunError(f"an epoch did not end within {limit_seconds:.0f} seconds")
            chunk = os.read(stream, 1 << 16)
            if not chunk:
                raise self._ended()
            self._buffer += chunk
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        try:
            content = json.loads(line)
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get("benchmark") != NAME:
            raise RunError(f"the driver printed no result: {line[:80]!r}")
        return content

    def _ended(self) -> RunError:
        """Why there is no answer: how the driver ended, and its last words."""
        try:
            self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            return RunError("the driver closed its output and did not end")
        words = tail((self._directory / "stderr").read_bytes())
        try:
            report = json.loads((self._directory / "report").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return RunError(f"the driver could not be started:{words}")
        return RunError(f"the driver {ending(report['status'])}{words}")

    def close(self) -> None:
        """Lets the driver end by itself; RunError when it does not end well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=END_SECONDS)
            report = json.loads((self._directory / "report").read_text(encoding="utf-8"))
            if report["status"] != 0:
                raise self._ended()
        except subprocess.TimeoutExpired:
            raise RunError("the driver did not end when it was told to") from None
        finally:
            self.stop()

    def stop(self) -> None:
        """Ends the process and its launcher, whatever they are doing."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._home.cleanup()
