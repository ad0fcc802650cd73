"""A server under an allocator, and a client that is timed.

The server starts under the allocator; when it is ready, the client runs as it comes, without the
allocator, and its time is the time of the sample. CPU time, page faults and context switches are
the server's, from its start to its end; its memory is read while the client has just ended and
before it is told to stop, as servers may do much then (write a snapshot). Every process of the
server must prove the allocator, as in measure.py.

However a run ends, nothing of the server is left: SIGTERM, a while to end in, then SIGKILL.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.errors import LabError, RunError
from hakmem_lab.measure import Allocator, Command, Started, ending, tail, work_folder
from hakmem_lab.memory import peak_bytes
from hakmem_lab.proof import descendants
from hakmem_lab.sockets import any_listens

READY_SECONDS = 60.0
GRACE_SECONDS = 10.0
_LOOK_EVERY_SECONDS = 0.01
# How a server may end that has been told to: on its own terms, or by what it was sent.
_ENDS_WELL = (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT)


@dataclass(frozen=True)
class Service:
    """A server, the client that it is tried with, and how one sees that it is ready."""

    server: Command
    client: Command
    ready: str = "listens"


def check_ready(words: str) -> None:
    if not re.fullmatch(r"listens|tcp:\d+|(unix|text):.+", words):
        raise LabError(f"--ready takes tcp:PORT, unix:PATH, text:WORDS or listens, not '{words}'")


def run(service: Service, allocator: Allocator) -> dict[str, float]:
    """Starts the server, runs the client once, stops the server."""
    with work_folder() as directory:
        server = Started(service.server, allocator, directory, to_files=True)
        try:
            client = _run_client(service, server)
            peaks = [peak_bytes(pid) or 0 for pid in descendants(server.process.pid)]
            _stop(server, service)
        finally:
            server.close()
        metrics = server.metrics()
        return {**metrics, "wall_s": client["wall_s"], "peak_rss_bytes": float(max(peaks))}


def count(service: Service, allocator: Allocator) -> dict[str, float]:
    """The server's calls into the kernel, from its start to its end."""
    with work_folder() as directory:
        server = Started(service.server, allocator, directory, counting=True, to_files=True)
        try:
            _run_client(service, server)
            _stop(server, service)
        finally:
            server.close()
        return server.counts()


def _run_client(service: Service, server: Started) -> dict[str, float]:
    _wait_until_ready(service, server)
    with work_folder() as directory:
        client = Started(service.client, None, directory)
        try:
            client.communicate()
        except RunError as error:
            _require_alive(service, server, "while the client ran")
            raise RunError(f"the client {error}") from None
        _require_alive(service, server, "while the client ran")
        server.stop_looking()
        return client.metrics()


def _wait_until_ready(service: Service, server: Started) -> None:
    is_ready = _test_of(service, server)
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready():
        _require_alive(service, server, "before it was ready")
        if time.monotonic() > deadline:
            raise RunError(
                f"the server '{service.server.words[0]}' was not ready within {READY_SECONDS:g} "
                f"seconds (--ready {service.ready}){tail(server.output())}"
            )
        time.sleep(_LOOK_EVERY_SECONDS)


def _test_of(service: Service, server: Started) -> Callable[[], bool]:
    kind, _, rest = service.ready.partition(":")
    if kind == "tcp":
        return lambda: _accepts(socket.AF_INET, ("127.0.0.1", int(rest)))
    if kind == "unix":
        path = str(Path(service.server.directory or ".") / rest)
        return lambda: _accepts(socket.AF_UNIX, path)
    if kind == "text":
        return lambda: rest.encode() in server.output()
    return lambda: any_listens(descendants(server.process.pid))


def _accepts(family: int, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as attempt:
        attempt.settimeout(1)
        try:
            attempt.connect(address)
        except OSError:
            return False
        return True


def _require_alive(service: Service, server: Started, when: str) -> None:
    if server.process.poll() is None:
        return
    server.stop_looking()
    status = server.judge(server.output())
    advice = "; it must stay in the foreground" if status == 0 else ""
    raise RunError(
        f"the server '{service.server.words[0]}' {ending(status)} {when}{advice}"
        f"{tail(server.output())}"
    )


def _stop(server: Started, service: Service) -> None:
    """Tells the server to end, and judges how it did."""
    with suppress(ProcessLookupError):
        os.kill(server.program_pid(), signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while server.process.poll() is None and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_SECONDS)
    if server.process.poll() is None:
        os.kill(server.program_pid(), signal.SIGKILL)
        server.process.wait(GRACE_SECONDS)
    status = server.judge(server.output())
    if status < 0 and status not in _ENDS_WELL:
        raise RunError(
            f"the server '{service.server.words[0]}' {ending(status)} when it was told to end"
            f"{tail(server.output())}"
        )
