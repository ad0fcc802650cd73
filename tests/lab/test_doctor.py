"""The doctor, on made-up machines: what each setting means, and what to type."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hakmem_lab.doctor import (
    cgroups,
    checks_limits,
    checks_pages,
    checks_process,
    checks_processors,
    noise,
)
from hakmem_lab.doctor.examine import CHECKS, Check, examine
from hakmem_lab.doctor.finding import Finding, Verdict
from hakmem_lab.doctor.host import UNLIMITED, Host, Limit
from support import BUILD, ROOT, hakmem

THP = "sys/kernel/mm/transparent_hugepage"
Make = Callable[..., Host]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A host with these files and nothing else."""

    def build(files: Mapping[str, str] | None = None, **fields: object) -> Host:
        for name, text in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        plain: dict[str, object] = {
            "environment": {}, "limits": {}, "machine": "x86_64", "libc": "2.36",
            "rseq_bytes": 32, "page_bytes": 4096, "processors": 4,
            "which": lambda name: f"/usr/bin/{name}",
        }  # fmt: skip
        return Host(root=tmp_path, **{**plain, **fields})  # type: ignore[arg-type]

    return build


def one(check: Check, host: Host) -> Finding:
    found = check(host)
    if isinstance(found, list):
        (found,) = found
    assert found is not None
    return found


# Any machine


def test_an_empty_machine_is_no_reason_to_fall_over(make: Make) -> None:
    """As in a container that hides /sys and most of /proc."""
    findings = examine(make())
    assert {"kernel", "transparent huge pages", "ulimit -s"} <= {each.name for each in findings}


@pytest.mark.parametrize(
    "text", ["", "\n", "garbage", "1 2 3", "[", "a:b:c", "-", "0x10", "max max"]
)
def test_odd_files_are_no_reason_to_fall_over(make: Make, text: str) -> None:
    names = """
        proc/cpuinfo proc/meminfo proc/loadavg proc/stat proc/self/cgroup proc/self/mountinfo
        proc/self/personality proc/self/auxv proc/pressure/memory etc/ld.so.preload
        proc/sys/kernel/osrelease proc/sys/kernel/randomize_va_space
        proc/sys/kernel/perf_event_paranoid proc/sys/kernel/yama/ptrace_scope
        proc/sys/kernel/numa_balancing proc/sys/kernel/core_pattern
        proc/sys/vm/overcommit_memory proc/sys/vm/max_map_count proc/sys/vm/swappiness
        proc/sys/vm/zone_reclaim_mode sys/kernel/mm/ksm/run
        sys/devices/system/cpu/online sys/devices/system/cpu/smt/active
        sys/devices/system/cpu/cpufreq/boost sys/devices/system/node/online
        sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
    """.split()
    names += [f"{THP}/{name}" for name in ("enabled", "defrag", "shmem_enabled")]
    names += [f"{THP}/khugepaged/max_ptes_none", f"{THP}/hugepages-64kB/enabled"]
    host = make(dict.fromkeys(names, text))
    for check in CHECKS:
        if check not in (checks_process.library, checks_process.peers):  # these read no such file
            check(host)


def test_every_warning_says_what_it_means(make: Make) -> None:
    host = make(
        {
            f"{THP}/enabled": "[always] madvise never",
            f"{THP}/defrag": "[always] defer defer+madvise madvise never",
            "proc/sys/vm/overcommit_memory": "2",
            "proc/sys/vm/max_map_count": "100",
            "proc/sys/vm/zone_reclaim_mode": "1",
            "proc/loadavg": "9.00 1.00 1.00 1/100 77",
        },
        limits={"AS": Limit(1 << 30, UNLIMITED)},
    )
    warnings = [each for each in examine(host) if each.verdict is Verdict.WARN]
    assert len(warnings) == 5
    for finding in warnings:
        assert finding.means
        assert finding.type


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_is_to_be_typed_is_shell(check: Check) -> None:
    """On this machine; the shell reads the command without running it."""
    found = check(Host())
    for finding in found if isinstance(found, list) else [found]:
        if finding is not None and finding.type:
            subprocess.run(["sh", "-n", "-c", finding.type], check=True)


# Pages


