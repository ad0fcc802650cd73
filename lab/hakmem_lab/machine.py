"""What of this machine decides how fast and how large a program is, for the head of a result."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _field(text: str | None, name: str) -> str | None:
    """The value of a `name : value` line, as in /proc/cpuinfo and os-release."""
    found = re.search(rf'^{name}\s*[:=]\s*"?(.*?)"?$', text or "", re.MULTILINE)
    return found.group(1) if found else None


def _chosen(text: str | None) -> str | None:
    """The marked word of a kernel setting such as `always [madvise] never`."""
    found = re.search(r"\[(\w+)\]", text or "")
    return found.group(1) if found else text


def _governor() -> str | None:
    return _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def describe() -> dict[str, object]:
    """Plain facts, no host name: results are published."""
    cpuinfo = _read("/proc/cpuinfo")
    memory = _field(_read("/proc/meminfo"), "MemTotal")
    flags = (_field(cpuinfo, "flags") or "").split()
    return {
        "cpu": _field(cpuinfo, "model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory.split()[0]) * 1024 if memory else None,
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "virtual_machine": "hypervisor" in flags,
        "kernel": platform.release(),
        "system": _field(_read("/etc/os-release"), "PRETTY_NAME"),
        "libc": " ".join(platform.libc_ver()),
        "huge_pages": _chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "overcommit": _read("/proc/sys/vm/overcommit_memory"),
        "frequency_governor": _governor(),
    }


def sentence(description: dict[str, object]) -> str:
    """One line for a caption."""
    memory = description.get("memory_bytes")
    gib = f"{int(memory) / 2**30:.0f} GiB, " if isinstance(memory, int) else ""
    kind = ", virtual machine" if description.get("virtual_machine") else ""
    processors = description.get("processors")
    plural = "" if processors == 1 else "s"
    return (
        f"{description.get('cpu')}, {processors} processor{plural}{kind}, {gib}"
        f"Linux {description.get('kernel')}, {description.get('libc')}"
    )
