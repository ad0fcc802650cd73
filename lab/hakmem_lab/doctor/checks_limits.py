"""Checks of what bounds memory: overcommit, mappings, ulimits, control groups, swap."""

from __future__ import annotations

import re

from hakmem_lab.doctor import cgroups
from hakmem_lab.doctor.finding import Finding, Verdict
from hakmem_lab.doctor.host import UNLIMITED, Host, size

FEWEST_MAPPINGS = 65530
# Version 1 writes "no limit" as the largest number of whole pages.
_NO_LIMIT = 1 << 62


def overcommit(host: Host) -> Finding | None:
    mode = host.number("/proc/sys/vm/overcommit_memory")
    if mode is None:
        return None
    limit, used = host.meminfo("CommitLimit"), host.meminfo("Committed_AS")
    if mode == 2:
        share = used / limit if limit and used is not None else 0.0
        found = f"2 (strict), {share * 100:.0f} % of {size(limit or 0)} promised"
        means = (
            "memory counts when it is mapped, not when it is touched: malloc returns NULL when the "
            "promises are used up, with memory still free"
        )
        verdict = Verdict.WARN if share > 0.8 else Verdict.NOTE
        return Finding("overcommit", found, verdict, means, "sudo sysctl vm.overcommit_memory=0")
    if mode == 1:
        means = "nothing is ever refused: a program that wants too much is killed, not told"
        return Finding(
            "overcommit", "1 (always)", Verdict.NOTE, means, "sudo sysctl vm.overcommit_memory=0"
        )
    means = "only a single mapping larger than all memory is refused"
    return Finding("overcommit", f"{mode} (heuristic)", Verdict.OK, means)


def mappings(host: Host) -> Finding | None:
    limit = host.number("/proc/sys/vm/max_map_count")
    if limit is None:
        return None
    means = "mappings of a process; blocks of megabytes and parts given back take some each"
    if limit < FEWEST_MAPPINGS:
        return Finding(
            "mappings", f"at most {limit:,}", Verdict.WARN, f"{means}: malloc fails beyond them",
            f"sudo sysctl vm.max_map_count={FEWEST_MAPPINGS}",
        )  # fmt: skip
    return Finding("mappings", f"at most {limit:,}", Verdict.OK, means)


# name: (option of ulimit, what a limit means)
_LIMITS = {
    "AS": (
        "v",
        "addresses are limited: HAKMEM's window shrinks, and malloc returns NULL at the limit",
    ),
    "DATA": (
        "d",
        "writable private memory is limited, touched or not: malloc returns NULL at the limit",
    ),
}


def process_limits(host: Host) -> list[Finding]:
    findings = []
    for name, (option, means) in _LIMITS.items():
        limit = host.limit(name)
        if limit != UNLIMITED:
            command = host.raise_limit(name, option, "unlimited")
            findings.append(Finding(f"ulimit -{option}", size(limit), Verdict.WARN, means, command))
    if not findings:
        means = "neither addresses nor memory of a process are limited"
        findings.append(Finding("ulimit -v, -d", "unlimited", Verdict.OK, means))
    return findings


def stack_limit(host: Host) -> Finding:
    limit = host.limit("STACK")
    if limit == UNLIMITED:
        means = "the kernel then lays out addresses the old way, from low to high"
        return Finding("ulimit -s", "unlimited", Verdict.NOTE, means, "ulimit -s 8192")
    if limit > 64 << 20:
        means = "each thread reserves that much: many threads meet other limits early"
        return Finding("ulimit -s", size(limit), Verdict.NOTE, means, "ulimit -s 8192")
    means = "addresses that each thread's stack reserves; resident is what it touches"
    return Finding("ulimit -s", size(limit), Verdict.OK, means)


def core_limit(host: Host) -> Finding:
    limit = host.limit("CORE")
    if limit == 0:
        means = "a crash leaves no core file to inspect the heap in"
        command = host.raise_limit("CORE", "c", "unlimited")
        return Finding("ulimit -c", "0", Verdict.NOTE, means, command)
    found = "unlimited" if limit == UNLIMITED else size(limit)
    pattern = host.text("/proc/sys/kernel/core_pattern") or "core"
    means = f"a crash leaves a core file with the heap: {pattern}"
    return Finding("ulimit -c", found, Verdict.OK, means)


def thread_limit(host: Host) -> Finding:
    limit = host.limit("NPROC")
    found = "unlimited" if limit == UNLIMITED else f"{limit:,}"
    means = "threads and processes of this user"
    if limit != UNLIMITED and limit < 1024:
        command = host.raise_limit("NPROC", "u", "4096")
        means += "; benchmarks of many threads need more"
        return Finding("ulimit -u", found, Verdict.NOTE, means, command)
    return Finding("ulimit -u", found, Verdict.OK, means)


def locked_memory(host: Host) -> Finding:
    limit = host.limit("MEMLOCK")
    found = "unlimited" if limit == UNLIMITED else size(limit)
    means = "memory that a program may lock; locked memory cannot be given back to the kernel"
    return Finding("ulimit -l", found, Verdict.OK, means)


