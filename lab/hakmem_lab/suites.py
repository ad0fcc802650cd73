"""The built-in benchmarks: names, what is behind them, and which allocators fit.

Behind a benchmark is a driver (bench/*.c), which prints one line of JSON, or a program of the
system (programs/). Either has a command, and reads metrics and a checksum out of a run of it; the
checksum must be the same under every allocator.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hakmem_lab import metrics, paths
from hakmem_lab.errors import LabError, MissingError, RunError
from hakmem_lab.measure import Allocator, Command, Run
from hakmem_lab.programs.catalogue import PROGRAMS
from hakmem_lab.programs.program import Program
from hakmem_lab.schedule import Samples

STUB = "stub"
DRIVER_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Benchmark:
    name: str
    driver: str
    arguments: tuple[str, ...] = ()
    # The do-nothing limit hands out blocks that are still in use. It is left out where that
    # measures another program: contents that matter, or live blocks beyond the caches.
    stub: bool = True

    brings_malloc = False  # a property of programs

    def command(self) -> Command:
        words = (str(paths.tool(self.driver)), *self.arguments)
        return Command(words, timeout_seconds=DRIVER_TIMEOUT_SECONDS, watch=False)

    def fits(self, allocator: str) -> bool:
        return self.stub or allocator != STUB

    def missing(self) -> str | None:
        return None  # paths.tool builds the drivers

    def make_ready(self) -> None:
        self.command()

    def read(self, run: Run) -> tuple[dict[str, float], str]:
        """The launcher's metrics, the driver's own where they are nearer to the point; checksum."""
        try:
            line = dict(json.loads(run.stdout))
            name, checksum = line["benchmark"], line["checksum"]
            own = {key: float(value) for key, value in line.items() if key not in _FACTS}
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"the driver printed no result: {error!r}") from None
        for metric in own:
            if metric not in metrics.METRICS:
                raise RunError(f"the driver of {self.name} reports '{metric}', which has no unit")
        if not {"ns_per_op", "peak_rss_bytes"} <= set(own):
            raise RunError(f"the driver of {self.name} reports no time, or no peak memory")
        if name != self.name:
            raise RunError(f"the driver of {self.name} reports itself as {name}")
        return {**run.metrics, **own}, checksum


# What a driver's line has beside metrics.
_FACTS = ("benchmark", "ops", "seconds", "checksum")

AnyBenchmark = Benchmark | Program


_PAIR_SIZES = (16, 64, 256, 1024, 8192, 65536, 1048576)
_CACHED_SLOTS = (256, 400, 4096)
_LARGE_SLOTS = (65536, 1000000)

MICRO = (
    *(Benchmark(f"pair_{size}", "pair", (str(size),)) for size in _PAIR_SIZES),
    *(Benchmark(f"random_mixed_{n}", "random_mixed", (str(n),)) for n in _CACHED_SLOTS),
    *(Benchmark(f"random_mixed_{n}", "random_mixed", (str(n),), stub=False) for n in _LARGE_SLOTS),
    Benchmark("bulk_fifo", "bulk_fifo", stub=False),
    Benchmark("bulk_lifo", "bulk_lifo", stub=False),
    Benchmark("bulk_random", "bulk_random", stub=False),
    Benchmark("mid_mixed", "mid_mixed"),
    Benchmark("realloc_grow", "realloc_grow", stub=False),
    Benchmark("calloc_large", "calloc_large", stub=False),
    Benchmark("aligned_mixed", "aligned_mixed"),
)

# The numbers are those of threads: two, one for each processor of a small machine, if none.
THREADS = (
    Benchmark("larson", "larson", ("2",), stub=False),
    Benchmark("larson_16", "larson", ("16",), stub=False),
    Benchmark("producer_consumer", "producer_consumer", ("1",), stub=False),
    Benchmark("producer_consumer_16", "producer_consumer", ("8",), stub=False),
    Benchmark("false_sharing", "false_sharing", ("fresh", "2"), stub=False),
    Benchmark("false_sharing_handed", "false_sharing", ("handed", "2"), stub=False),
    Benchmark("churn_threads", "churn_threads", stub=False),
    Benchmark("idle_threads", "idle_threads", ("1000",), stub=False),
    Benchmark("idle_threads_freed", "idle_threads", ("1000", "freed"), stub=False),
    Benchmark("idle_threads_mixed", "idle_threads", ("1000", "mixed"), stub=False),
    Benchmark("stress_mixed", "stress_mixed", stub=False),
    Benchmark("pair_64_2", "pair_threads", ("64", "2"), stub=False),
    Benchmark("pair_65536_2", "pair_threads", ("65536", "2"), stub=False),
)

MEMORY = (
    Benchmark("fragment", "fragment", stub=False),
    Benchmark("phases", "phases", ("idle",), stub=False),
    Benchmark("phases_trickle", "phases", ("trickle",), stub=False),
    Benchmark("phases_scattered", "phases", ("scattered",), stub=False),
    Benchmark("many_threads_rss", "many_threads_rss", ("256",), stub=False),
    Benchmark("startup", "startup", stub=False),
)

SUITES: dict[str, tuple[AnyBenchmark, ...]] = {
    "micro": MICRO,
    "threads": THREADS,
    "memory": MEMORY,
    "programs": PROGRAMS,
}


# The metrics that a suite's tables show; the first is the one that ratios are made of.
METRICS: dict[str, tuple[str, ...]] = {
    "micro": ("ns_per_op", "peak_rss_bytes", "syscalls_per_op"),
    "threads": (
        "ns_per_op",
        "peak_rss_bytes",
        "thread_bytes",
        "thread_heap_bytes",
        "syscalls_per_op",
        "locks_per_mop",
        "contended_per_mop",
        "contended_per_1000_slow",
    ),
    "memory": (
        "peak_rss_bytes",
        "average_rss_bytes",
        "rss_after_100ms_bytes",
        "rss_after_bytes",
        "rss_after_2s_bytes",
        "live_bytes",
        "fragmentation",
        "thread_bytes",
        "private_bytes",
        "ns_per_op",
    ),
    "programs": ("wall_s", "cpu_s", "peak_rss_bytes", "page_faults"),
}

ALL = "all"


def choose(suite: str | None, only: Sequence[str]) -> dict[str, list[AnyBenchmark]]:
    """The benchmarks to run, by suite. Names without a suite are looked for in every one."""
    suite = suite or (ALL if only else "micro")
    if suite != ALL:
        return {suite: select(suite, only)}
    unknown = set(only) - {benchmark.name for suite in SUITES.values() for benchmark in suite}
    if unknown:
        raise LabError(
            f"there is no benchmark {', '.join(sorted(unknown))}; the suites have: "
            + "; ".join(f"{name}: {', '.join(_names(name))}" for name in SUITES)
        )
    chosen = {
        name: [benchmark for benchmark in suite if not only or benchmark.name in only]
        for name, suite in SUITES.items()
    }
    return {name: benchmarks for name, benchmarks in chosen.items() if benchmarks}


def present(
    chosen: dict[str, list[AnyBenchmark]], named: bool
) -> tuple[dict[str, list[AnyBenchmark]], dict[str, str]]:
    """Those of them that can be run here; and the missing, with the reason.

    A benchmark that was asked for by name and is not here is an error, as with a peer."""
    found: dict[str, list[AnyBenchmark]] = {}
    missing: dict[str, str] = {}
    for suite, benchmarks in chosen.items():
        for benchmark in benchmarks:
            reason = benchmark.missing()
            if reason is None:
                found.setdefault(suite, []).append(benchmark)
            else:
                missing[benchmark.name] = reason
    if missing and (named or not found):
        raise MissingError("; ".join(f"{name}: {reason}" for name, reason in missing.items()))
    return found, missing


def _names(suite: str) -> list[str]:
    return [benchmark.name for benchmark in SUITES[suite]]


def select(suite: str, only: Sequence[str]) -> list[AnyBenchmark]:
    """The benchmarks of a suite, or those of it that are named."""
    if suite not in SUITES:
        raise LabError(f"there is no suite '{suite}'; there are: {', '.join([*SUITES, ALL])}")
    known = _names(suite)
    unknown = [name for name in only if name not in known]
    if unknown:
        raise LabError(
            f"suite {suite} has no benchmark {', '.join(unknown)}; it has: {', '.join(known)}"
        )
    return [benchmark for benchmark in SUITES[suite] if not only or benchmark.name in only]


def in_order(names: Iterable[str]) -> list[str]:
    """Names as the suites list them; others after them, as they came."""
    listed = [benchmark.name for suite in SUITES.values() for benchmark in suite]
    names = list(names)
    rank = {name: number for number, name in enumerate(listed)}
    return sorted(names, key=lambda name: rank.get(name, len(listed)))


def by_suite(names: Iterable[str]) -> dict[str, list[str]]:
    """Names under their suite, suites in order; "" has those that no suite has."""
    found: dict[str, list[str]] = {suite: [] for suite in [*SUITES, ""]}
    for name in names:
        found[next((suite for suite in SUITES if name in _names(suite)), "")].append(name)
    return {suite: members for suite, members in found.items() if members}


class Checksums:
    """What the benchmarks computed, which must be the same under every allocator."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {}

    def add(self, benchmark: str, allocator: str, checksum: str) -> None:
        if allocator == STUB:
            return
        first = self._seen.setdefault(benchmark, {}).setdefault(allocator, checksum)
        if checksum != first:
            raise RunError(
                f"the checksum was {first} and is now {checksum}: contents of blocks were lost, "
                "or the program's output is not the same each time"
            )

    def judge(self, samples: Samples) -> None:
        """Turns the samples of an allocator that stands alone with its checksum into a failure."""
        for benchmark, seen in self._seen.items():
            expected, _ = Counter(seen.values()).most_common(1)[0]
            for allocator, checksum in seen.items():
                if checksum != expected:
                    samples.fail(
                        (benchmark, allocator),
                        f"the checksum is {checksum}, under the others {expected}: it did not "
                        "keep what was written into its blocks",
                    )


def driver_metrics(
    benchmark: AnyBenchmark, allocator: Allocator, run: Run, checksums: Checksums
) -> dict[str, float]:
    """What one run of a benchmark showed; its checksum goes to the others."""
    found, checksum = benchmark.read(run)
    checksums.add(benchmark.name, allocator.name, checksum)
    return found
