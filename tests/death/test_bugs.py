"""Every bug is reported in the words that users' scripts match, with the address in hexadecimal and
the block where there is one; then the process gets SIGABRT. A process that handles it goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("HAKMEM_BUILD", "build/release")).resolve()
LIBRARY = Path(os.environ.get("HAKMEM_LIBRARY", BUILD / "libhakmem.so")).resolve()
PROGRAM = BUILD / "tests" / "death" / "bugs"
# Set for other C libraries: theirs has no malloc by another name, and this machine's shell is not
# of theirs.
IS_NATIVE = not os.environ.get("HAKMEM_LAUNCHER")
ENVIRONMENT = {
    "LD_PRELOAD": str(LIBRARY),
    **{name: os.environ[name] for name in ("HANG_SECONDS",) if name in os.environ},
}

INVALID = ("invalid pointer",)
MISALIGNED = ("misaligned pointer",)
DOUBLE = ("double free",)
EITHER = ("invalid pointer", "double free")

EXPECTED: dict[str, tuple[str, ...]] = {
    # Not ours: seen at the call.
    "free-stack": INVALID,
    "free-static": INVALID,
    "free-mapped": INVALID,
    "free-code": INVALID,
    "free-near-null": INVALID,
    "free-kernel-address": INVALID,
    "free-block-of-libc": INVALID,
    "free-misaligned-foreign": MISALIGNED,
    "free_sized-foreign": INVALID,
    "free_aligned_sized-foreign": INVALID,
    "sdallocx-foreign": INVALID,
    "delete-foreign": INVALID,
    "realloc-foreign": INVALID,
    "realloc-foreign-to-0": INVALID,
    "reallocarray-foreign": INVALID,
    "usable-size-of-foreign": INVALID,
    "free-never-used-near": INVALID,
    "free-never-used-far": INVALID,
    "free-never-used-before": INVALID,
    # Inside a block of ours.
    "free-inside-tiny": INVALID,
    "free-inside-small": INVALID,
    "free-inside-mid": INVALID,
    "free-inside-many-slabs": INVALID,
    "free-misaligned-tiny": MISALIGNED,
    "free-misaligned-by-8": MISALIGNED,
    "free-misaligned-mid": MISALIGNED,
    "free-inside-at-thread-end": INVALID,
    "free-misaligned-at-thread-end": MISALIGNED,
    "free-inside-large-by-16": INVALID,
    "free-inside-large-by-slab": INVALID,
    "free-inside-large-by-super": INVALID,
    "free-inside-large-last": INVALID,
    "free-misaligned-large": MISALIGNED,
    "free-inside-huge-by-16": INVALID,
    "free-inside-huge-by-mib": INVALID,
    "free-inside-huge-last": INVALID,
    "free-misaligned-huge": MISALIGNED,
    "realloc-inside-large": INVALID,
    "realloc-inside-huge": INVALID,
    "usable-size-inside-large": INVALID,
    "free-behind-aligned-start": INVALID,
    # Given back twice.
    "twice-tiny": DOUBLE,
    "twice-small": DOUBLE,
    "twice-mid": DOUBLE,
    "twice-many-slabs": DOUBLE,
    "twice-with-others-between": DOUBLE,
    "twice-at-thread-end": DOUBLE,
    "twice-in-ended-thread": DOUBLE,
    "twice-in-two-threads": DOUBLE,
    "twice-long-after": DOUBLE,
    "twice-by-realloc-to-0": DOUBLE,
    "twice-large": DOUBLE,
    "twice-largest": DOUBLE,
    "twice-large-in-two-threads": DOUBLE,
    # What it was is forgotten, but not that it is no block any more.
    "twice-large-after-trim": EITHER,
    "twice-large-aligned": EITHER,
    "twice-huge": EITHER,
    "realloc-freed-large": EITHER,
    "realloc-freed-huge": EITHER,
    "usable-size-of-freed-large": EITHER,
    "free-after-realloc-moved": EITHER,
    # Stale and out of range, seen by a flush.
    "free-tail-of-slab": INVALID,
    "free-after-slab-was-given-back": EITHER,
    "duplicate-after-class-changed": EITHER,
    "free-inside-the-new-class": EITHER,
}

# Reported in another thread's last moments, out of which there is no way back.
AT_THREAD_END = {
    "free-inside-at-thread-end",
    "free-misaligned-at-thread-end",
    "twice-at-thread-end",
    "twice-in-ended-thread",
    "twice-in-two-threads",
}


@dataclass
class Outcome:
    status: int
    announced: dict[str, str]
    last_line: str
    reports: list[str]


def run(*arguments: str, options: str = "") -> Outcome:
    finished = subprocess.run(
        [PROGRAM, *arguments],
        env=ENVIRONMENT | {"HAKMEM_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = finished.stdout.splitlines()
    pairs = [
        (name, value) for name, space, value in (line.partition(" ") for line in lines) if space
    ]
    return Outcome(
        status=finished.returncode,
        announced=dict(pairs),
        last_line=lines[-1] if lines else "",
        reports=finished.stderr.splitlines(),
    )


def operation_of(bug: str) -> str:
    """What the program calls, of the names that reports have: reallocarray is made of realloc, and
    whatever frees is a free."""
    if bug.startswith("realloc") and not bug.endswith("-to-0"):
        return "realloc"
    return "malloc_usable_size" if bug.startswith("usable-size") else "free"


def check_report(outcome: Outcome, kinds: tuple[str, ...], operation: str) -> None:
    assert len(outcome.reports) == 1, outcome
    report = outcome.reports[0]
    kind = re.match(r"hakmem: ([a-z ]+): ([a-z_]+)\(0x", report)
    assert kind is not None, report
    assert kind[1] in kinds, report
    assert kind[2] == operation, report
    numbers = re.findall(r"0x[0-9a-f]+", report)
    assert outcome.announced["address"] in numbers, (outcome.announced, report)
    # The block, where the report can still know it.
    if "block" in outcome.announced and kinds is not EITHER:
        assert outcome.announced["block"] in numbers, (outcome.announced, report)
        assert re.search(rf"\b{outcome.announced['size']}\b", report), (outcome.announced, report)


if not IS_NATIVE:
    del EXPECTED["free-block-of-libc"]


@pytest.mark.parametrize("bug", EXPECTED)
def test_bug_is_reported(bug: str) -> None:
    outcome = run(bug)
    assert outcome.status == -signal.SIGABRT, outcome
    check_report(outcome, EXPECTED[bug], operation_of(bug))


@pytest.mark.parametrize("bug", [bug for bug in EXPECTED if bug not in AT_THREAD_END])
def test_heap_is_whole_after_a_report(bug: str) -> None:
    outcome = run(bug, "survive")
    assert outcome.status == 0, outcome
    assert outcome.last_line == "survived", outcome
    check_report(outcome, EXPECTED[bug], operation_of(bug))


def test_slabs_that_change_their_shard_are_no_bug() -> None:
    for _ in range(3):
        outcome = run("no-bug-slabs-change-their-shard")
        assert outcome.reports == []
        assert (outcome.status, outcome.last_line) == (0, "unnoticed")


@pytest.mark.skipif(not IS_NATIVE, reason="by this machine's shell")
@pytest.mark.parametrize("bug", ["free-static", "twice-small"])
def test_report_without_standard_error(bug: str) -> None:
    finished = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', PROGRAM, bug],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == -signal.SIGABRT
