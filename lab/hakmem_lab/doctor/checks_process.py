"""Checks of what a program meets at its start (preload, variables, rseq) and of the lab's tools."""

from __future__ import annotations

import re
import struct

from hakmem_lab import paths
from hakmem_lab.doctor.finding import Finding, Verdict
from hakmem_lab.doctor.host import Host
from hakmem_lab.errors import LabError
from hakmem_lab.peers import registry

_ADDR_NO_RANDOMIZE = 0x0040000
_AT_SECURE = 23
_OLDEST_GLIBC_WITH_RSEQ = (2, 35)


def library(_: Host) -> Finding:
    try:
        path = paths.library()
    except LabError as error:
        return Finding("libhakmem.so", "missing", Verdict.WARN, str(error), "make")
    version = paths.version(path)
    means = "what `hakmem run` preloads"
    return Finding("libhakmem.so", f"{path} {version}".strip(), Verdict.OK, means)


def preload(host: Host) -> list[Finding]:
    findings = []
    everyone = host.text("/etc/ld.so.preload")
    if everyone:
        means = "preloaded into every program of this machine, measured ones too"
        findings.append(
            Finding(
                "/etc/ld.so.preload", everyone.splitlines()[0], Verdict.WARN, means,
                "sudoedit /etc/ld.so.preload",
            )
        )  # fmt: skip
    value = host.environment.get("LD_PRELOAD", "")
    if not value:
        means = "nothing is preloaded from this shell. To preload HAKMEM: hakmem run -- PROGRAM"
        findings.append(Finding("LD_PRELOAD", "not set", Verdict.OK, means))
    elif "libhakmem" in value:
        means = "every program of this shell runs under HAKMEM already"
        findings.append(Finding("LD_PRELOAD", value, Verdict.NOTE, means, "unset LD_PRELOAD"))
    else:
        means = "every program of this shell loads it; if it is an allocator, it may be in the way"
        findings.append(Finding("LD_PRELOAD", value, Verdict.NOTE, means, "unset LD_PRELOAD"))
    return findings