@pytest.mark.parametrize(
    ("release", "verdict", "says"),
    [
        ("6.18.4-generic", Verdict.OK, "all that allocators use"),
        ("5.10.0-28-amd64", Verdict.OK, "MADV_POPULATE_WRITE (5.14)"),
        ("5.4.0-42-generic", Verdict.NOTE, "MREMAP_DONTUNMAP (5.7)"),
        ("strange", Verdict.NOTE, "cannot be read"),
    ],
)
def test_kernel_versions(make: Make, release: str, verdict: Verdict, says: str) -> None:
    found = one(checks_pages.kernel, make({"proc/sys/kernel/osrelease": release + "\n"}))
    assert found.verdict is verdict
    assert says in found.means


@pytest.mark.parametrize(
    ("enabled", "verdict", "type_"),
    [
        ("always [madvise] never", Verdict.OK, ""),
        ("[always] madvise never", Verdict.NOTE, f"echo madvise | sudo tee /{THP}/enabled"),
        ("always madvise [never]", Verdict.NOTE, f"echo madvise | sudo tee /{THP}/enabled"),
    ],
)
def test_huge_pages(make: Make, enabled: str, verdict: Verdict, type_: str) -> None:
    found = one(checks_pages.huge_pages, make({f"{THP}/enabled": enabled}))
    assert found.verdict is verdict
    assert found.type == type_


def test_defrag_that_stalls(make: Make) -> None:
    stalls = make({f"{THP}/defrag": "[always] defer defer+madvise madvise never"})
    assert one(checks_pages.huge_page_stalls, stalls).verdict is Verdict.WARN
    defers = make({f"{THP}/defrag": "always defer [defer+madvise] madvise never"})
    found = one(checks_pages.huge_page_stalls, defers)
    assert (found.found, found.verdict) == ("defer+madvise", Verdict.OK)


def test_khugepaged_matters_where_huge_pages_are_for_all(make: Make) -> None:
    files = {f"{THP}/khugepaged/max_ptes_none": "511", f"{THP}/enabled": "[always] madvise never"}
    assert one(checks_pages.khugepaged, make(files)).verdict is Verdict.NOTE
    files[f"{THP}/enabled"] = "always [madvise] never"
    assert one(checks_pages.khugepaged, make(files)).verdict is Verdict.OK
    files[f"{THP}/enabled"] = "always madvise [never]"
    assert checks_pages.khugepaged(make(files)) is None


def test_sizes_of_huge_pages_are_told_in_order(make: Make) -> None:
    word = {"64": "[always] inherit madvise never", "2048": "always [inherit] madvise never",
            "16": "always inherit madvise [never]"}  # fmt: skip
    host = make({f"{THP}/hugepages-{kib}kB/enabled": text for kib, text in word.items()})
    found = one(checks_pages.huge_page_sizes, host)
    assert found.found == "64 KiB: always, 2 MiB: inherit"
    assert found.type == f"echo inherit | sudo tee /{THP}/hugepages-64kB/enabled"


def test_reserved_huge_pages(make: Make) -> None:
    text = "HugePages_Total:      10\nHugePages_Free:       4\nHugepagesize:       2048 kB\n"
    found = one(checks_pages.reserved_huge_pages, make({"proc/meminfo": text}))
    assert found.found == "20 MiB, 4 of 10 unused"
    assert found.verdict is Verdict.NOTE


@pytest.mark.parametrize(("bits", "shown"), [(57, "47 bits"), (48, "47 bits"), (39, "38 bits")])
def test_address_space(make: Make, bits: int, shown: str) -> None:
    cpuinfo = {"proc/cpuinfo": f"address sizes\t: 48 bits physical, {bits} bits virtual\n"}
    found = one(checks_pages.address_space, make(cpuinfo))
    assert found.found == shown
    assert (found.verdict is Verdict.OK) == (bits >= 48)


# Limits


def test_strict_overcommit_warns_when_the_promises_run_out(make: Make) -> None:
    files = {
        "proc/sys/vm/overcommit_memory": "2\n",
        "proc/meminfo": "CommitLimit:  1000 kB\nCommitted_AS:  900 kB\n",
    }
    found = one(checks_limits.overcommit, make(files))
    assert found.verdict is Verdict.WARN
    assert "90 %" in found.found
    files["proc/meminfo"] = "CommitLimit:  1000 kB\nCommitted_AS:  100 kB\n"
    assert one(checks_limits.overcommit, make(files)).verdict is Verdict.NOTE
    files["proc/sys/vm/overcommit_memory"] = "0"
    assert one(checks_limits.overcommit, make(files)).verdict is Verdict.OK


