"""Reports with the history of a block, and the blocks that are lost at exit."""

from __future__ import annotations

import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from test_bugs import BUILD, ENVIRONMENT, LIBRARY

PROGRAM = BUILD / "tests" / "death" / "history"
LOST = 1000

# The first blocks of each size have stacks of their own (guard.c), which these tests are not about.
UNGUARDED = "guard_rate=0"


@dataclass
class Stack:
    """One of a report: "freed, 104 bytes, by thread 7:" and its functions, the innermost first."""

    title: str
    functions: list[str]


@dataclass
class Outcome:
    status: int
    first: str
    stacks: list[Stack]
    text: str


def start(
    case: str, options: str = "", library: Path = LIBRARY, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, case],
        env=ENVIRONMENT | {"HAKMEM_OPTIONS": options, "LD_PRELOAD": str(library)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run(case: str, options: str) -> Outcome:
    finished = start(case, options)
    lines = finished.stderr.splitlines()
    assert all(line.startswith("hakmem: ") for line in lines), finished.stderr
    stacks: list[Stack] = []
    for line in lines[1:]:
        frame = re.match(r"hakmem:     #\d+ 0x[0-9a-f]+ (?:(\w+)\+0x[0-9a-f]+ )?\(", line)
        if frame is None:
            stacks.append(Stack(line.removeprefix("hakmem:   "), []))
        else:
            stacks[-1].functions.append(frame[1] or "")
    return Outcome(finished.returncode, lines[0] if lines else "", stacks, finished.stderr)


def titles(outcome: Outcome) -> list[str]:
    return [re.sub(r"thread \d+", "thread N", stack.title) for stack in outcome.stacks]


def tops(outcome: Outcome) -> list[str]:
    return [stack.functions[0] for stack in outcome.stacks]


def aborts(case: str, options: str, kind: str) -> Outcome:
    outcome = run(case, options)
    assert outcome.status == -signal.SIGABRT, outcome
    assert outcome.first.startswith(f"hakmem: {kind}: "), outcome
    return outcome


@pytest.mark.parametrize("level", ["hardened=1", "hardened=2"])
def test_a_double_free_names_all_who_had_the_block(level: str) -> None:
    outcome = aborts("twice", f"{level},history=1000,{UNGUARDED}", "double free")
    assert titles(outcome) == [
        "called by thread N:",
        "freed, 104 bytes, by thread N:",
        "resized, 104 bytes, by thread N:",
        "allocated, 100 bytes, by thread N:",
    ]
    assert tops(outcome) == ["drop_again", "drop", "resize", "take"]
    assert all("main" in stack.functions for stack in outcome.stacks), outcome


def test_the_threads_are_told_apart() -> None:
    outcome = aborts("twice-in-thread", f"hardened=1,history=1000,{UNGUARDED}", "double free")
    assert tops(outcome) == ["drop_again", "drop", "take"]
    called, freed, taken = (re.search(r"thread (\d+)", s.title) for s in outcome.stacks)
    assert called is not None
    assert freed is not None
    assert taken is not None
    assert called[1] == taken[1] != freed[1]


def test_who_freed_it_is_known_when_the_history_has_gone_on() -> None:
    outcome = aborts("twice-long-after", f"hardened=1,history=10,{UNGUARDED}", "double free")
    assert titles(outcome) == ["called by thread N:", "freed by thread N:"]
    assert tops(outcome) == ["drop_again", "drop"]


@pytest.mark.parametrize(
    ("case", "kind", "functions"),
    [
        ("inside", "invalid pointer", ["drop_again", "take"]),
        ("nowhere", "invalid pointer", ["drop_again"]),
        ("write-after-free", "use after free", ["take", "drop", "take"]),
        ("behind-the-end", "heap overflow", ["drop", "take"]),
    ],
)
def test_every_kind_of_report_has_stacks(case: str, kind: str, functions: list[str]) -> None:
    assert tops(aborts(case, f"hardened=2,history=1000,{UNGUARDED}", kind)) == functions


def test_reports_are_one_line_without_a_history() -> None:
    assert aborts("twice", f"hardened=2,{UNGUARDED}", "double free").stacks == []


def test_a_guarded_block_has_stacks_without_a_history() -> None:
    """The first of each size class are, in hardened=2."""
    outcome = aborts("twice", "hardened=2", "double free")
    assert tops(outcome) == ["drop_again", "drop", "resize"]


@pytest.mark.parametrize("option", ["history=100", "leaks=1"])
def test_needs_hardened_mode(option: str) -> None:
    outcome = run("keep", option)
    assert outcome.status == 0
    assert outcome.text.splitlines() == [
        "hakmem: options history, leaks: they need hardened=1 or 2; nothing is kept"
    ]


def lost_in(outcome: Outcome) -> dict[str, tuple[int, int]]:
    """Blocks and bytes by the function that called malloc or take."""
    lost = {}
    for stack in outcome.stacks:
        numbers = re.match(r"(\d+) blocks of (\d+) bytes in all, allocated", stack.title)
        assert numbers is not None, stack
        function = next((name for name in stack.functions if name not in ("take", "")), "unknown")
        lost[function] = int(numbers[1]), int(numbers[2])
    return lost


@pytest.mark.parametrize("options", ["hardened=1,leaks=1", "hardened=2,leaks=1,history=5000"])
def test_what_nothing_points_to_is_lost(options: str) -> None:
    # Counts blocks, and a guarded one is never called lost.
    outcome = run("leaks", f"{options},guard_rate=0")
    assert outcome.status == 0
    lost = lost_in(outcome)
    # An old pointer may stand where nobody has written since.
    assert LOST - 5 <= lost["lose_small"][0] <= LOST, lost
    assert lost["lose_small"][1] == lost["lose_small"][0] * 48
    assert lost["lose_large"] == (1, 3 << 20)
    total = re.match(r"hakmem: leaks: nothing points to (\d+) blocks of (\d+) bytes", outcome.first)
    assert total is not None, outcome.first
    assert int(total[1]) == sum(blocks for blocks, _ in lost.values())
    assert int(total[2]) == sum(size for _, size in lost.values())
    assert lost["lose_ring"] == (LOST, LOST * 48)
    # Where a huge block comes from only the history tells.
    blocks, size = lost["lose_huge" if "history" in options else "unknown"]
    assert blocks == 1
    assert size >= 1 << 30


def test_what_something_points_to_is_not_lost() -> None:
    outcome = run("keep", "hardened=2,leaks=1")
    assert (outcome.status, outcome.text) == (0, "")


@pytest.mark.parametrize("options", ["guard_rate=1", "guard_rate=3,guard_slots=10000"])
def test_guarded_blocks_are_gone_through(options: str) -> None:
    outcome = run("keep", f"hardened=1,leaks=1,{options}")
    assert (outcome.status, outcome.text) == (0, "")


def test_a_report_of_guard_sampling_names_all_who_had_the_block() -> None:
    outcome = aborts("read-after-free", "guard_rate=1", "use after free")
    assert titles(outcome) == [
        "accessed by thread N:",
        "freed by thread N:",
        "allocated by thread N:",
    ]
    assert tops(outcome) == ["use", "drop", "take"]
    assert all("main" in stack.functions for stack in outcome.stacks), outcome


def test_is_told_when_standard_error_is_closed() -> None:
    assert "lose_small" in lost_in(run("leak-and-close", "hardened=1,leaks=1"))


@pytest.mark.parametrize("options", ["leaks=1", "leaks=1,stats=exit", "leaks=1,verbose=2"])
def test_files_of_the_program_are_not_written_to(options: str, tmp_path: Path) -> None:
    assert start("leak-and-reopen", f"hardened=1,{options}", folder=tmp_path).returncode == 0
    assert (tmp_path / "data").read_text() == ""


def test_a_child_tells_its_own() -> None:
    outcome = run("leak-in-child", "hardened=1,leaks=1")
    assert outcome.status == 0
    assert list(lost_in(outcome)) == ["lose_small"]


DEBUG_FLAVOUR = BUILD / "libhakmem.so"


@pytest.mark.skipif(LIBRARY == DEBUG_FLAVOUR, reason="this build has no debug flavour")
def test_the_debug_flavour_without_hardened_mode_is_silent() -> None:
    finished = start("leaks", "hardened=0", DEBUG_FLAVOUR)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.skipif(LIBRARY == DEBUG_FLAVOUR, reason="this build has no debug flavour")
def test_the_debug_flavour_has_it_all_by_default() -> None:
    for case, told in (
        ("twice", "drop_again+"),
        ("write-after-free", "use after free"),
        ("leaks", "lose_small+"),
    ):
        finished = start(case, library=DEBUG_FLAVOUR)
        assert told in finished.stderr, (case, finished)