def privileges(host: Host) -> Finding | None:
    """AT_SECURE: a privileged program ignores LD_PRELOAD and HAKMEM_OPTIONS."""
    try:
        vector = (host.root / "proc/self/auxv").read_bytes()
    except OSError:
        return None
    words = struct.unpack(f"={len(vector) // 8}Q", vector[: len(vector) // 8 * 8])
    secure = dict(zip(words[::2], words[1::2], strict=False)).get(_AT_SECURE)
    if secure:
        means = "the dynamic linker ignores LD_PRELOAD here: link the library instead"
        return Finding("privileges", "raised", Verdict.WARN, means)
    return Finding("privileges", "ordinary", Verdict.OK, "LD_PRELOAD is heeded")


def variables(host: Host) -> list[Finding]:
    findings = []
    tunables = host.environment.get("GLIBC_TUNABLES", "")
    if "glibc.malloc" in tunables:
        means = "set for glibc's malloc; without effect under another. The lab takes it away"
        findings.append(
            Finding("GLIBC_TUNABLES", tunables, Verdict.NOTE, means, "unset GLIBC_TUNABLES")
        )
    for name in sorted(host.environment):
        if re.match(r"(MALLOC|MIMALLOC|TCMALLOC)_|HAKMEM_OPTIONS$", name):
            means = "changes how an allocator behaves in programs of this shell, not in the lab's"
            findings.append(
                Finding(name, host.environment[name], Verdict.NOTE, means, f"unset {name}")
            )
    if not findings:
        means = "no variable changes how an allocator behaves"
        findings.append(Finding("variables", "none", Verdict.OK, means))
    return findings


def restartable_sequences(host: Host) -> Finding:
    version = re.match(r"(\d+)\.(\d+)", host.libc)
    if host.rseq_bytes:
        means = "glibc has registered it: asking which processor one is on is a load"
        return Finding("rseq", f"registered, {host.rseq_bytes} bytes", Verdict.OK, means)
    means = "caches for each processor (Google's TCMalloc) need it; HAKMEM does not"
    if version and (int(version[1]), int(version[2])) < _OLDEST_GLIBC_WITH_RSEQ:
        return Finding("rseq", f"glibc {host.libc} does not register it", Verdict.NOTE, means)
    if "glibc.pthread.rseq=0" in host.environment.get("GLIBC_TUNABLES", ""):
        return Finding("rseq", "turned off", Verdict.NOTE, means, "unset GLIBC_TUNABLES")
    found = "not registered" if host.libc else "not known: the C library is not glibc"
    return Finding("rseq", found, Verdict.NOTE, means, "export GLIBC_TUNABLES=glibc.pthread.rseq=1")


def randomization(host: Host) -> Finding | None:
    level = host.number("/proc/sys/kernel/randomize_va_space")
    if level is None:
        return None
    personality = host.text("/proc/self/personality") or ""
    if re.fullmatch(r"[0-9a-f]+", personality) and int(personality, 16) & _ADDR_NO_RANDOMIZE:
        means = "off in this shell (setarch -R): all runs have the same addresses, lucky or not"
        return Finding("address randomization", "off here", Verdict.NOTE, means, "exit")
    if level == 2:
        means = "addresses differ from run to run, as an attacker should find them"
        return Finding("address randomization", "on", Verdict.OK, means)
    means = "addresses can be foretold; runs of a benchmark share one layout, lucky or not"
    found = "off" if level == 0 else "partly"
    command = "sudo sysctl kernel.randomize_va_space=2"
    return Finding("address randomization", found, Verdict.WARN, means, command)


def counters(host: Host) -> Finding | None:
    level = host.number("/proc/sys/kernel/perf_event_paranoid")
    if level is None:
        means = "the kernel has no performance counters: no instructions, no cache misses"
        return Finding("performance counters", "not there", Verdict.NOTE, means)
    if level > 2:
        means = "only root may count instructions, cache and TLB misses of its own programs"
        command = "sudo sysctl kernel.perf_event_paranoid=2"
        return Finding("performance counters", f"level {level}", Verdict.NOTE, means, command)
    means = "own programs may be counted"
    return Finding("performance counters", f"level {level}", Verdict.OK, means)


def tracing(host: Host) -> Finding:
    scope = host.number("/proc/sys/kernel/yama/ptrace_scope") or 0
    name, found = "ptrace scope", str(scope)
    if scope == 0:
        means = "live heaps of one's own programs can be inspected, system calls counted"
        return Finding(name, found, Verdict.OK, means)
    if scope == 3:
        means = "nobody may look into another process until the next boot: no calls per operation"
        return Finding(name, found, Verdict.WARN, means)
    who = "its ancestors" if scope == 1 else "root"
    means = f"only {who} may look into a live process"
    command = "sudo sysctl kernel.yama.ptrace_scope=0"
    return Finding(name, found, Verdict.NOTE, means, command)


_TOOLS = {
    "strace": "counts system calls (soak)",
    "gdb": "looks into live heaps and core files",
    "valgrind": "finds memory errors; HAKMEM steps aside under it",
}


def tools(host: Host) -> list[Finding]:
    missing = [name for name in _TOOLS if host.which(name) is None]
    if not missing:
        means = "system calls can be counted, heaps looked into"
        return [Finding("tools", ", ".join(_TOOLS), Verdict.OK, means)]
    return [
        Finding(name, "not here", Verdict.NOTE, _TOOLS[name], f"sudo apt-get install {name}")
        for name in missing
    ]


def peers(_: Host) -> Finding:
    missing = registry.choose(None)[1]
    if missing:
        means = "comparisons leave them out"
        found = f"missing: {', '.join(missing)}"
        return Finding("peers", found, Verdict.NOTE, means, "hakmem peers install")
    means = "comparisons are with all of them"
    return Finding("peers", ", ".join(registry.default_names()), Verdict.OK, means)


CHECKS = (
    library, preload, privileges, variables, restartable_sequences, randomization, counters,
    tracing, tools, peers,
)  # fmt: skip
