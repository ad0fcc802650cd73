"""Instructions of an operation inside the allocator: a measure of the slow path that no noise
touches, so that figures of different days and machines can stand beside each other.

Callgrind counts a benchmark's measured operations, between the driver's calls of driver_start and
driver_stop. `malloc` and `free` themselves are the fast path; all else of the library that an
operation executes is the slow one, shared by all blocks that a refill or a flush moves.

Memory that decays and blocks guarded by chance are left out: a program under callgrind takes
fifty times as long, and would do as much more of what goes by the clock. Some of that is left (a
heap that grows gives used pages back for fresh ones, so many a millisecond), so each is counted
several times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from hakmem_lab import callgrind, suites
from hakmem_lab.errors import NotMappedError
from hakmem_lab.measure import Allocator
from hakmem_lab.report import Document
from hakmem_lab.schedule import Metrics

OPTIONS = "decay_ms=3600000,guard_rate=0"
FAST, SLOW = "fast_instructions_per_op", "slow_instructions_per_op"
_FAST_FUNCTIONS = ("malloc", "free")
_MEASURED = ("driver_start", "driver_stop")
_DIVIDE = 5  # of the steps


def count(benchmark: suites.Benchmark, allocator: Allocator) -> Metrics:
    assert allocator.library is not None
    command = benchmark.command()
    command = replace(command, variables={**command.variables, "BENCH_DIVIDE": str(_DIVIDE)})
    told = replace(allocator, options=OPTIONS)
    found = callgrind.profile(benchmark.name, command, told, _MEASURED)
    if not found.executed(allocator.library):
        raise NotMappedError(f"{allocator.library} was not executed under callgrind")
    ops = int(json.loads(found.stdout)["ops"])
    functions = found.functions_of(allocator.library)
    fast = sum(functions[name] for name in _FAST_FUNCTIONS)
    return {FAST: fast / ops, SLOW: (functions.total() - fast) / ops}


def added_to(kept: Document, new: Document) -> Document:
    """The columns of an earlier document and then those of a new one, which go before earlier ones
    of the same name."""
    names = {row["name"] for row in new["allocators"]}

    def merged(key: str, name: str) -> list[Document]:
        rows: Sequence[Document] = kept[key]
        return [row for row in rows if row[name] not in names] + list(new[key])

    return {
        **new,
        "command": f"{kept['command']} && {new['command']}",
        "allocators": merged("allocators", "name"),
        "failed": merged("failed", "allocator"),
        "results": merged("results", "allocator"),
        "ratios": [],
    }
