"""Signals and identities."""

from __future__ import annotations

from conftest import Runner


def test_signals_while_threads_allocate(run: Runner) -> None:
    assert run("signals").stderr == ""


def test_setuid_with_threads(run: Runner) -> None:
    assert run("set_ids").stderr == ""