def test_limits_of_the_process(make: Make) -> None:
    free = one(checks_limits.process_limits, make())
    assert free.verdict is Verdict.OK
    soft = one(checks_limits.process_limits, make(limits={"AS": Limit(1 << 30, UNLIMITED)}))
    assert (soft.found, soft.type) == ("1 GiB", "ulimit -v unlimited")
    hard = one(checks_limits.process_limits, make(limits={"DATA": Limit(1 << 30, 1 << 30)}))
    assert hard.type == "sudo prlimit --pid $$ --data=unlimited:unlimited"


V2 = {
    "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
    "proc/self/cgroup": "0::/a/b/c\n",
}
V1 = {
    "proc/self/mountinfo": (
        "31 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "32 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "33 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    ),
    "proc/self/cgroup": "9:memory:/a/b\n4:cpu,cpuacct:/a\n0::/\n",
}


def test_the_tightest_limit_of_version_2_counts(make: Make) -> None:
    files = {
        **V2,
        "sys/fs/cgroup/a/b/c/memory.max": "max\n",
        "sys/fs/cgroup/a/b/memory.max": "1073741824\n",
        "sys/fs/cgroup/a/b/memory.current": "966367641\n",
        "sys/fs/cgroup/a/memory.max": "8589934592\n",
        "sys/fs/cgroup/a/memory.high": "536870912\n",
    }
    hard, soft = checks_limits.memory_group(make(files))
    assert hard.found == "1 GiB, 90 % used"
    assert hard.verdict is Verdict.WARN
    assert hard.type == "echo max | sudo tee /sys/fs/cgroup/a/b/memory.max"
    assert (soft.found, soft.verdict) == ("512 MiB", Verdict.WARN)
    assert soft.type.endswith("/sys/fs/cgroup/a/memory.high")


def test_version_1_beside_version_2(make: Make) -> None:
    files = {
        **V1,
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2147483648\n",
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1073741824\n",
        "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "150000\n",
        "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    host = make(files)
    found = one(checks_limits.memory_group, host)
    assert (found.name, found.found) == ("control group v1", "2 GiB, 50 % used")
    assert found.type == "echo -1 | sudo tee /sys/fs/cgroup/memory/a/memory.limit_in_bytes"
    quota = one(checks_limits.processor_group, host)
    assert quota.found == "1.5 processors"
    assert quota.type == "echo -1 | sudo tee /sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us"


def test_no_limit_on_any_level(make: Make) -> None:
    two = make(
        {**V2, "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/cpu.max": "max 100000"}
    )
    assert one(checks_limits.memory_group, two).found == "no limit"
    assert checks_limits.processor_group(two) is None


def test_the_quota_of_version_2(make: Make) -> None:
    host = make({**V2, "sys/fs/cgroup/a/b/cpu.max": "50000 100000\n",
                 "sys/fs/cgroup/a/b/c/cpu.max": "max 100000\n"})  # fmt: skip
    found = one(checks_limits.processor_group, host)
    assert (found.found, found.verdict) == ("0.5 processors", Verdict.WARN)


@pytest.mark.parametrize("inside", ["/", "/docker/f00", "/../../other", "/docker/f00/app"])
def test_a_container_sees_its_own_group_at_the_mount(make: Make, inside: str) -> None:
    """What is mounted may be a part of the hierarchy, and the path one from its top."""
    host = make(
        {
            "proc/self/mountinfo": "30 20 0:26 /docker/f00 /sys/fs/cgroup rw - cgroup2 none rw\n",
            "proc/self/cgroup": f"0::{inside}\n",
            "sys/fs/cgroup/memory.max": "1048576\n",
        }
    )
    (value,) = cgroups.values(host, "", "memory.max")
    assert value == cgroups.Value("/sys/fs/cgroup/memory.max", "1048576")


def test_swap_and_pressure(make: Make) -> None:
    swapping = make(
        {
            "proc/meminfo": "SwapTotal:  1000 kB\nSwapFree:  500 kB\n",
            "proc/sys/vm/swappiness": "60",
            "proc/pressure/memory": "some avg10=9.00 avg60=5.50 avg300=1.00 total=1\n",
        }
    )
    assert one(checks_limits.swap, swapping).verdict is Verdict.WARN
    assert one(checks_limits.memory_pressure, swapping).found.startswith("5.5 %")
    none = make({"proc/meminfo": "SwapTotal:  0 kB\nSwapFree:  0 kB\n"})
    assert (one(checks_limits.swap, none).found) == "none"


# Processors


@pytest.mark.parametrize(
    ("ranges", "count"), [("0", 1), ("0-3", 4), ("0-3,8-11", 8), ("", None), ("x-y", None)]
)
def test_lists_of_processors(ranges: str, count: int | None) -> None:
    assert checks_processors.count_of(ranges) == count


def test_governors(make: Make) -> None:
    path = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    files = {path.format(0): "performance\n", path.format(1): "powersave\n"}
    assert one(checks_processors.frequency, make(files)).verdict is Verdict.WARN
    files[path.format(1)] = "performance\n"
    assert one(checks_processors.frequency, make(files)).found == "performance on 2"


def test_boost_of_both_makers(make: Make) -> None:
    amd = make({"sys/devices/system/cpu/cpufreq/boost": "1\n"})
    assert one(checks_processors.boost, amd).type.startswith("echo 0 ")
    intel = make({"sys/devices/system/cpu/intel_pstate/no_turbo": "0\n"})
    assert one(checks_processors.boost, intel).type.startswith("echo 1 ")
    still = make({"sys/devices/system/cpu/intel_pstate/no_turbo": "1\n"})
    assert one(checks_processors.boost, still).verdict is Verdict.OK


def test_nodes_load_and_pinning(make: Make) -> None:
    host = make(
        {
            "sys/devices/system/node/online": "0-1\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "sys/devices/system/cpu/online": "0-7\n",
            "proc/loadavg": "0.10 0.20 0.30 1/200 4242\n",
        }
    )
    names = [each.name for each in checks_processors.nodes(host)]
    assert names == ["NUMA nodes", "NUMA balancing"]
    assert checks_processors.processors(host).found == "4 of 8"
    assert one(checks_processors.load, host).verdict is Verdict.OK


def test_virtual_machines(make: Make) -> None:
    real = make({"proc/cpuinfo": "flags\t\t: fpu sse2\n"})
    assert checks_processors.virtual_machine(real).verdict is Verdict.OK
    guest = make({"proc/cpuinfo": "flags\t\t: fpu hypervisor sse2\n"})
    assert checks_processors.virtual_machine(guest).verdict is Verdict.NOTE


# The process


def test_preloads_and_variables(make: Make) -> None:
    host = make(
        {"etc/ld.so.preload": "/opt/trace.so\n"},
        environment={
            "LD_PRELOAD": "/opt/libjemalloc.so", "MALLOC_ARENA_MAX": "2", "MALLOC_CHECK_": "3",
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "HAKMEM_LIBRARY": "x", "PATH": "/bin",
        },
    )  # fmt: skip
    assert [each.verdict for each in checks_process.preload(host)] == [Verdict.WARN, Verdict.NOTE]
    found = {each.name: each.type for each in checks_process.variables(host)}
    assert found == {
        "GLIBC_TUNABLES": "unset GLIBC_TUNABLES",
        "MALLOC_ARENA_MAX": "unset MALLOC_ARENA_MAX",
        "MALLOC_CHECK_": "unset MALLOC_CHECK_",
    }


@pytest.mark.parametrize(
    ("libc", "size", "environment", "says"),
    [
        ("2.36", 32, {}, "registered, 32 bytes"),
        ("2.31", None, {}, "does not register"),
        ("2.36", 0, {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}, "turned off"),
        ("2.36", 0, {}, "not registered"),
        ("", None, {}, "not known"),
    ],
)
def test_restartable_sequences(
    make: Make, libc: str, size: int | None, environment: dict[str, str], says: str
) -> None:
    host = make(libc=libc, rseq_bytes=size, environment=environment)
    assert says in one(checks_process.restartable_sequences, host).found


def test_privileges_are_read_from_the_auxiliary_vector(make: Make) -> None:
    host = make({"proc/self/exe": ""})
    for secure, verdict in ((0, Verdict.OK), (1, Verdict.WARN)):
        vector = struct.pack("=6Q", 6, 4096, 23, secure, 0, 0)
        (host.root / "proc/self/auxv").write_bytes(vector)
        assert one(checks_process.privileges, host).verdict is verdict


@pytest.mark.parametrize(
    ("scope", "verdict"),
    [(None, Verdict.OK), ("0", Verdict.OK), ("1", Verdict.NOTE), ("3", Verdict.WARN)],
)
def test_ptrace_scope(make: Make, scope: str | None, verdict: Verdict) -> None:
    files = {} if scope is None else {"proc/sys/kernel/yama/ptrace_scope": scope}
    assert one(checks_process.tracing, make(files)).verdict is verdict


def test_counters_randomization_and_tools(make: Make) -> None:
    files = {"proc/sys/kernel/perf_event_paranoid": "3", "proc/sys/kernel/randomize_va_space": "0"}
    host = make(files, which=lambda name: None if name == "gdb" else name)
    assert one(checks_process.counters, host).verdict is Verdict.NOTE
    assert one(checks_process.randomization, host).verdict is Verdict.WARN
    assert one(checks_process.tools, host).type == "sudo apt-get install gdb"
    files |= {"proc/sys/kernel/randomize_va_space": "2", "proc/self/personality": "00040000"}
    assert one(checks_process.randomization, make(files)).found == "off here"


# Noise


def test_the_noise_program_prints_what_is_read() -> None:
    done = subprocess.run(
        [BUILD / "bench/noise", "1"], capture_output=True, text=True, check=True, timeout=60
    )
    read = noise.read(json.loads(done.stdout), None)
    assert read.runs >= 5
    assert read.clock_ns > 0
    assert 0 <= read.interrupted_percent <= 100
    assert {each.name for each in noise.findings(read)} == {
        "same work, again", "interruptions", "clock",
    }  # fmt: skip


@pytest.mark.parametrize("words", [[], ["0"], ["x"], ["1", "2"], ["61"]])
def test_the_noise_program_refuses_what_it_cannot_do(words: list[str]) -> None:
    done = subprocess.run(
        [BUILD / "bench/noise", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith("noise: ")


def test_runs_needed_follow_from_the_noise() -> None:
    assert noise.runs_needed(0.01) == 5
    assert noise.runs_needed(1.0) == 49
    assert noise.runs_needed(2.0) == 194
    variation, typical = noise.of_runs([100.0] * 10 + [101.0] * 10 + [102.0] * 10 + [500.0])
    assert variation > 50
    assert typical < 2


def test_stolen_time_is_a_share_of_all_time() -> None:
    before = "cpu  100 0 100 800 0 0 0 10 0 0\ncpu0 1 2 3\n"
    after = "cpu  150 0 100 840 0 0 0 20 0 0\ncpu0 1 2 3\n"
    assert noise.steal(before, after) == pytest.approx(10.0)
    assert noise.steal(before, before) is None
    assert noise.steal("", after) is None


# The command


def test_the_command_ends_in_zero_whatever_it_finds(tmp_path: Path) -> None:
    target = tmp_path / "doctor.json"
    done = hakmem("doctor", "--quick", "--json", target, variables={"MALLOC_ARENA_MAX": "1"})
    assert done.returncode == 0, done.stderr
    assert "unset MALLOC_ARENA_MAX" in done.stdout
    content = json.loads(target.read_text())
    assert content["schema"] == 1
    assert content["noise"] is None
    names = {finding["name"] for finding in content["findings"]}
    assert {"kernel", "overcommit", "libhakmem.so", "rseq", "MALLOC_ARENA_MAX"} <= names
    for finding in content["findings"]:
        assert finding["verdict"] in ("ok", "note", "warn")


def test_the_command_refuses_a_file_that_cannot_be_written() -> None:
    done = hakmem("doctor", "--quick", "--json", "/proc/nowhere/doctor.json")
    assert done.returncode == 1
    assert "/proc/nowhere" in done.stderr
    assert done.stdout == ""


def test_a_limit_of_this_process_is_seen() -> None:
    """Not made up: the shell that starts the command has set it."""
    limited = f"ulimit -v 33554432; exec '{sys.executable}' '{ROOT / 'lab'}' doctor --quick"
    done = hakmem("-c", limited, program=["sh"])
    assert done.returncode == 0, done.stderr
    assert "32 GiB" in done.stdout
