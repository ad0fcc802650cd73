"""System calls are counted exactly: of threads, of children, whatever signals fly about."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hakmem_lab import measure, paths
from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.measure import Allocator, Command
from support import HAKMEM, SYSTEM


def count(*words: str, allocator: Allocator = SYSTEM) -> dict[str, float]:
    return measure.count(Command(words, timeout_seconds=60), allocator)


def calls(program: str) -> float:
    return count(sys.executable, "-S", "-c", program)["syscalls"]


@pytest.mark.parametrize(
    "program",
    [
        "import os\nfor _ in range({n}): os.getppid()",
        "import os, threading\n"
        "def work():\n  for _ in range({n}): os.getppid()\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()",
        "import os\n"
        "if os.fork() == 0:\n  for _ in range({n}): os.getppid()\n  os._exit(0)\n"
        "os.wait()",
        "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "for _ in range(20): os.kill(os.getpid(), signal.SIGUSR1)\n"
        "for _ in range({n}): os.getppid()",
        "import os, signal\n"
        "child = os.fork()\n"
        "if child == 0:\n  os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)\n"
        "os.waitpid(child, os.WUNTRACED); os.kill(child, signal.SIGCONT); os.waitpid(child, 0)\n"
        "for _ in range({n}): os.getppid()",
    ],
    ids=["alone", "thread", "child", "signals", "stopped child"],
)
def test_a_thousand_more_calls_are_a_thousand_more(program: str) -> None:
    few, many = calls(program.format(n=1000)), calls(program.format(n=2000))
    # Threads that meet may call futex once more or less.
    assert many - few == pytest.approx(1000, abs=30)


def test_calls_for_memory_are_told_apart() -> None:
    program = (
        "import mmap, os\nfor _ in range({maps}): mmap.mmap(-1, 1 << 20).close()\n"
        "for _ in range(500): os.getppid()"
    )
    none, some = (count(sys.executable, "-S", "-c", program.format(maps=maps)) for maps in (0, 300))
    assert some["memory_syscalls"] - none["memory_syscalls"] == pytest.approx(600, abs=10)
    assert some["syscalls"] - none["syscalls"] == pytest.approx(600, abs=30)


def test_the_allocator_is_proved_in_counting_runs_too(tmp_path: Path) -> None:
    assert count("true", allocator=HAKMEM)["syscalls"] > 10
    broken = tmp_path / "libbroken.so"
    broken.write_text("this is not a shared object")
    with pytest.raises(NotMappedError):
        count("true", allocator=Allocator("broken", broken))


def test_a_program_that_renames_itself_is_counted() -> None:
    renames = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'another', 0, 0, 0); time.sleep(1)"
    assert count(sys.executable, "-c", renames, allocator=HAKMEM)["syscalls"] > 100


def test_a_program_that_fails_fails_here_too() -> None:
    with pytest.raises(RunError, match="ended with status 7"):
        count("sh", "-c", "exit 7")
    with pytest.raises(RunError, match="was ended by SIGSEGV"):
        count("sh", "-c", "kill -SEGV $$")


def test_a_program_that_never_ends_is_ended(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="did not end within 1 seconds"):
        measure.count(Command(("sleep", "1000"), timeout_seconds=1), SYSTEM)


def test_steps_are_told_apart(tmp_path: Path) -> None:
    """What a driver does between the two times that it reads its processor time."""
    program = (
        "import mmap, os, time\n"
        "pages = mmap.mmap(-1, 300 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "time.process_time()\n"
        "for page in range(300): pages[page * mmap.PAGESIZE] = 1; os.getppid()\n"
        "time.process_time()\n"
        "for _ in range(500): os.getppid()\n"
    )
    report = tmp_path / "counts"
    count_steps = [str(paths.tool("count")), "-s", str(report)]
    subprocess.run([*count_steps, sys.executable, "-S", "-c", program], check=True)
    counts = json.loads(report.read_text())
    assert counts["memory_syscalls"] <= counts["syscalls"] - 300
    assert counts["syscalls"] == pytest.approx(300, abs=5)
    assert counts["minor_faults"] == pytest.approx(300, abs=30)


def test_a_program_without_steps_is_told(tmp_path: Path) -> None:
    words = [str(paths.tool("count")), "-s", str(tmp_path / "counts"), "true"]
    finished = subprocess.run(words, check=False, capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (
        126,
        "count: true has read its processor time 0 times, not twice\n",
    )
