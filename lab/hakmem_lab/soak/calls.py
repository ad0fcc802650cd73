"""System calls of one epoch, counted from outside by strace.

A traced process stops twice at each system call, so an epoch that is traced is not timed. The
driver's threads call getppid right before and after their measured steps, and getpgrp before they
end, which nothing else in the process does: what a thread calls between the first two belongs to
the steps, and nothing of the driver's own reading, waiting and writing is counted, nor of how the
C library makes threads and ends them. A thread that the allocator has started for itself has no
such marks; its calls count from the first mark to the last.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

MARK = "getppid"
LEAVING = "getpgrp"
ATTACH_SECONDS = 10.0

# A call that another thread's output interrupts has a second line, "<... name resumed>".
_CALL = re.compile(r"^(\d+)\s+(\w+)\(")


class Tracer:
    """strace on a live process, from entering to leaving the block. After it either `calls` or
    `failure` is there; nothing is raised, as what happens in the block goes on without it."""

    def __init__(self, pid: int, directory: Path) -> None:
        self.calls: Counter[str] | None = None
        self.failure: str | None = None
        self._pid = pid
        self._trace = directory / "trace"
        self._messages = directory / "strace"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Tracer:
        program = shutil.which("strace")
        if program is None:
            self.failure = "strace is not here; install it with: apt-get install strace"
            return self
        # Arguments as plain numbers, no signals: less work at each stop.
        command = [program, "-f", "-p", str(self._pid), "-o", str(self._trace)]
        command += ["-e", "raw=all", "-e", "signal=none"]
        with self._messages.open("wb") as messages:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=messages, start_new_session=True
            )
        try:
            self._wait_until_attached(self._process)
        except BaseException:
            self._stop(self._process)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._stop(self._process)
        if self.failure is None:
            with self._trace.open(encoding="ascii", errors="replace") as lines:
                self.calls = between_marks(lines, self._pid)
            if self.calls is None:
                self.failure = "the trace of system calls does not hold a whole epoch"

    def _wait_until_attached(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + ATTACH_SECONDS
        while time.monotonic() < end:
            said = self._messages.read_text(encoding="utf-8", errors="replace").strip()
            if "attached" in said:
                return
            if process.poll() is not None:
                self.failure = f"strace could not attach: {said}"
                return
            time.sleep(0.005)
        self.failure = "strace did not attach in time"

    @staticmethod
    def _stop(process: subprocess.Popen[bytes]) -> None:
        """An interrupted strace lets its process go on."""
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=ATTACH_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def between_marks(lines: Iterable[str], main_thread: int) -> Counter[str] | None:
    """The calls between each thread's two marks, by name; None when marks are missing. The main
    thread only waits."""
    found = [match.groups() for match in map(_CALL.match, lines) if match]
    marks = Counter(thread for thread, name in found if name == MARK)
    if not marks or any(count != 2 for count in marks.values()):
        return None
    driven = {thread for thread, name in found if name in (MARK, LEAVING)} | {str(main_thread)}
    calls: Counter[str] = Counter()
    inside: set[str] = set()
    begun = ended = 0
    for thread, name in found:
        if name == MARK:
            inside ^= {thread}
            begun, ended = begun + (thread in inside), ended + (thread not in inside)
        elif thread in inside or (thread not in driven and begun > 0 and ended < len(marks)):
            calls[name] += 1
    return calls
