"""Published attacks in hardened mode: each bug is reported, by the kind that its row names. Those
that call nothing and change nothing are seen by the processor alone, with guarded blocks: at
hardened=2 the first of each size class are."""

from __future__ import annotations

import signal

import pytest

from techniques import LIBRARY, TECHNIQUES, attack

KNOWN = any(
    line.startswith("hakmem: hardened=") for line in attack(preload=LIBRARY, options="help").reports
)


@pytest.mark.skipif(not KNOWN, reason="this library has no option hardened")
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", TECHNIQUES)
def test_by_checks_alone(name: str, level: int) -> None:
    bug = TECHNIQUES[name].bug
    kinds = bug.filled if level == 2 else bug.hardened
    run = attack(name, "home", preload=LIBRARY, options=f"hardened={level},guard_rate=0")
    if kinds:
        assert run.status == -signal.SIGABRT, run
        assert run.kind in kinds, run
        assert run.lines in (["outcome: abort"], ["outcome: none"]), run
    else:
        assert (run.status, run.lines) == (0, ["outcome: none", "end: quiet"]), run
        assert run.reports == []


@pytest.mark.skipif(not KNOWN, reason="this library has no option hardened")
@pytest.mark.parametrize("options", ["hardened=2", "hardened=2,guard_rate=1"])
@pytest.mark.parametrize("name", TECHNIQUES)
def test_hardened(name: str, options: str) -> None:
    """None is left that does not end in a report."""
    run = attack(name, "home", preload=LIBRARY, options=options)
    assert run.status == -signal.SIGABRT, run
    bug = TECHNIQUES[name].bug
    assert run.kind in (bug.guarded if "guard_rate" in options else bug.all_on), run
    assert run.lines in (["outcome: abort"], ["outcome: none"]), run
