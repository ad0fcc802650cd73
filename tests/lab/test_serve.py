"""Servers: started, found ready, measured, and gone afterwards, whatever happened."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hakmem_lab import serve
from hakmem_lab.errors import LabError, NotMappedError, RunError
from hakmem_lab.measure import Allocator, Command
from hakmem_lab.serve import Service
from support import HAKMEM, SYSTEM, hakmem

# Answers each connection with a word; writes its process id to the file that it is given.
SERVER = """\
import os, socket, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(float(sys.argv[4]))
kind, address = sys.argv[2], sys.argv[3]
family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(address if kind == "unix" else ("127.0.0.1", int(address)))
listener.listen()
print("come in", flush=True)
kept = []
while True:
    connection, _ = listener.accept()
    kept.append(bytearray(20 << 20))
    try:
        connection.sendall(b"hello")
    except OSError:
        pass  # someone only looked whether we are there
    connection.close()
"""
CLIENT = """\
import socket, sys
family = socket.AF_UNIX if sys.argv[1] == "unix" else socket.AF_INET
with socket.socket(family) as s:
    s.connect(sys.argv[2] if sys.argv[1] == "unix" else ("127.0.0.1", int(sys.argv[2])))
    assert s.recv(10) == b"hello"
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def python(program: str, *arguments: object) -> Command:
    return Command((sys.executable, "-c", program, *map(str, arguments)), timeout_seconds=60)


def gone(note: Path) -> bool:
    pid = int(note.read_text())
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def answering(note: Path, client: Command | None = None, delay: float = 0.0) -> Service:
    port = free_port()
    return Service(python(SERVER, note, "tcp", port, delay), client or python(CLIENT, "tcp", port))


@pytest.mark.parametrize("allocator", [HAKMEM, SYSTEM], ids=lambda allocator: allocator.name)
def test_figures_are_the_clients_time_and_the_servers_memory(
    allocator: Allocator, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    metrics = serve.run(answering(note, delay=0.5), allocator)
    assert metrics["wall_s"] < 0.45  # the server's start is not the client's time
    assert metrics["peak_rss_bytes"] > 20 << 20
    assert {"cpu_s", "page_faults", "context_switches"} <= set(metrics)
    assert gone(note)


@pytest.mark.parametrize("ready", ["listens", "unix", "text:come in"])
def test_ways_to_be_ready(ready: str, tmp_path: Path) -> None:
    note, path = tmp_path / "pid", tmp_path / "socket"
    service = Service(
        python(SERVER, note, "unix", path, 0.3),
        python(CLIENT, "unix", path),
        f"unix:{path}" if ready == "unix" else ready,
    )
    assert serve.run(service, SYSTEM)["wall_s"] > 0
    assert gone(note)


def test_calls_are_counted(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    counts = serve.count(answering(note), HAKMEM)
    assert counts["syscalls"] > counts["memory_syscalls"] > 0
    assert gone(note)


def test_a_failing_client_is_told_and_the_server_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(RunError, match="the client 'sh' ended with status 3"):
        serve.run(answering(note, Command(("sh", "-c", "exit 3"))), HAKMEM)
    assert gone(note)


def test_a_server_that_ends_at_once() -> None:
    service = Service(Command(("sh", "-c", "echo no port >&2; exit 4")), Command(("true",)))
    with pytest.raises(RunError, match=r"'sh' ended with status 4 before it was ready[\s\S]*no po"):
        serve.run(service, SYSTEM)


def test_a_server_that_dies_while_the_client_runs(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    killer = Command(("sh", "-c", f"kill -SEGV $(cat {note}); sleep 0.3; exit 1"))
    with pytest.raises(RunError, match="was ended by SIGSEGV while the client ran"):
        serve.run(answering(note, killer), SYSTEM)


def test_a_server_that_goes_to_the_background_is_not_left_behind(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    port = free_port()
    words = [sys.executable, "-c", SERVER, str(note), "tcp", str(port), "0"]
    starter = f"import subprocess; subprocess.Popen({words}, start_new_session=True)"
    starter += "\nimport time; time.sleep(0.5)"
    with pytest.raises(RunError, match="it must stay in the foreground"):
        serve.run(Service(python(starter), Command(("sleep", "2"))), SYSTEM)
    assert gone(note)


def test_a_server_that_is_never_ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(serve, "READY_SECONDS", 0.5)
    note = tmp_path / "pid"
    service = Service(
        Command(("sh", "-c", f"echo $$ > {note}; echo thinking; exec sleep 60")),
        Command(("true",)),
    )
    with pytest.raises(RunError, match=r"was not ready within 0\.5 seconds[\s\S]*thinking"):
        serve.run(service, SYSTEM)
    assert gone(note)


def test_a_server_that_ignores_sigterm_and_its_worker_are_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(serve, "GRACE_SECONDS", 0.5)
    note, worker, port = tmp_path / "pid", tmp_path / "worker", free_port()
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"if os.fork() == 0:\n  os.setsid(); open({str(worker)!r}, 'w').write(str(os.getpid()))\n"
        f"  time.sleep(600)\n{SERVER}"
    )
    service = Service(python(program, note, "tcp", port, 0.2), python(CLIENT, "tcp", port))
    assert serve.run(service, SYSTEM)["wall_s"] > 0
    assert gone(note)
    assert gone(worker)


def test_a_server_without_the_allocator_is_refused(tmp_path: Path) -> None:
    note, port = tmp_path / "pid", free_port()
    words = ("env", "-i", sys.executable, "-c", SERVER, str(note), "tcp", str(port), "0")
    service = Service(Command(words), Command(("sleep", "0.6")))
    with pytest.raises(NotMappedError):
        serve.run(service, HAKMEM)
    assert gone(note)


@pytest.mark.parametrize("words", ["", "tcp:", "tcp:x", "unix:", "udp:5", "text:"])
def test_other_ways_to_be_ready_are_refused(words: str) -> None:
    with pytest.raises(LabError, match="--ready takes"):
        serve.check_ready(words)


def test_the_command_compares_servers(tmp_path: Path) -> None:
    program, port = tmp_path / "server.py", free_port()
    program.write_text(SERVER)
    client = tmp_path / "client.py"
    client.write_text(CLIENT)
    done = hakmem(
        "compare", "--peers", "glibc", "--runs", "2", "--count", "1",
        "--server", f"{sys.executable} {program} '{tmp_path}/a pid' tcp {port} 0",
        "--client", f"{sys.executable} {client} tcp {port}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("The time is the client's", "HAKMEM against glibc", "system calls"):
        assert words in done.stdout
    assert gone(tmp_path / "a pid")


def test_ctrl_c_ends_the_server(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    service = answering(note)
    code = (
        "from hakmem_lab import serve; from hakmem_lab.serve import Service\n"
        "from hakmem_lab.measure import Allocator, Command\n"
        f"serve.run(Service(Command({service.server.words!r}), Command(('sleep', '60'))),"
        " Allocator('glibc', None))"
    )
    lab = str(Path(serve.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": lab},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 30
        while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(2)
        assert process.wait(30) != 0
    assert gone(note)
