"""The lab's first duty: a run whose library was not in the program must fail, and loudly.

The dynamic linker prints a warning at most, so each way of losing a preload is tried here on real
programs: a library that cannot be loaded, a static program, a cleared environment, a program that
replaces itself, a child that does so.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hakmem_lab import proof
from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.measure import Allocator, Command, run
from hakmem_lab.proof import Testimony as Evidence
from hakmem_lab.proof import Watch
from support import HAKMEM, LIBRARY, SYSTEM, hakmem

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


def shell(script: str) -> Command:
    return Command(("sh", "-c", script), timeout_seconds=60)


def refuses(command: Command, allocator: Allocator = HAKMEM) -> str:
    with pytest.raises(NotMappedError) as caught:
        run(command, allocator)
    return str(caught.value)


@pytest.mark.parametrize("allocator", [HAKMEM, SYSTEM], ids=lambda allocator: allocator.name)
@pytest.mark.parametrize(
    "words",
    [
        ("true",),
        ("sleep", "0.5"),
        ("sh", "-c", "true; sleep 0.4; sh -c true"),
        ("sh", "-c", "exec sleep 0.4"),
        (sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '0.4'])"),
    ],
    ids=" ".join,
)
def test_an_honest_run_is_accepted(allocator: Allocator, words: tuple[str, ...]) -> None:
    assert run(Command(words, timeout_seconds=60), allocator).metrics["wall_s"] > 0


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("this is not a shared object")
    message = refuses(Command(("true",)), Allocator("broken", broken))
    assert "broken was to be measured" in message
    assert "libc" in message


def test_a_library_that_is_mapped_but_is_no_allocator(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int something_else(void) { return 1; }\n")
    library = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    assert "malloc is that of" in refuses(Command(("true",)), Allocator("other", library))


def test_a_program_with_a_malloc_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text(
        "#include <stddef.h>\n"
        "static char buffer[1 << 20]; static size_t used;\n"
        "void *malloc(size_t n) { used += (n + 15) & ~15ul; return buffer + used - n; }\n"
        "void free(void *p) { (void)p; }\n"
        "int main(void) { return malloc(1) == NULL; }\n"
    )
    program = tmp_path / "own"
    subprocess.run(["cc", "-fno-builtin", "-rdynamic", "-o", program, source], check=True)
    assert "own" in refuses(Command((str(program),)))
    assert "own" in refuses(Command((str(program),)), SYSTEM)


def test_a_program_at_a_fixed_address_that_takes_mallocs_address(tmp_path: Path) -> None:
    """The dynamic linker then finds malloc in the program itself, as a stub of the real one."""
    source = tmp_path / "fixed.c"
    source.write_text(
        "#include <stdlib.h>\n"
        "int main(void) {\n"
        "  void *(*volatile take)(size_t) = malloc; void (*volatile give)(void *) = free;\n"
        "  give(take(10)); return 0;\n"
        "}\n"
    )
    program = tmp_path / "fixed"
    subprocess.run(["cc", "-no-pie", "-fno-pie", "-o", program, source], check=True)
    run(Command((str(program),)), HAKMEM)
    run(Command((str(program),)), SYSTEM)


def test_a_static_program(tmp_path: Path) -> None:
    source = tmp_path / "still.c"
    source.write_text("int main(void) { return 0; }\n")
    program = tmp_path / "still"
    subprocess.run(["cc", "-static", "-o", program, source], check=True)
    assert "could not be proved" in refuses(Command((str(program),)))


@pytest.mark.parametrize("seconds", ["0", "0.05", "0.15", "1"])
def test_a_program_that_clears_its_environment(seconds: str) -> None:
    assert "sleep" in refuses(Command(("env", "-i", "sleep", seconds)))


def test_a_child_that_clears_its_environment() -> None:
    assert "sleep" in refuses(shell("env -i sleep 1; true"))


def test_a_daemon_that_clears_its_environment() -> None:
    """Its parent is gone; the launcher takes it over, so it is still seen."""
    assert "sleep" in refuses(shell("(env -i setsid sleep 2 &) ; sleep 1.5"))


def test_failing_for_want_of_the_library_is_not_taken_for_a_failing_program() -> None:
    assert "false" in refuses(Command(("env", "-i", "false")))
    with pytest.raises(RunError):
        run(Command(("false",)), HAKMEM)


def test_a_library_whose_path_has_blanks_and_colons(tmp_path: Path) -> None:
    folder = tmp_path / "a folder: with both"
    folder.mkdir()
    library = folder / "lib.so"
    library.write_bytes(LIBRARY.read_bytes())
    run(Command(("sleep", "0.4"), timeout_seconds=60), Allocator("hakmem", library))


def test_the_command_ends_in_three(tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("this is not a shared object")
    target = tmp_path / "result.json"
    commands: tuple[list[str | Path], ...] = (
        ["compare", "--peers", "glibc", "--runs", "1", "--json", target, "--", "true"],
        ["bench", "--peers", "glibc", "--runs", "1", "--json", target, "--only", "pair_16"],
    )
    for words in commands:
        done = hakmem(*words, variables={"HAKMEM_LIBRARY": str(broken)})
        assert done.returncode == 3
        assert "hakmem was to be measured" in done.stderr
        assert not target.exists()


def witnessed(malloc: str = str(LIBRARY), free: str = str(LIBRARY), pid: int = 7) -> Evidence:
    return Evidence(pid, "program", malloc, free)


def check(testimonies: list[Evidence], seen: set[int] | None = None, last: str = "program") -> None:
    proof.check(testimonies, "hakmem", LIBRARY, 7, last, seen or set())


def test_evidence_that_is_whole() -> None:
    check([witnessed()])
    check([witnessed(), witnessed(pid=8)])
    check([witnessed()], seen={7}, last="renamed itself")


@pytest.mark.parametrize(
    "testimonies",
    [
        [],
        [witnessed(pid=8)],
        [witnessed(malloc=LIBC)],
        [witnessed(free=LIBC)],
        [witnessed(malloc="?")],
        [witnessed(), witnessed(pid=8, malloc=LIBC)],
    ],
)
def test_evidence_with_a_hole(testimonies: list[Evidence]) -> None:
    with pytest.raises(NotMappedError):
        check(testimonies)


def test_a_line_that_cannot_be_read_is_no_evidence() -> None:
    assert proof.parse_testimonies(f"12\tsh\t{LIBRARY}\t{LIBC}\n") == [
        Evidence(12, "sh", str(LIBRARY), LIBC)
    ]
    for text in ("12\tsh\n", "x\tsh\ta\tb\n", "garbage\n"):
        with pytest.raises(NotMappedError):
            proof.parse_testimonies(text)


def test_the_watch_sees_what_a_live_process_has_mapped() -> None:
    with subprocess.Popen(
        ["sleep", "30"], env={**os.environ, "LD_PRELOAD": str(LIBRARY)}
    ) as process:
        try:
            deadline = time.monotonic() + 20
            # libc comes after what is preloaded: until then nothing is known to be missing.
            while not proof.has_mapped(process.pid, Path(LIBC)) and time.monotonic() < deadline:
                time.sleep(0.01)
            with_library, without = (
                Watch(os.getpid(), LIBRARY),
                Watch(os.getpid(), Path(LIBC + "x")),
            )
            for _ in range(3):
                with_library.look(process.pid)
                without.look(process.pid)
            assert process.pid in proof.descendants(os.getpid())
        finally:
            process.kill()
    with_library.check("hakmem")
    assert with_library.mapped == {process.pid}
    with pytest.raises(NotMappedError, match="sleep"):
        without.check("hakmem")


def test_processes_may_end_while_they_are_listed() -> None:
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        with subprocess.Popen(
            ["bash", "-c", "for i in {1..20}; do /bin/true & done; wait"]
        ) as some:
            while some.poll() is None:
                proof.descendants(os.getpid())
