"""Processes that may not have as much memory as they want, and what they leave behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import Runner, limited, native

MIB = 1 << 20


@pytest.mark.parametrize("size", [48, 1000, 20_000, 100_000, MIB, 24 * MIB])
def test_ulimit_of_256_mib(run: Runner, size: int) -> None:
    # Seven blocks of 24 MiB fill it, or six.
    percent = 90 if size < 24 * MIB else 70
    run("limits", size, percent, before=limited(f"ulimit -v {256 * 1024}"))


@pytest.mark.parametrize("size", [48, 5000, 600_000, 40 * MIB])
def test_ulimit_of_2_gib(run: Runner, size: int) -> None:
    run("limits", size, 85, before=limited(f"ulimit -v {2048 * 1024}"))


# Space is reserved 32 MiB at a time: not all of these limits leave the same rest.
@pytest.mark.parametrize("mebibytes", [248, 256, 264, 272])
def test_addresses_are_used_to_the_end(run: Runner, mebibytes: int) -> None:
    run("limits", "to-the-end", 1000, before=limited(f"ulimit -v {mebibytes * 1024}"))


def test_free_blocks_in_bins_are_not_stranded(run: Runner) -> None:
    run("limits", "stranded", "in-bins")


def test_memory_that_is_there_serves_when_more_is_refused(run: Runner) -> None:
    run("limits", "committed", "elsewhere")


@pytest.mark.parametrize("options", ["", "hardened=1", "hardened=2"])
def test_blocks_find_a_place_outside_a_full_arena(run: Runner, options: str) -> None:
    run("limits", "full", 32, options=",".join(filter(None, ["arena_size=32M", options])))


def test_what_another_shard_has_serves_when_addresses_are_out(run: Runner) -> None:
    run("limits", "beside", 32, options="arena_size=32M,shards=2")


@pytest.mark.parametrize("limit", ["as", "data"])
def test_limit_set_at_run_time(run: Runner, limit: str) -> None:
    run("limits", "at-run-time", limit)


@native
def test_real_programs_at_256_mib(run: Runner) -> None:
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(run.library)}
    command = [*limited(f"ulimit -v {256 * 1024}"), "/bin/sh", "-c", "ls -l / | sort | wc -l"]
    finished = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert int(finished.stdout) > 5
    assert finished.stderr == ""


@native
@pytest.mark.parametrize("life", ["short", "threads"])
def test_a_core_file_stays_small(run: Runner, tmp_path: Path, life: str) -> None:
    elsewhere = Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/"))
    hard_limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if elsewhere or hard_limit != resource.RLIM_INFINITY:
        core = core_by_debugger(run, tmp_path, life)
    else:
        core = core_by_kernel(run, tmp_path, life)
    size = core.stat().st_size
    on_disk = core.stat().st_blocks * 512
    assert size > 100_000
    assert on_disk < 8 * MIB, f"{on_disk} bytes"
    # Here holes count, too. The two stacks of 8 MiB that libc keeps for later threads are holes.
    assert size < (20 if life == "short" else 56) * MIB, f"{size} bytes"
    assert b"libhakmem" in core.read_bytes()


def core_by_kernel(run: Runner, folder: Path, life: str) -> Path:
    finished = subprocess.run(
        [run.path("core"), life],
        env={"LD_PRELOAD": str(run.library)},
        cwd=folder,
        timeout=60,
        capture_output=True,
        check=False,
    )
    assert finished.returncode == -signal.SIGABRT, finished.stderr
    (core,) = folder.glob("core*")
    return core


def core_by_debugger(run: Runner, folder: Path, life: str) -> Path:
    debugger = shutil.which("gdb")
    assert debugger, "core files go elsewhere on this machine, and there is no gdb to make one"
    with subprocess.Popen(
        [run.path("core"), life, "wait"],
        env={"LD_PRELOAD": str(run.library)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        core = folder / "core"
        subprocess.run(
            [debugger, "-batch", "-p", str(program.pid), "-ex", f"generate-core-file {core}"],
            timeout=120,
            capture_output=True,
            check=True,
        )
        program.communicate(b"\n", timeout=30)
    return core
