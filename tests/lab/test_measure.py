"""One run: a clean environment, honest figures, and an end to what does not end."""

import os
from pathlib import Path

import pytest

from hakmem_lab.errors import RunError
from hakmem_lab.measure import KEPT_VARIABLES, Allocator, Command, run
from support import HAKMEM, LIBRARY, SYSTEM, crashing_library


def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_ARENA_MAX", "LD_PRELOAD", "HAKMEM_OPTIONS", "A_VARIABLE"):
        monkeypatch.setenv(name, "")
    seen = run(Command(("env",)), SYSTEM).stdout.decode().splitlines()
    names = {line.partition("=")[0] for line in seen}
    assert names <= {*KEPT_VARIABLES, "LD_PRELOAD", "LAB_WITNESS"}
    preload = next(line for line in seen if line.startswith("LD_PRELOAD="))
    assert preload.endswith("/libwitness.so")
    assert "hakmem.so" not in preload


def test_options_and_variables_reach_the_program() -> None:
    allocator = Allocator("hakmem", LIBRARY, options="profile=lean")
    seen = run(Command(("env",), variables={"WANTED": "1"}), allocator).stdout.decode().splitlines()
    assert "HAKMEM_OPTIONS=profile=lean" in seen
    assert "WANTED=1" in seen


def test_peak_memory_is_the_programs_and_not_the_labs() -> None:
    """A child of this Python would be charged with all that Python holds."""
    held = b"x" * (256 << 20)
    small = run(Command(("true",)), SYSTEM).metrics["peak_rss_bytes"]
    large = run(Command(("head", "-c", "64M", "/dev/zero")), SYSTEM)
    assert len(held) > 16 << 20 > small
    assert len(large.stdout) == 64 << 20


def test_peak_memory_is_that_of_the_largest_process() -> None:
    program = "data = bytearray(200 << 20)"
    command = Command(("sh", "-c", f"python3 -c '{program}'; true"))
    assert run(command, SYSTEM).metrics["peak_rss_bytes"] > 200 << 20


@pytest.mark.parametrize("allocator", [HAKMEM, SYSTEM], ids=lambda allocator: allocator.name)
def test_figures_are_of_the_right_kind(allocator: Allocator) -> None:
    busy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    metrics = run(Command(("python3", "-c", busy)), allocator).metrics
    assert set(metrics) == {
        "wall_s",
        "cpu_s",
        "peak_rss_bytes",
        "page_faults",
        "context_switches",
        "avg_pss_bytes",
    }
    assert metrics["cpu_s"] >= 0.2
    assert metrics["wall_s"] >= 0.2
    assert metrics["page_faults"] > 100


def test_input_reaches_the_program() -> None:
    assert run(Command(("cat",), stdin=b"some words"), HAKMEM).stdout == b"some words"


def test_a_failing_program_is_told_with_its_last_words() -> None:
    with pytest.raises(RunError, match=r"ended with status 7[\s\S]*last words"):
        run(Command(("sh", "-c", "echo last words >&2; exit 7")), HAKMEM)
    with pytest.raises(RunError, match="was ended by SIGSEGV"):
        run(Command(("sh", "-c", "kill -SEGV $$")), HAKMEM)


def test_an_allocator_that_crashes_before_anything_can_be_proved(tmp_path: Path) -> None:
    library = crashing_library(tmp_path)
    with pytest.raises(RunError, match="was ended by SIGABRT"):
        run(Command(("true",)), Allocator("crashing", library))


def test_what_a_program_leaves_running_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"(setsid sh -c 'echo $$ > {note}; exec sleep 1000' >/dev/null 2>&1 &); sleep 0.3"
    run(Command(("sh", "-c", script)), SYSTEM)
    with pytest.raises(ProcessLookupError):
        _wait_for_end(int(note.read_text()))


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(RunError, match=r"could not be started[\s\S]*No such file"):
        run(Command((str(broken),)), SYSTEM)


def test_a_program_that_never_ends_is_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sh -c 'echo $$ > {note}; exec sleep 1000' & wait"
    with pytest.raises(RunError, match="did not end within 1 seconds"):
        run(Command(("sh", "-c", script), timeout_seconds=1), HAKMEM)
    with pytest.raises(ProcessLookupError):
        _wait_for_end(int(note.read_text()))


def _wait_for_end(pid: int) -> None:
    """Ends in ProcessLookupError when the process does; a dead one may take a moment to go."""
    for _ in range(2000):
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        if state == "Z":
            raise ProcessLookupError
