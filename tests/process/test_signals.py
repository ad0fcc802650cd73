"""Signals, identities and tools that watch a process."""

from __future__ import annotations

import shutil

import pytest

from conftest import Runner, native


def test_signals_while_threads_allocate(run: Runner) -> None:
    assert run("signals").stderr == ""


def test_setuid_with_threads(run: Runner) -> None:
    assert run("set_ids").stderr == ""


@native
@pytest.mark.parametrize("replaced", ["by-valgrind", "not-replaced"])
def test_valgrind(run: Runner, replaced: str) -> None:
    # Either Valgrind puts its own malloc in place of ours, or it watches ours at work.
    valgrind = shutil.which("valgrind")
    assert valgrind, "valgrind is not installed"
    command = [valgrind, "--quiet", "--error-exitcode=9"]
    if replaced == "not-replaced":
        command.append("--soname-synonyms=somalloc=nouserintercepts")
    run("traffic", 500, before=command)
