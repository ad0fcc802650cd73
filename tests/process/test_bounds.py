"""HAKMEM's own limits: soft_limit, hard_limit, and those that follow from a cgroup."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conftest import Runner, limited, native

MIB = 1 << 20
HARD = "hard_limit=256M"


def limits_after(
    run: Runner, folder: Path, limit: int, options: str, before: Sequence[str] = ()
) -> dict[str, int]:
    """The limits in force at the end of a program that runs into one."""
    report = folder / "stats.json"
    options = f"stats=exit:json,stats_file={report},{options}"
    run("bounds", "grow", limit, options=options, before=before)
    limits: dict[str, int] = json.loads(report.read_text())["limits"]
    return limits


@pytest.mark.parametrize("way", ["grow", "threads", "realloc"])
def test_hard_limit(run: Runner, way: str) -> None:
    run("bounds", way, 256, options=HARD)


def test_hard_limit_refuses_every_function(run: Runner) -> None:
    run("limits", "refused-at", 256, options=HARD)


def test_soft_limit(run: Runner) -> None:
    # Without it nothing would go back for an hour.
    run("bounds", "soft", 64, options="soft_limit=64M,decay_ms=3600000")


def test_call_backs(run: Runner) -> None:
    run("bounds", "call-backs", 256, options=f"{HARD},soft_limit=128M")


@pytest.mark.parametrize("profile", ["speed", "balanced", "lean"])
def test_blocks_in_bins_are_not_in_the_way_of_long_ones(run: Runner, profile: str) -> None:
    run("long_blocks", 20, "bins", options=f"profile={profile}")


def test_guarded_blocks_are_not_in_the_way_of_long_ones(run: Runner) -> None:
    # One in 1,001, of 3,200; where they lie is chance.
    for _ in range(8):
        run("long_blocks", 100, options="guard_rate=1001")


@pytest.mark.parametrize("size", [48, 1000, 6000])
def test_what_falls_and_grows_keeps_its_memory(run: Runner, size: int) -> None:
    run("falls_and_grows", size, options="decay_ms=60000,guard_rate=0")


@pytest.mark.parametrize("options", ["profile=balanced", "thp=always"])
def test_few_mappings(run: Runner, options: str) -> None:
    # 512 ranges of moved pages cost two each; programs have some 100 of their own. Neighbours
    # of which one has advice about huge pages and the other none are two mappings.
    run("bounds", "mappings", 1300, options=options)


def test_growth_by_steps_moves_seldom(run: Runner) -> None:
    """Twelve doublings, a quarter at a time; nearly 190 size classes lie between."""
    run("bounds", "steps", 42)


def test_limits_in_statistics(run: Runner, tmp_path: Path) -> None:
    limits = limits_after(run, tmp_path, 256, f"soft_limit=64M,{HARD}")
    assert limits["soft_bytes"] == 64 * MIB
    assert limits["hard_bytes"] == 256 * MIB
    assert limits["soft_passed"] >= 1
    assert limits["hard_refused"] >= 4


# --- a cgroup ---------------------------------------------------------------------------

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


def set_limit(group: Path, limit: int) -> None:
    if (group / "memory.limit_in_bytes").exists():
        (group / "memory.limit_in_bytes").write_text(str(limit))
        return
    if not (group / "memory.max").exists():
        message = "cgroups here do not limit memory"
        raise OSError(message)
    (group / "memory.max").write_text(str(limit))
    if (group / "memory.swap.max").exists():
        (group / "memory.swap.max").write_text("0")


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A group that may have 256 MiB, nothing in it yet."""
    parent = V1 if (V1 / "memory.limit_in_bytes").exists() else V2
    group = parent / f"hakmem-test-{uuid.uuid4()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made in {parent}: {error}")
    try:
        try:
            set_limit(group, 256 * MIB)
        except OSError as error:
            pytest.skip(f"memory cannot be limited in {group}: {error}")
        yield group
    finally:
        group.rmdir()


def inside(group: Path) -> list[str]:
    return limited(f"echo $$ > {group}/cgroup.procs")


@native
@pytest.mark.parametrize("way", ["grow", "threads", "realloc"])
def test_nobody_is_killed_in_a_cgroup(run: Runner, cgroup: Path, way: str) -> None:
    # 90 % of 256 MiB. A kill would end the run with a signal.
    run("bounds", way, 230, options="hard_limit=auto", before=inside(cgroup))


@native
def test_soft_limit_follows_from_the_cgroup(run: Runner, cgroup: Path, tmp_path: Path) -> None:
    limits = limits_after(run, tmp_path, 230, "hard_limit=auto", inside(cgroup))
    assert limits["cgroup_bytes"] == 256 * MIB
    assert limits["soft_bytes"] == 256 * MIB // 10 * 8
    assert limits["hard_bytes"] == 256 * MIB // 10 * 9
    assert limits["soft_passed"] >= 1


@native
def test_nothing_is_read_by_small_programs(run: Runner, tmp_path: Path) -> None:
    """Not below 16 MiB, and not where no limit depends on a cgroup."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace")
    log = tmp_path / "log"

    def reads(*arguments: str | int, options: str) -> int:
        trace = [strace, "-f", "-qq", "-e", "trace=openat", "-o", str(log)]
        command = [*trace, "-E", f"LD_PRELOAD={run.library}", "-E", f"HAKMEM_OPTIONS={options}"]
        run("bounds", *arguments, before=command, preload=False)
        return log.read_text().count("/proc/self/mountinfo")

    assert reads("small", 8, options="verbose=0") == 0
    assert reads("small", 40, options="verbose=0") == 1
    assert reads("small", 40, options="soft_limit=0,shards=2") == 0
    assert reads("small", 40, options="soft_limit=0,shards=2,hard_limit=auto") == 1
