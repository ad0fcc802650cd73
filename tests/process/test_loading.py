"""The library comes in by other ways than LD_PRELOAD: dlopen, static linking, raised privileges."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import LAUNCHER, Runner, native

NOBODY = 65534


@native
def test_dlopen_of_a_library_that_links_it(run: Runner, tmp_path: Path) -> None:
    # glibc's surplus of static TLS is about 1.7 KiB: at most 16 bytes of it are left over.
    copies = 400
    filler = run.path("libtls_filler.so")
    for i in range(copies):
        shutil.copy(filler, tmp_path / f"filler{i}.so")
    plugin = run.path("libplugin.so")
    finished = run("dlopen_plugin", plugin, tmp_path, copies, preload=False)
    assert finished.stderr == ""


@native
def test_dlopen_of_the_library_itself(run: Runner) -> None:
    assert run("dlopen_direct", run.library, preload=False).stderr == ""


IS_MUSL = "env" in LAUNCHER


@pytest.mark.skipif(not IS_MUSL, reason="musl has no room for thread-local state that comes late")
def test_dlopen_is_refused_by_musl(run: Runner) -> None:
    finished = run("dlopen_refused", run.path("libplugin.so"), "refused", preload=False)
    assert finished.stderr == ""


def test_dlopen_of_a_library_that_links_what_is_there_already(run: Runner) -> None:
    assert run("dlopen_refused", run.path("libplugin.so"), "taken").stderr == ""


# Where stacks are walked, the unwinder of a program without a dynamic linker may call malloc.
WITH_STACKS = ["", "guard_rate=1", "hardened=2", "hardened=1,history=1000"]


@pytest.mark.parametrize("program", ["static_program", "static_pie"])
@pytest.mark.parametrize("more", WITH_STACKS)
def test_static_program(run: Runner, more: str, program: str) -> None:
    finished = run(program, preload=False, options=f"profile=lean,{more}")
    assert finished.stdout.splitlines() == ["secure 0", "profile lean", "ok"]
    assert finished.stderr == ""


@pytest.mark.parametrize("more", WITH_STACKS)
def test_static_program_in_cxx(run: Runner, more: str) -> None:
    assert run("static_cxx", preload=False, options=more).stderr == ""


@pytest.fixture
def privileged(run: Runner) -> Iterator[Path]:
    """A set-user-id copy of the static program in a folder that everybody can enter."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that raises privileges")
    with tempfile.TemporaryDirectory(prefix="hakmem-secure-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = folder / "privileged"
        shutil.copy(run.path("static_program"), program)
        os.chown(program, 0, 0)
        program.chmod(0o4755)
        yield program


def test_raised_privileges_ignore_the_environment(privileged: Path) -> None:
    finished = subprocess.run(
        [privileged],
        env={"HAKMEM_OPTIONS": "profile=lean,stats=exit,help,nonsense=1"},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.stdout.splitlines() == ["secure 1", "profile balanced", "ok"]
    assert finished.stderr == ""
    assert finished.returncode == 0
