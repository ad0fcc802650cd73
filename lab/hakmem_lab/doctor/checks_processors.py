"""Checks of the processors: how many, how fast, how even, and who else uses them."""

from __future__ import annotations

import re
from collections import Counter

from hakmem_lab.doctor.finding import Finding, Verdict
from hakmem_lab.doctor.host import Host

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"


def count_of(ranges: str | None) -> int | None:
    """How many numbers a list like `0-3,8` holds; None when it is not such a list."""
    total = 0
    for part in (ranges or "").split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if found is None:
            return None
        total += int(found[2] or found[1]) - int(found[1]) + 1
    return total


def processors(host: Host) -> Finding:
    online = count_of(host.text(f"{CPU}/online"))
    if online is not None and host.processors < online:
        means = "this shell is pinned; HAKMEM makes a shard for each processor that it may use"
        return Finding(
            "processors", f"{host.processors} of {online}", Verdict.NOTE, means,
            f"taskset -pc 0-{online - 1} $$",
        )  # fmt: skip
    means = "HAKMEM makes a shard for each; benchmarks of threads want at least two"
    verdict = Verdict.OK if host.processors > 1 else Verdict.NOTE
    return Finding("processors", str(host.processors), verdict, means)


def frequency(host: Host) -> Finding:
    name = "frequency scaling"
    paths = host.glob(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor")
    governors = Counter(host.text(path) or "?" for path in paths)
    if not governors:
        means = "the kernel does not steer the clock (in a virtual machine its host does)"
        return Finding(name, "not visible", Verdict.OK, means)
    found = ", ".join(f"{governor} on {count}" for governor, count in governors.most_common())
    if set(governors) == {"performance"}:
        return Finding(name, found, Verdict.OK, "the clock does not wait for load")
    means = "the clock rises while a benchmark runs: the first runs are slower than the last"
    command = f"echo performance | sudo tee {CPU}/cpu*/cpufreq/scaling_governor"
    return Finding(name, found, Verdict.WARN, means, command)


def boost(host: Host) -> Finding | None:
    no_turbo = host.number(f"{CPU}/intel_pstate/no_turbo")
    switch = host.number(f"{CPU}/cpufreq/boost")
    if no_turbo is not None:
        is_on, command = no_turbo == 0, f"echo 1 | sudo tee {CPU}/intel_pstate/no_turbo"
    elif switch is not None:
        is_on, command = switch == 1, f"echo 0 | sudo tee {CPU}/cpufreq/boost"
    else:
        return None
    if is_on:
        means = "the clock depends on heat and on what other cores do: figures vary"
        return Finding("boost", "on", Verdict.NOTE, means, command)
    return Finding("boost", "off", Verdict.OK, "the clock does not depend on heat")


def hyperthreads(host: Host) -> Finding | None:
    active = host.number(f"{CPU}/smt/active")
    if active is None:
        return None
    if active == 1:
        means = "two processors share a core: each is slower while the other works"
        return Finding("SMT", "on", Verdict.NOTE, means, f"echo off | sudo tee {CPU}/smt/control")
    return Finding("SMT", "off", Verdict.OK, "each processor is a core of its own")


def virtual_machine(host: Host) -> Finding:
    cpuinfo = host.text("/proc/cpuinfo") or ""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    vendor = host.text("/sys/class/dmi/id/sys_vendor") or ""
    known = re.search(r"QEMU|Amazon EC2|Google|Xen|VMware|innotek|Microsoft Corporation", vendor)
    is_one = (flags is not None and "hypervisor" in flags[1].split()) or (
        host.text("/sys/hypervisor/type") is not None
    )
    if is_one or (known and flags is None):
        means = "page faults and TLB misses are dearer; its host may take the processor away"
        return Finding("virtual machine", "yes", Verdict.NOTE, means)
    return Finding("virtual machine", "no sign of one", Verdict.OK, "the machine is itself")


def load(host: Host) -> Finding | None:
    fields = (host.text("/proc/loadavg") or "").split()
    if len(fields) < 4:
        return None
    try:
        average = float(fields[0])
    except ValueError:
        return None
    found = f"{average:g} in the last minute, {host.processors} processors"
    if average > host.processors / 4:
        means = "other programs are at work: figures taken now are theirs too"
        command = "ps -eo pid,pcpu,args --sort -pcpu | head"
        return Finding("load", found, Verdict.WARN, means, command)
    return Finding("load", found, Verdict.OK, "nothing else runs to speak of")


def nodes(host: Host) -> list[Finding]:
    count = count_of(host.text(f"{NODE}/online"))
    if count is None or count < 2:
        means = "all memory is equally near"
        return [Finding("NUMA nodes", str(count or 1), Verdict.OK, means)]
    means = "memory of another node is slower: where a run's pages lie changes its time"
    findings = [
        Finding(
            "NUMA nodes", str(count), Verdict.NOTE, means,
            "numactl --cpunodebind=0 --membind=0 hakmem compare -- PROGRAM",
        )
    ]  # fmt: skip
    if host.number("/proc/sys/kernel/numa_balancing"):
        means = "the kernel takes pages away for a moment to see who uses them: more faults"
        findings.append(
            Finding(
                "NUMA balancing", "on", Verdict.NOTE, means, "sudo sysctl kernel.numa_balancing=0"
            )
        )
    return findings


def zone_reclaim(host: Host) -> Finding | None:
    mode = host.number("/proc/sys/vm/zone_reclaim_mode")
    if mode is None:
        return None
    if mode:
        means = "a node that is full frees its own pages before it asks another: late faults"
        return Finding(
            "zone reclaim", str(mode), Verdict.WARN, means, "sudo sysctl vm.zone_reclaim_mode=0"
        )
    return Finding("zone reclaim", "off", Verdict.OK, "a full node takes memory of another")


CHECKS = (
    processors, frequency, boost, hyperthreads, virtual_machine, load, nodes, zone_reclaim,
)  # fmt: skip
