"""Valgrind's tools. Some count or simulate and leave malloc alone; those that are about the heap
put their own in the place of every malloc, HAKMEM's too, unless they are told not to."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from conftest import LIBRARY, native
from watched import Ended, program, watch

pytestmark = native

NOT_REPLACED = "--soname-synonyms=somalloc=nouserintercepts"

# What else to say to a tool: where its results go, and that what it finds is an error.
TOOLS = {
    "callgrind": ["--callgrind-out-file=results"],
    "cachegrind": ["--cachegrind-out-file=results"],
    "lackey": [],
    "none": [],
    "memcheck": ["--leak-check=full", "--error-exitcode=9"],
    "massif": ["--massif-out-file=results"],
    "dhat": ["--dhat-out-file=results"],
    "helgrind": ["--error-exitcode=9"],
    "drd": ["--error-exitcode=9"],
}
WATCH_ONLY = ["callgrind", "cachegrind", "lackey", "none"]
TAKE_TELLING = [
    ("memcheck", "threads"),
    ("memcheck", "sqlite3"),
    ("massif", "threads"),
    ("dhat", "threads"),
]
# Told to leave malloc alone, the last two know none of its locks.
REPLACE = [*TAKE_TELLING, ("helgrind", "threads"), ("drd", "threads")]

LENGTHS = "with recursive t(n) as (select 1 union all select n + 1 from t where n < 300)"
COMMANDS: dict[str, list[str | Path]] = {
    "threads": [program("traffic"), "300"],
    "sqlite3": [
        "/usr/bin/sqlite3",
        ":memory:",
        f"{LENGTHS} select iif(sum(length(printf('%.*c', n, 'x'))) = 45150, 'ok', 'wrong') from t",
    ],
    "python3": ["/usr/bin/python3", "-S", "-c", "print(sum(len(str(n)) for n in range(1000)))"],
}


def under(folder: Path, tool: str, *command: str | Path, preload: bool = True) -> Ended:
    valgrind = shutil.which("valgrind")
    assert valgrind, "valgrind is not installed"
    name, *options = tool.split()
    words = [valgrind, "--quiet", f"--tool={name}", *TOOLS[name], *options]
    return watch(folder, *words, *command, preload=[LIBRARY] if preload else [])


def assert_ends_well(ended: Ended) -> None:
    assert ended.status == 0, ended
    assert ended.stdout.endswith("ok\n"), ended


@pytest.mark.parametrize("tool", WATCH_ONLY)
def test_hakmem_serves_who_is_watched(tmp_path: Path, tool: str) -> None:
    ended = under(tmp_path, tool, *COMMANDS["threads"])
    assert_ends_well(ended)
    assert ended.blocks_taken, ended


@pytest.mark.parametrize(("tool", "name"), REPLACE)
def test_hakmem_steps_aside(tmp_path: Path, tool: str, name: str) -> None:
    """The library is in the process, starts and ends with it, and serves nothing."""
    ended = under(tmp_path, tool, *COMMANDS[name])
    assert_ends_well(ended)
    assert ended.blocks_taken == 0, ended
    assert ended.stderr == ""


@pytest.mark.parametrize(("tool", "name"), TAKE_TELLING)
def test_hakmem_serves_when_the_tool_is_told(tmp_path: Path, tool: str, name: str) -> None:
    """memcheck finds no fault in what HAKMEM does, either."""
    ended = under(tmp_path, f"{tool} {NOT_REPLACED}", *COMMANDS[name])
    assert_ends_well(ended)
    assert ended.blocks_taken, ended
    assert ended.stderr == ""


def test_python_under_callgrind(tmp_path: Path) -> None:
    ended = under(tmp_path, "callgrind", *COMMANDS["python3"])
    assert (ended.status, ended.stdout) == (0, "2890\n"), ended
    assert ended.blocks_taken, ended
    # The profile names HAKMEM's functions, and the file that they lie in.
    profile = (tmp_path / "results").read_text(errors="replace")
    assert f" {LIBRARY}\n" in profile
    assert re.search(r"^c?fn=\(\d+\) malloc$", profile, re.MULTILINE)
    assert "front_malloc_slow" in profile


def bare(report: str) -> list[str]:
    """Without process ids and addresses."""
    return re.sub(r"==\d+==|\b0x[0-9A-Fa-f]+\b", "", report).splitlines()


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        ("use-after-free", "Invalid read of size 1"),
        ("leak", "100 bytes in 1 blocks are definitely"),
    ],
)
def test_memcheck_finds_what_it_finds_without(tmp_path: Path, bug: str, words: str) -> None:
    without, ended = (
        under(tmp_path, "memcheck", program("planted"), bug, preload=preload)
        for preload in (False, True)
    )
    assert without.status == ended.status == 9, ended
    assert words in ended.stderr
    assert bare(ended.stderr) == bare(without.stderr)


def test_memcheck_knows_no_bugs_of_blocks_that_it_did_not_make(tmp_path: Path) -> None:
    ended = under(tmp_path, f"memcheck {NOT_REPLACED}", program("planted"), "use-after-free")
    assert_ends_well(ended)


@pytest.mark.parametrize("told", ["", NOT_REPLACED], ids=["replaced", "not-replaced"])
def test_every_name_of_malloc_under_memcheck(tmp_path: Path, told: str) -> None:
    """Valgrind replaces some of the names: the others must not mix two allocators."""
    ended = under(tmp_path, f"memcheck {told}", program("every_name"))
    assert_ends_well(ended)
    assert ended.blocks_taken is not None, ended
    assert (ended.blocks_taken == 0) == (told == ""), ended
    assert ended.stderr == ""