def memory_group(host: Host) -> list[Finding]:
    """Memory limits of the control groups: the tightest of all levels counts."""
    version = cgroups.version(host, "memory")
    if version is None:
        means = "no limit of memory by a control group can be seen from here"
        return [Finding("control group", "none", Verdict.OK, means)]
    if version == 2:
        hard = _tightest(cgroups.values(host, "", "memory.max"))
        soft = _tightest(cgroups.values(host, "", "memory.high"))
        none = "max"
    else:
        hard = _tightest(cgroups.values(host, "memory", "memory.limit_in_bytes"))
        soft, none = None, "-1"
    findings = []
    if hard is not None:
        findings.append(_hard_limit(host, version, *hard, none))
    if soft is not None:
        means = "above it the kernel slows the program down and takes pages away, without a word"
        command = f"echo {none} | sudo tee {soft[0]}"
        findings.append(Finding("control group, soft", size(soft[1]), Verdict.WARN, means, command))
    if not findings:
        means = "no level of the control groups limits memory"
        findings.append(Finding(f"control group v{version}", "no limit", Verdict.OK, means))
    return findings


def _hard_limit(host: Host, version: int, path: str, limit: int, none: str) -> Finding:
    usage_name = "memory.current" if version == 2 else "memory.usage_in_bytes"
    used = host.number(f"{path.rpartition('/')[0]}/{usage_name}")
    share = used / limit if used is not None and limit else 0.0
    means = "malloc does not return NULL there: the kernel kills a process of the group"
    if share > 0.8:
        means += "; most of it is used (files' pages count too, and give way)"
    found = f"{size(limit)}, {share * 100:.0f} % used"
    verdict = Verdict.WARN if share > 0.8 else Verdict.NOTE
    command = f"echo {none} | sudo tee {path}"
    return Finding(f"control group v{version}", found, verdict, means, command)


def _tightest(values: list[cgroups.Value]) -> tuple[str, int] | None:
    limits = [
        (value.path, int(value.text))
        for value in values
        if re.fullmatch(r"\d+", value.text) and int(value.text) < _NO_LIMIT
    ]
    return min(limits, key=lambda limit: limit[1], default=None)


def processor_group(host: Host) -> Finding | None:
    """The processor time that the control groups allow, in processors."""
    quotas: list[tuple[float, str, str]] = []
    for value in cgroups.values(host, "", "cpu.max"):
        fields = value.text.split()
        if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
            quotas.append((int(fields[0]) / max(1, int(fields[1])), value.path, "max"))
    for value in cgroups.values(host, "cpu", "cpu.cfs_quota_us"):
        period = host.number(value.path.replace("quota", "period"))
        if re.fullmatch(r"\d+", value.text) and period:
            quotas.append((int(value.text) / period, value.path, "-1"))
    if not quotas:
        return None
    processors, path, none = min(quotas)
    means = "whoever has used it up stands still until the next period: calls that are late by ms"
    return Finding(
        "processor quota", f"{processors:g} processors", Verdict.WARN, means,
        f"echo {none} | sudo tee {path}",
    )  # fmt: skip


def swap(host: Host) -> Finding | None:
    total, free = host.meminfo("SwapTotal"), host.meminfo("SwapFree")
    if total is None or free is None:
        return None
    if total == 0:
        means = "what is resident stays; when memory runs out, a process is killed"
        return Finding("swap", "none", Verdict.OK, means)
    swappiness = host.number("/proc/sys/vm/swappiness")
    found = f"{size(total - free)} of {size(total)} used, swappiness {swappiness}"
    if total - free > total // 10:
        means = "parts of programs lie on disk: resident memory is not all they use, calls are late"
        return Finding("swap", found, Verdict.WARN, means, "sudo swapoff -a && sudo swapon -a")
    means = "idle memory may be written out: resident memory then shrinks by itself"
    return Finding("swap", found, Verdict.OK, means)


def memory_pressure(host: Host) -> Finding | None:
    """PSI: the share of the last minute in which some program waited for memory."""
    text = host.text("/proc/pressure/memory") or ""
    found = re.search(r"^some .*avg60=([\d.]+)", text, re.MULTILINE)
    if found is None:
        return None
    share = float(found[1])
    if share > 1.0:
        means = "programs wait for memory to be freed: no measurement now says anything"
        return Finding(
            "memory pressure", f"{share:g} % of the last minute", Verdict.WARN, means,
            "ps -eo pid,rss,args --sort -rss | head",
        )  # fmt: skip
    means = "no program waits for memory"
    return Finding("memory pressure", f"{share:g} % of the last minute", Verdict.OK, means)


CHECKS = (
    overcommit, mappings, process_limits, stack_limit, core_limit, thread_limit, locked_memory,
    memory_group, processor_group, swap, memory_pressure,
)  # fmt: skip
