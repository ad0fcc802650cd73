"""Instructions inside the allocator: callgrind's profile is read right, and a count is a count."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from hakmem_lab import instructions
from hakmem_lab.callgrind import Profile
from support import LIBRARY, ROOT, hakmem

PROFILE = """\
version: 1
events: Ir
ob=(1) /usr/bin/driver
fl=(1) ???
fn=(1) main
10 100
cob=(2) /lib/libhakmem.so
cfi=(2) fast.h
cfn=(2) malloc
calls=7 34
11 9000
12 5
ob=(2)
fl=(2)
fn=(2)
34 12
fi=(3) cache.h
+3 8
fe=(2)
* 1
cfn=(3) front_malloc_slow
calls=1 50
-3 900
fn=(3)
50 900

totals: 1026
"""


def test_a_profile_is_read_by_library_and_function() -> None:
    profile = Profile(b"", (PROFILE,))
    assert profile.total == 1026
    assert profile.functions_of(Path("/lib/libhakmem.so")) == {
        "malloc": 21, "front_malloc_slow": 900,
    }  # fmt: skip
    assert profile.functions_of(Path("/usr/bin/driver")) == {"main": 105}
    assert profile.executed(Path("/lib/libhakmem.so"))
    assert not profile.executed(Path("/lib/libhakmem"))


def test_two_processes_are_added_up() -> None:
    profile = Profile(b"", (PROFILE, PROFILE))
    assert profile.total == 2 * 1026
    assert profile.functions_of(Path("/lib/libhakmem.so"))["malloc"] == 42


def _document(*rows: tuple[str, float]) -> dict[str, object]:
    return {
        "allocators": [{"name": name} for name, _ in rows],
        "failed": [],
        "results": [{"allocator": name, "median": value} for name, value in rows],
        "ratios": [],
        "command": " ".join(name for name, _ in rows),
    }


def test_a_column_is_added_and_replaces_its_like() -> None:
    first = _document(("old", 1.0), ("new", 2.0))
    both = instructions.added_to(first, _document(("new", 3.0), ("newest", 4.0)))
    assert [row["name"] for row in both["allocators"]] == ["old", "new", "newest"]
    assert [row["median"] for row in both["results"]] == [1.0, 3.0, 4.0]
    assert both["command"] == "old new && new newest"


def _golden_counts() -> list[int]:
    """Instructions of malloc and of free up to 1 KiB, as the reviewed listing has them."""
    listing = (ROOT / "tests" / "golden" / "fast_path.gcc12-x86_64.txt").read_text()
    counts = re.findall(r"^(?:malloc|free), up to 1 KiB .*: (\d+) instructions", listing, re.M)
    assert len(counts) == 2
    return [int(count) for count in counts]


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_the_fast_path_is_counted_to_the_instruction(tmp_path: Path) -> None:
    target = tmp_path / "counts.json"
    done = hakmem("instructions", LIBRARY, "--only", "pair_64", "--add", target)
    assert done.returncode == 0, done.stderr
    found = {row["metric"]: row["median"] for row in json.loads(target.read_text())["results"]}
    assert found[instructions.FAST] == pytest.approx(sum(_golden_counts()), abs=0.1)
    assert found[instructions.SLOW] < 0.1


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    done = hakmem("instructions", "--only", "sqlite_memory")
    assert done.returncode == 1
    assert "sqlite_memory is a program" in done.stderr
    done = hakmem("instructions", "--json", tmp_path / "a", "--add", tmp_path / "b")
    assert done.returncode == 1
    assert "--add adds to one" in done.stderr
