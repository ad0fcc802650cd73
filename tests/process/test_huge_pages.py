"""Which heaps are made of huge pages: a matter of the profile and of the option thp."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from conftest import Runner, native

LARGE_MIB = 128
SMALL_MIB = 8

# At addresses drawn anew, one run has five mappings more than the next, by which of them happen to
# lie side by side. The allocator still draws its own: of some runs the one with the fewest counts.
SAME_PLACES = ("setarch", "-R")
RUNS = 4

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MODE = SETTING.read_text().partition("[")[2].partition("]")[0] if SETTING.exists() else "never"
pytestmark = [native, pytest.mark.skipif(MODE == "never", reason="this kernel gives none")]


def heap(run: Runner, options: str, mebibytes: int) -> dict[str, tuple[int, int, str]]:
    """Full and trimmed: KiB in huge pages, mappings, advice."""
    done = run("huge_pages", mebibytes, before=SAME_PLACES, options=options)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: (int(row[1]), int(row[2]), row[3]) for row in rows if len(row) == 4}


def fewest_mappings(run: Runner, options: str) -> int:
    return min(heap(run, options, LARGE_MIB)["full"][1] for _ in range(RUNS))


@pytest.mark.parametrize("options", ["profile=speed", "thp=always", "profile=lean,thp=always"])
def test_asked_for(run: Runner, options: str) -> None:
    seen = heap(run, options, LARGE_MIB)
    kib, mappings, advice = seen["full"]
    assert advice == "hg"
    # Some may come too late: they need free memory in one piece.
    assert kib >= 2048
    assert seen["trimmed"][0] <= kib // 4
    # Neither asking nor giving back cuts the heap into many mappings.
    assert fewest_mappings(run, options) <= fewest_mappings(run, "thp=default") + 4
    assert seen["trimmed"][1] <= mappings + 4


@pytest.mark.parametrize("options", ["profile=lean", "thp=never", "profile=speed,thp=never"])
def test_refused(run: Runner, options: str) -> None:
    kib, _, advice = heap(run, options, LARGE_MIB)["full"]
    assert (kib, advice) == (0, "nh")
    assert fewest_mappings(run, options) <= fewest_mappings(run, "thp=default") + 4


@pytest.mark.parametrize("options", ["profile=balanced", "profile=speed"])
def test_a_small_heap_is_as_the_kernel_is_set(run: Runner, options: str) -> None:
    kib, _, advice = heap(run, options, SMALL_MIB)["full"]
    assert advice == "-"
    assert kib == 0 or MODE == "always"


def test_balanced_advises_nothing(run: Runner) -> None:
    """It makes huge pages of its own, of what it grows by, and gives them back."""
    seen = heap(run, "profile=balanced", LARGE_MIB)
    assert seen["full"][2] == "-"
    assert MODE == "always" or seen["trimmed"][0] <= seen["full"][0] // 4


COLLAPSE_KIB = 128 * 1000 * 1000 // 1024


def collapse(run: Runner, mode: str, options: str) -> dict[str, tuple[int, int]]:
    """KiB resident and in huge pages, by what had happened before; "counted" are the statistics'
    collapsed and split."""
    done = run("collapse", mode, options=f"stats=exit,{options}")
    rows = [line.split() for line in done.stdout.splitlines()]
    seen = {row[0]: (int(row[1]), int(row[2])) for row in rows if len(row) == 3}
    counted = re.search(r"huge pages made of single ones: (\d+), split again: (\d+)", done.stderr)
    seen["counted"] = (int(counted[1]), int(counted[2])) if counted else (0, 0)
    return seen


KERNEL = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
collapses = pytest.mark.skipif(KERNEL < (6, 1), reason="MADV_COLLAPSE came with Linux 6.1")


@collapses
@pytest.mark.parametrize("options", ["", "guard_rate=0"])
def test_collapsed_when_it_runs_long(run: Runner, options: str) -> None:
    seen = collapse(run, "whole", options)
    assert seen["busy"][1] >= COLLAPSE_KIB // 2
    # What becomes a huge page was there before.
    assert seen["busy"][0] <= seen["full"][0] * 1.02
    # And what is freed of it goes back.
    resident, huge = seen["freed"]
    assert resident <= seen["full"][0] // 4
    assert huge <= COLLAPSE_KIB // 8
    # A block is left in nearly all of them: they were split, not given back as a whole.
    collapsed, split = seen["counted"]
    assert collapsed * 2048 >= COLLAPSE_KIB // 2
    assert collapsed * 3 // 4 <= split <= collapsed


@collapses
def test_memory_shared_by_a_fork_stays(run: Runner) -> None:
    seen = collapse(run, "child", "")
    assert MODE == "always" or seen["while"][1] <= max(seen["full"][1], 2048)
    assert seen["busy"][1] >= COLLAPSE_KIB // 2


@collapses
def test_a_growing_heap_is_not_larger_for_huge_pages(run: Runner) -> None:
    plain = collapse(run, "alone", "profile=balanced,thp=never")
    seen = collapse(run, "alone", "")
    # How many depends on how long one takes; the first is always tried.
    made, _ = seen["counted"]
    assert made >= 1
    assert MODE == "always" or seen["full"][1] <= made * 2048
    # The last one may have been begun only just now.
    assert seen["full"][0] <= plain["full"][0] * 1.01 + 2048
    assert seen["freed"][0] <= plain["freed"][0] * 1.05 + 512


@pytest.mark.skipif(MODE == "always", reason="this kernel makes huge pages unasked")
@pytest.mark.parametrize("options", ["profile=lean", "thp=never", "hardened=1,zero_on_free=1"])
def test_not_collapsed(run: Runner, options: str) -> None:
    seen = collapse(run, "none", options)
    resident, huge = seen["while"]
    assert huge == 0
    assert seen["counted"] == (0, 0)
    assert resident >= COLLAPSE_KIB
