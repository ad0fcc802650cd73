"""The metrics: their units, which way is better, what people call them, how figures are written.

A new metric is a line here; results, tables, charts and pages take it from there. A result may hold
a metric that is not listed (one of a newer version): its unit is then guessed from its name.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 2.0**10, 2.0**20


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    title: str
    better: str = "lower"
    small: bool = False  # bytes that people count in KiB


_ALL = (
    Metric("ns_per_op", "ns", "time per operation"),
    Metric("cpu_ns_per_op", "ns", "CPU time per operation"),
    Metric("wall_s", "s", "time"),
    Metric("cpu_s", "s", "CPU time"),
    Metric("peak_rss_bytes", "bytes", "peak memory"),
    Metric("avg_pss_bytes", "bytes", "average memory"),
    Metric("page_faults", "faults", "page faults"),
    Metric("context_switches", "switches", "context switches"),
    Metric("syscalls", "calls", "system calls"),
    Metric("memory_syscalls", "calls", "memory system calls"),
    Metric("syscalls_per_op", "calls", "system calls per operation"),
    Metric("slow_calls_per_mop", "calls", "slow calls per million operations"),
    Metric("locks_per_mop", "locks", "locks taken per million operations"),
    Metric("contended_per_mop", "locks", "contended locks per million operations"),
    Metric("contended_per_1000_slow", "locks", "contended locks per 1,000 slow calls"),
    Metric("page_faults_per_op", "faults", "page faults per operation"),
    Metric("fast_instructions_per_op", "instructions", "instructions of malloc and free"),
    Metric("slow_instructions_per_op", "instructions", "instructions of the slow path"),
    Metric("resident_bytes", "bytes", "resident memory"),
    # What drivers of the memory suite say; bench/support/memory.h has the how.
    Metric("average_rss_bytes", "bytes", "average resident memory"),
    Metric("rss_after_100ms_bytes", "bytes", "resident 0.1 s after"),
    Metric("rss_after_bytes", "bytes", "resident after the work"),
    Metric("rss_after_2s_bytes", "bytes", "resident 2 s after"),
    Metric("live_bytes", "bytes", "of that in live blocks"),
    Metric("fragmentation", "ratio", "resident over live memory"),
    Metric("thread_bytes", "bytes", "memory of one more thread", small=True),
    Metric(
        "thread_heap_bytes", "bytes", "the same over a thread that does not allocate", small=True
    ),
    Metric("private_bytes", "bytes", "memory of one more process", small=True),
)

METRICS = {each.name: each for each in _ALL}

_SUFFIXES = (("_bytes", "bytes"), ("_ns", "ns"), ("_s", "s"), ("_ratio", "ratio"))


def of(name: str) -> Metric:
    known = METRICS.get(name)
    if known is not None:
        return known
    for suffix, unit in _SUFFIXES:
        if name.endswith(suffix):
            return Metric(name, unit, name.removesuffix(suffix).replace("_", " "))
    return Metric(name, "", name.replace("_", " "))


def title(name: str) -> str:
    return of(name).title


def heading(name: str) -> str:
    words = title(name)
    return words[:1].upper() + words[1:]


def in_order(names: set[str]) -> list[str]:
    """As listed above; others behind them by name."""
    known = [name for name in METRICS if name in names]
    return known + sorted(names - set(known))


def scale(name: str) -> tuple[float, str]:
    """What figures of a metric are divided by where the unit is said once, and that unit."""
    unit = of(name).unit
    if unit == "bytes":
        return (KIB, "KiB") if of(name).small else (MIB, "MiB")
    if unit == "s":
        return 1e-3, "ms"
    return 1.0, unit if unit in ("ns", "ms") else ""


def figure(value: float, name: str) -> str:
    """Three digits that matter, in the unit that people expect."""
    unit = of(name).unit
    if unit == "bytes":
        divisor, shown = scale(name)
        return f"{value / divisor:,.1f} {shown}"
    if unit == "s":
        return f"{value:,.1f} s" if value >= 100 else f"{number(value * 1000)} ms"
    if name in METRICS and float(value).is_integer():
        return f"{value:,.0f}"
    return number(value)


def number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.01:
        return f"{value:.1e}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if value else "0"
