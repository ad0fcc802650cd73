"""Long-lived programs under test: started, proved to run on HAKMEM, always stopped.

A server's children need not have its mappings (a child that is another program
gets them from its own LD_PRELOAD, if that survived), so every process of the tree
is looked at, again and again while the load runs.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness import Side, end_group, identity, prove_served


def is_mapped(library: Path, pid: int) -> bool | None:
    """Whether pid has the library mapped; None when the process is gone or a zombie."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return str(library) in maps if maps else None


class Server:
    def __init__(self, side: Side, process: subprocess.Popen[str]) -> None:
        self.side = side
        self.process = process
        self.seen: set[int] = set()

    def tree(self) -> list[int]:
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [self.process.pid, *(child.pid for child in children)]

    def assert_mapped(self) -> None:
        """Every process of the tree has HAKMEM mapped (on glibc's side: none could have)."""
        library = self.side.library
        if library is None:
            return
        for pid in self.tree():
            # A process that has just become another program is not linked for a moment.
            deadline = time.monotonic() + 5
            while (mapped := is_mapped(library, pid)) is False and time.monotonic() < deadline:
                time.sleep(0.01)
            assert mapped is not False, f"{psutil.Process(pid)} does not run on HAKMEM"
            if mapped:
                self.seen.add(pid)

    def assert_mapped_during(self, load: subprocess.Popen[str]) -> None:
        """Looks until load ends; to be given to run() as what watches it."""
        while load.poll() is None:
            self.assert_mapped()
            time.sleep(0.02)

    def stop(self, how: signal.Signals, children_exit: bool, timeout: float = 30) -> None:
        """Asks for an orderly end, waits for it, and proves that the server was served.

        children_exit says that its children end by exit(3), so that the proof extends to each.
        """
        self.process.send_signal(how)
        code = self.process.wait(timeout)
        log = (self.side.root / "server.log").read_text()[-4000:]
        assert code == 0, f"{self.side.name}: server ended with {code}\n{log}"
        prove_served(self.side, self.process.pid, *(self.seen if children_exit else ()))


@contextmanager
def serving(
    side: Side,
    *argv: str | Path,
    ready: Callable[[], bool],
    stop: signal.Signals = signal.SIGTERM,
    user: str | None = None,
    children_exit: bool = False,
    timeout: float = 30,
) -> Iterator[Server]:
    """A server in a group of its own; whatever happens, the group is gone afterwards."""
    log = side.root / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(word) for word in argv],
            cwd=side.work,
            env=side.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **identity(user),
        )
    server = Server(side, process)
    try:
        deadline = time.monotonic() + timeout
        while not ready():
            alive = process.poll() is None and time.monotonic() < deadline
            assert alive, f"{side.name}: {argv[0]} did not start\n{log.read_text()[-4000:]}"
            time.sleep(0.05)
        server.assert_mapped()
        yield server
        server.assert_mapped()
        assert side.library is None or process.pid in server.seen
        server.stop(stop, children_exit)
    finally:
        end_group(process)


PORTS_GIVEN: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, another one each time."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in PORTS_GIVEN:
            PORTS_GIVEN.add(port)
            return port


def answers(address: int | Path) -> bool:
    """Whether somebody accepts connections at a port of 127.0.0.1, or at a unix socket."""
    family = socket.AF_INET if isinstance(address, int) else socket.AF_UNIX
    target = ("127.0.0.1", address) if isinstance(address, int) else str(address)
    with socket.socket(family) as probe:
        return probe.connect_ex(target) == 0
