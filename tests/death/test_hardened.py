"""Hardened mode: the same bugs in the same words, each at the call that makes it, and those that
only hardened mode sees. Without guarded blocks, which the first of each size are in hardened=2, and
with them."""

from __future__ import annotations

import re
import signal
import subprocess

import pytest

from test_bugs import (
    AT_THREAD_END,
    BUILD,
    DOUBLE,
    EITHER,
    ENVIRONMENT,
    EXPECTED,
    INVALID,
    MISALIGNED,
    check_report,
    operation_of,
    run,
)

LEVELS = ("hardened=1", "hardened=2")
UNGUARDED = [pytest.param(f"{level},guard_rate=0", id=level) for level in LEVELS]

OVERFLOW = ("heap overflow",)
MISMATCH = ("size mismatch",)
AFTER_FREE = ("use after free",)

# Without a flush, and with the size as it was asked for.
HARDENED: dict[str, tuple[str, ...]] = {
    "twice-at-once-zero": DOUBLE,
    "twice-at-once-tiny": DOUBLE,
    "twice-at-once-small": DOUBLE,
    "twice-at-once-mid": DOUBLE,
    "twice-at-once-class-max": EITHER,  # alone in its slabs, which go with it
    "twice-delayed": DOUBLE,
    "twice-here-then-there": DOUBLE,
    "twice-there-then-here": DOUBLE,
    "twice-after-realloc": DOUBLE,
    "realloc-freed": DOUBLE,
    "usable-size-of-freed": DOUBLE,
    "free-inside-at-once": INVALID,
    "realloc-inside": INVALID,
    "free-misaligned-at-once": MISALIGNED,
    "underflow": OVERFLOW,
    "underflow-of-first-tiny": OVERFLOW,
    "underflow-of-first-small": OVERFLOW,
    "underflow-of-first-page": OVERFLOW,
    "overflow-far": OVERFLOW,
    "overflow-seen-by-realloc": OVERFLOW,
    "overflow-seen-in-another-thread": OVERFLOW,
    "free_sized-too-large": MISMATCH,
    "free_sized-too-small": MISMATCH,
    "delete-sized-wrong": MISMATCH,
    "delete-array-sized-wrong": MISMATCH,
    "sdallocx-wrong": MISMATCH,
    "free_aligned_sized-wrong-size": MISMATCH,
    "free_aligned_sized-wrong-alignment": MISALIGNED,
    "delete-aligned-wrong": MISALIGNED,
    "delete-sized-aligned-wrong": MISALIGNED,
    "sdallocx-wrong-alignment": MISALIGNED,
}

# Seen when the block is handed out again, in hardened=2; the offset of the first byte.
AFTER_FREE_AT = {
    "write-freed-tiny": 3,
    "write-freed-small": 99,
    "write-freed-behind-its-end": 101,
    "write-freed-page": 2000,
    "write-freed-mid": 20000,
    "write-freed-large-start": 5,
    "write-freed-large-end": 99999,
    "write-freed-span": 100,
    "zero-freed-small": 0,
    "write-freed-by-realloc": 50,
    "write-freed-in-thread": 50,
}

# By another call than the one that the bug is named after.
SEEN_BY = {"overflow-seen-by-realloc": "realloc"}

# The size goes with the seal: no more than the class is known.
SIZE_IS_LOST = {"overflow-far"}


@pytest.mark.parametrize("level", UNGUARDED)
@pytest.mark.parametrize("bug", EXPECTED)
def test_bugs_of_all_modes_are_reported(bug: str, level: str) -> None:
    outcome = run(bug, options=level)
    assert outcome.status == -signal.SIGABRT, outcome
    check_report(outcome, EXPECTED[bug], operation_of(bug))


@pytest.mark.parametrize("level", UNGUARDED)
@pytest.mark.parametrize("bug", HARDENED)
def test_bug_is_reported_at_once(bug: str, level: str) -> None:
    outcome = run(bug, options=level)
    assert outcome.status == -signal.SIGABRT, outcome
    if bug in SIZE_IS_LOST:
        del outcome.announced["block"]
    check_report(outcome, HARDENED[bug], SEEN_BY.get(bug, operation_of(bug)))


@pytest.mark.parametrize("bug", AFTER_FREE_AT)
def test_writes_after_free_are_reported(bug: str) -> None:
    outcome = run(bug, options="hardened=2,guard_rate=0")
    assert outcome.status == -signal.SIGABRT, outcome
    check_report(outcome, AFTER_FREE, "malloc")
    assert f" at byte {AFTER_FREE_AT[bug]} " in outcome.reports[0]


@pytest.mark.parametrize("bug", AFTER_FREE_AT)
def test_zeroed_memory_is_watched_too(bug: str) -> None:
    outcome = run(bug, options="hardened=2,zero_on_free=1,guard_rate=0")
    if bug == "zero-freed-small":  # changes nothing
        assert (outcome.status, outcome.reports) == (0, [])
    else:
        assert outcome.status == -signal.SIGABRT, outcome
        check_report(outcome, AFTER_FREE, "malloc")


# A second free is told of in the thread that makes it, here another one, which cannot jump back.
IN_A_THREAD = {*AT_THREAD_END, "duplicate-after-class-changed"}


@pytest.mark.parametrize(
    "bug",
    [bug for bug in HARDENED if "thread" not in bug and "there" not in bug]
    + [bug for bug in EXPECTED if bug not in IN_A_THREAD],
)
@pytest.mark.parametrize("options", ["hardened=2", "hardened=2,guard_rate=0"])
def test_heap_is_whole_after_a_report(bug: str, options: str) -> None:
    outcome = run(bug, "survive", options=options)
    assert outcome.status == 0, outcome
    assert outcome.last_line == "survived", outcome


# Which of the two sees a bug first is chance, and guarded blocks have their own words for some.
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bug", [*EXPECTED, *HARDENED])
def test_bugs_are_reported_where_first_blocks_are_guarded(bug: str, level: str) -> None:
    outcome = run(bug, options=level)
    assert outcome.status == -signal.SIGABRT, outcome
    kind = outcome.reports[0].split(": ")[1]
    assert kind in (*HARDENED.get(bug, ()), *EXPECTED.get(bug, ()), *AFTER_FREE), outcome


@pytest.mark.parametrize("level", [*LEVELS, *UNGUARDED])
def test_no_bug(level: str) -> None:
    outcome = run("no-bug-slabs-change-their-shard", options=level)
    assert outcome.reports == []
    assert (outcome.status, outcome.last_line) == (0, "unnoticed")


# Guarded blocks have no seal: what they have instead sees no less.
@pytest.mark.parametrize("level", [*UNGUARDED, *LEVELS, "hardened=1,guard_rate=1"])
def test_one_byte_too_far_is_seen_at_every_size(level: str) -> None:
    finished = subprocess.run(
        [BUILD / "tests" / "death" / "overflow"],
        env=ENVIRONMENT | {"HAKMEM_OPTIONS": level},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished
    assert re.fullmatch(r"\d{3,} sizes\n", finished.stdout), finished
