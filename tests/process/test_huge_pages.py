"""Which heaps are made of huge pages: a matter of the profile and of the option thp."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Runner, native

LARGE_MIB = 128
SMALL_MIB = 8

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MODE = SETTING.read_text().partition("[")[2].partition("]")[0] if SETTING.exists() else "never"
pytestmark = [native, pytest.mark.skipif(MODE == "never", reason="this kernel gives none")]


def heap(run: Runner, options: str, mebibytes: int) -> dict[str, tuple[int, int, str]]:
    """Full and trimmed: KiB in huge pages, mappings, advice."""
    done = run("huge_pages", mebibytes, options=options)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: (int(row[1]), int(row[2]), row[3]) for row in rows if len(row) == 4}


@pytest.mark.parametrize("options", ["profile=speed", "thp=always", "profile=lean,thp=always"])
def test_asked_for(run: Runner, options: str) -> None:
    seen = heap(run, options, LARGE_MIB)
    kib, mappings, advice = seen["full"]
    assert advice == "hg"
    # Some may come too late: they need free memory in one piece.
    assert kib >= 2048
    assert seen["trimmed"][0] <= kib // 4
    # Neither asking nor giving back cuts the heap into many mappings.
    assert mappings <= heap(run, "thp=default", LARGE_MIB)["full"][1] + 4
    assert seen["trimmed"][1] <= mappings + 4


@pytest.mark.parametrize("options", ["profile=lean", "thp=never", "profile=speed,thp=never"])
def test_refused(run: Runner, options: str) -> None:
    kib, mappings, advice = heap(run, options, LARGE_MIB)["full"]
    assert (kib, advice) == (0, "nh")
    assert mappings <= heap(run, "thp=default", LARGE_MIB)["full"][1] + 4


@pytest.mark.parametrize(
    ("options", "mebibytes"), [("profile=balanced", LARGE_MIB), ("profile=speed", SMALL_MIB)]
)
def test_as_the_kernel_is_set(run: Runner, options: str, mebibytes: int) -> None:
    kib, _, advice = heap(run, options, mebibytes)["full"]
    assert advice == "-"
    assert kib == 0 or MODE == "always"
