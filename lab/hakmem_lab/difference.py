"""Two results of the same benchmarks, an older and a newer one: what has changed.

The ratio of medians, new over old, with a bootstrap interval from the samples that both have kept.
Unlike the rows of one result, the two were not interleaved: the machine may have been another one,
or have been in another mood. So the machines are compared too, and the other allocators stand
beside HAKMEM: where a library that has not changed moved by 5 %, 5 % is what the days differ by.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from hakmem_lab import stats
from hakmem_lab.errors import LabError
from hakmem_lab.report import SCHEMA, Document, View

Key = tuple[str, str, str]  # benchmark, allocator, metric


class Difference:
    def __init__(self, old: View, new: View) -> None:
        self.old, self.new = old, new
        if not self.ratios:
            raise LabError("the two results have no benchmark, allocator and metric in common")

    @cached_property
    def ratios(self) -> dict[Key, stats.Estimate]:
        """New over old, for all that both results have."""
        found: dict[Key, stats.Estimate] = {}
        for row in self.new.content["results"]:
            key = (row["benchmark"], row["allocator"], row["metric"])
            before = self.old.samples(*key)
            estimate = stats.ratio(row["samples"], before) if before else None
            if estimate is not None:
                found[key] = estimate
        return found

    def benchmarks(self) -> list[str]:
        return list(dict.fromkeys(benchmark for benchmark, _, _ in self.ratios))

    def allocators(self) -> list[str]:
        present = {allocator for _, allocator, _ in self.ratios}
        return [name for name in self.new.allocators() if name in present]

    def metrics(self) -> list[str]:
        present = {metric for _, _, metric in self.ratios}
        return [metric for metric in self.new.metrics() if metric in present]

    def ratio(self, benchmark: str, allocator: str, metric: str) -> stats.Estimate | None:
        return self.ratios.get((benchmark, allocator, metric))

    def mean_ratio(self, allocator: str, metric: str) -> float | None:
        found = [self.ratio(benchmark, allocator, metric) for benchmark in self.benchmarks()]
        values = [ratio.value for ratio in found if ratio is not None and ratio.value > 0]
        return stats.geometric_mean(values) if values else None

    def notes(self) -> list[str]:
        """What else differs between the two."""
        old, new = self.old.content, self.new.content
        earlier, later = old["machine"], new["machine"]
        notes = [
            f"the machines differ: {name.replace('_', ' ')} {earlier.get(name)} → {later.get(name)}"
            for name in {**earlier, **later}
            if earlier.get(name) != later.get(name)
        ]
        before, after = _versions(old), _versions(new)
        notes += [
            f"{name}: {before[name]} → {after[name]}"
            for name in self.allocators()
            if before[name] != after[name]
        ]
        only = [
            ("old", set(self.old.benchmarks()) - set(self.new.benchmarks())),
            ("new", set(self.new.benchmarks()) - set(self.old.benchmarks())),
        ]
        notes += [f"only in the {side} result: {', '.join(sorted(s))}" for side, s in only if s]
        return notes

    def document(self, command: str) -> Document:
        return {
            "schema": SCHEMA,
            "command": command,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "old": _origin(self.old),
            "new": _origin(self.new),
            "machine": self.new.content["machine"],
            "notes": self.notes(),
            "changes": [
                {
                    "benchmark": benchmark,
                    "allocator": allocator,
                    "metric": metric,
                    "ratio": ratio.value,
                    "ci95": [ratio.low, ratio.high],
                }
                for (benchmark, allocator, metric), ratio in self.ratios.items()
            ],
        }


def main_metrics(names: Sequence[str]) -> list[str]:
    """The ones that a terminal shows: of time the nearest to the point, and the peak of memory."""
    time = "ns_per_op" if "ns_per_op" in names else "wall_s"
    return [metric for metric in (time, "peak_rss_bytes") if metric in names]


def _versions(content: Document) -> dict[str, str]:
    return {
        row["name"]: " ".join(part for part in (row["version"], row["options"]) if part)
        for row in content["allocators"]
    }


def _origin(view: View) -> dict[str, Any]:
    return {name: view.content[name] for name in ("command", "created", "machine")}
