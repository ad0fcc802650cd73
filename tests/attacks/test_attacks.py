"""Published attacks: each works somewhere, or it would prove nothing. Under HAKMEM's release none
gets a block outside of the heap or a write; what any gets, it gets by giving back what is no block.
"""

from __future__ import annotations

import platform
import signal

import pytest

from techniques import FOLDER, GLIBC, LIBRARY, PAGE, TECHNIQUES, WINS, attack, table

WEAK = FOLDER / "libweak_malloc.so"
PROFILES = ("speed", "balanced", "lean")

# One block in so many lies between inaccessible pages, where an attack may fail by chance.
UNGUARDED = "guard_rate=0"

# Two owners of a block may be what a program gets that frees what it should not. That is all.
RELEASE_WINS = {"duplicate", "interior", "overlap"}


def test_every_attack_has_its_row() -> None:
    assert attack().lines == list(TECHNIQUES)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_attack_is_one(name: str) -> None:
    technique = TECHNIQUES[name]
    assert technique.glibc in WINS or technique.weak in WINS
    assert technique.release in RELEASE_WINS | {"none", "abort"}


@pytest.mark.skipif(platform.libc_ver()[1] != GLIBC, reason=f"the rows are of glibc {GLIBC}")
@pytest.mark.parametrize("name", TECHNIQUES)
def test_on_glibc(name: str) -> None:
    run = attack(name)
    assert run.lines == [f"outcome: {TECHNIQUES[name].glibc}"], run


@pytest.mark.parametrize("name", [name for name, row in TECHNIQUES.items() if row.weak])
def test_on_the_weak_allocator(name: str) -> None:
    run = attack(name, preload=WEAK)
    assert run.lines == [f"outcome: {TECHNIQUES[name].weak}"], run


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", TECHNIQUES)
def test_release(name: str, profile: str) -> None:
    technique = TECHNIQUES[name]
    run = attack(name, "whole", preload=LIBRARY, options=f"profile={profile},{UNGUARDED}")
    if technique.release == "abort":
        assert (run.status, run.lines) == (-signal.SIGABRT, ["outcome: abort"]), run
        assert run.kind in technique.bug.release, run
    else:
        assert run.lines == [f"outcome: {technique.release}", "heap: whole"], run
        assert (run.status, run.reports) == (0, []), run


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", TECHNIQUES)
def test_release_reports(name: str, profile: str) -> None:
    """Sooner or later, each pointer that was no block to give back."""
    technique = TECHNIQUES[name]
    run = attack(name, "home", preload=LIBRARY, options=f"profile={profile},{UNGUARDED}")
    assert run.lines[0] == f"outcome: {technique.release}", run
    if technique.bug.release:
        assert (run.status, run.lines[1:]) == (-signal.SIGABRT, []), run
        assert run.kind in technique.bug.release, run
    else:
        assert (run.status, run.lines[1:], run.reports) == (0, ["end: quiet"], []), run


def test_the_page_says_so() -> None:
    lines = PAGE.read_text().splitlines()
    begin = lines.index(table()[0])
    assert lines[begin : begin + len(table()) + 1] == [*table(), ""]
