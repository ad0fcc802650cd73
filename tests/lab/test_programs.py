"""The suite programs: what is missing is named, inputs and answers are the same each time, and the
allocator that is measured is the one that the program used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hakmem_lab import suites
from hakmem_lab.errors import MissingError, NotMappedError, RunError
from hakmem_lab.measure import Run, run
from hakmem_lab.peers import registry
from hakmem_lab.programs import inputs, program
from hakmem_lab.programs.catalogue import PROGRAMS
from hakmem_lab.programs.program import Program
from support import HAKMEM, SYSTEM, hakmem, samples_of


def named(name: str) -> Program:
    return next(each for each in PROGRAMS if each.name == name)


def test_there_are_a_dozen_and_more() -> None:
    assert len({each.name for each in PROGRAMS}) == len(PROGRAMS) >= 12
    for each in PROGRAMS:
        assert all((program.SCRIPTS / script).is_file() for script in each.scripts)


# One makes a file, one has a server that forks, one brings an allocator, one has many processes.
@pytest.mark.parametrize("name", ["sqlite_file", "nginx", "redis", "git"])
def test_the_same_answer_under_the_library_and_the_system(name: str) -> None:
    benchmark = named(name)
    checksums = suites.Checksums()
    for allocator in (SYSTEM, HAKMEM):
        measured = registry.before_its_own(allocator) if benchmark.brings_malloc else allocator
        done = run(benchmark.command(), measured)
        metrics = suites.driver_metrics(benchmark, allocator, done, checksums)
        assert {"wall_s", "cpu_s", "peak_rss_bytes", "page_faults"} <= set(metrics)
        assert done.stdout
    samples = samples_of({(name, side.name): {"wall_s": [1.0]} for side in (SYSTEM, HAKMEM)})
    checksums.judge(samples)
    assert not samples.failures


def test_an_allocator_of_the_program_s_own_is_not_taken_for_the_system_s() -> None:
    command = named("redis").command()
    with pytest.raises(NotMappedError, match="jemalloc"):
        run(command, SYSTEM)


INPUTS = [
    inputs.log, inputs.lines, inputs.people, inputs.document, inputs.c_file, inputs.cxx_file,
    inputs.redis_commands, inputs.repository,
]  # fmt: skip


@pytest.mark.parametrize("make", INPUTS, ids=lambda make: str(make.__name__))
def test_inputs_are_the_same_each_time(make: Callable[[Path], None], tmp_path: Path) -> None:
    contents = []
    for side in ("one", "other"):
        folder = tmp_path / side
        folder.mkdir()
        make(folder)
        contents.append(
            {
                str(path.relative_to(folder)): path.read_bytes()
                for path in folder.rglob("*")
                if path.is_file()
            }
        )
    assert contents[0]
    assert contents[0] == contents[1]


SHELL = Program("shell", ("sh", "-c", "cat out 2>/dev/null; echo made >out"), makes=("out",))


def test_a_run_begins_without_what_the_one_before_left() -> None:
    for _ in range(2):
        assert run(SHELL.command(), SYSTEM).stdout == b""
        assert (SHELL.folder() / "out").is_file()
    SHELL.command()
    assert not (SHELL.folder() / "out").exists()


def test_the_checksum_is_of_all_that_came_out() -> None:
    made = SHELL.folder() / "out"
    made.write_text("made")
    first = SHELL.read(Run({}, b"said"))[1]
    assert SHELL.read(Run({}, b"said"))[1] == first
    assert SHELL.read(Run({}, b"said more"))[1] != first
    made.write_text("made more")
    assert SHELL.read(Run({}, b"said"))[1] != first
    made.unlink()
    with pytest.raises(RunError, match="did not make out"):
        SHELL.read(Run({}, b"said"))


def test_nothing_of_the_caller_s_reaches_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "tlh_Q")
    monkeypatch.setenv("HOME", "/home/caller")
    monkeypatch.setenv("PATH", "/home/caller/bin")
    show = Program("show", ("sh", "-c", "echo $HOME $LC_ALL $PATH"))
    assert run(show.command(), SYSTEM).stdout.decode().split() == [
        str(show.folder()),
        "C.UTF-8",
        program.PATH,
    ]


def test_what_is_missing_is_named_and_the_others_go_on() -> None:
    absent = Program("absent", ("no-such-program",), needs=("sh", "no-such-helper"))
    reason = absent.missing()
    assert reason is not None
    assert reason.startswith("there is no no-such-program, no-such-helper here")
    found, missing = suites.present({"programs": [SHELL, absent]}, named=False)
    assert found == {"programs": [SHELL]}
    assert missing == {"absent": reason}
    for chosen, is_named in (([SHELL, absent], True), ([absent], False)):
        with pytest.raises(MissingError, match="absent: there is no no-such-program"):
            suites.present({"programs": list(chosen)}, named=is_named)


def test_the_command(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    words = ("--only", "sqlite_file", "--peers", "glibc", "--runs", "1", "--warmup", "0")
    done = hakmem("bench", *words, "--json", target)
    assert done.returncode == 0, done.stderr
    assert "suite programs" in done.stdout
    for title in ("Time in ms", "CPU time in ms", "Peak memory in MiB", "Page faults"):
        assert title in done.stdout
    rows = json.loads(target.read_text())["results"]
    assert {(row["benchmark"], row["allocator"]) for row in rows} == {
        ("sqlite_file", "hakmem"),
        ("sqlite_file", "glibc"),
    }
