"""Results as JSON. The schema is read by others: adding is free, changing is not.

    {"schema": 1, "machine": {...}, "results": [{"benchmark", "allocator", "metric", "unit",
     "better", "samples", "median", "ci95": [low, high]}]}

Beside that: what was run (command, runs, seed, created), which allocators, which of them were
missing, what failed, and `ratios`: the subject's median over each other allocator's, with the 95 %
interval of that ratio, by which a bar such as "at most 0.9 times X" is judged.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hakmem_lab import machine, metrics, stats
from hakmem_lab.errors import LabError
from hakmem_lab.measure import Allocator
from hakmem_lab.schedule import Samples

SCHEMA = 1

Document = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """What was asked for."""

    command: str
    runs: int
    warmup: int
    seed: int
    subject: str  # the allocator that the ratios are about
    allocators: Sequence[Allocator]
    missing: Mapping[str, str]  # name: reason


def document(experiment: Experiment, samples: Samples) -> Document:
    return {
        "schema": SCHEMA,
        "command": experiment.command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": experiment.runs,
        "warmup": experiment.warmup,
        "seed": experiment.seed,
        "subject": experiment.subject,
        "machine": machine.describe(),
        "allocators": [_allocator(allocator) for allocator in experiment.allocators],
        "missing": dict(experiment.missing),
        "failed": [
            {"benchmark": benchmark, "allocator": allocator, "reason": reason}
            for (benchmark, allocator), reason in samples.failures.items()
        ],
        "interrupted": samples.interrupted,
        "results": _results(samples),
        "ratios": _ratios(experiment.subject, samples),
    }


def _allocator(allocator: Allocator) -> Document:
    digest = None
    if allocator.library is not None:
        digest = hashlib.sha256(allocator.library.read_bytes()).hexdigest()
    return {
        "name": allocator.name,
        "version": allocator.version,
        "from": allocator.origin,
        "options": allocator.options,
        "sha256": digest,
    }


def _results(samples: Samples) -> list[Document]:
    results = []
    for (benchmark, allocator), series in samples.values.items():
        for metric, values in series.items():
            estimate = stats.median(values)
            results.append(
                {
                    "benchmark": benchmark,
                    "allocator": allocator,
                    "metric": metric,
                    "unit": metrics.of(metric).unit,
                    "better": metrics.of(metric).better,
                    "samples": values,
                    "median": estimate.value,
                    "ci95": [estimate.low, estimate.high],
                }
            )
    return results


def _ratios(subject: str, samples: Samples) -> list[Document]:
    ratios = []
    for (benchmark, allocator), series in samples.values.items():
        for metric, theirs in series.items():
            ours = samples.of(benchmark, subject, metric)
            estimate = stats.ratio(ours, theirs) if ours and allocator != subject else None
            if estimate is not None:
                ratios.append(
                    {
                        "benchmark": benchmark,
                        "allocator": subject,
                        "base": allocator,
                        "metric": metric,
                        "ratio": estimate.value,
                        "ci95": [estimate.low, estimate.high],
                    }
                )
    return ratios


def require_writable(path: Path) -> None:
    """An error now rather than when all has been measured."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from None


def write(path: Path, content: Document) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from None


def read(path: Path) -> Document:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise LabError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise LabError(f"{path} is not a result of schema {SCHEMA}")
    return content


class View:
    """A document's results and ratios, found by name."""

    def __init__(self, content: Document) -> None:
        self.content = content
        self._results = {
            (row["benchmark"], row["allocator"], row["metric"]): row for row in content["results"]
        }
        self._ratios: dict[tuple[str, str, str, str], stats.Estimate | None] = {
            (row["benchmark"], row["allocator"], row["base"], row["metric"]): stats.Estimate(
                row["ratio"], *row["ci95"]
            )
            for row in content["ratios"]
        }

    def subject(self) -> str:
        """The allocator that the ratios are about."""
        return str(self.content.get("subject", "hakmem"))

    def benchmarks(self) -> list[str]:
        """In the order of first appearance, those that failed everywhere last; see suites.in_order
        for that of a suite."""
        rows = [*self.content["results"], *self.content["failed"]]
        return list(dict.fromkeys(row["benchmark"] for row in rows))

    def with_metric(self, metric: str, among: Sequence[str] | None = None) -> list[str]:
        """The benchmarks that have it under any allocator."""
        have = {benchmark for benchmark, _, known in self._results if known == metric}
        names = self.benchmarks() if among is None else among
        return [name for name in names if name in have]

    def allocators(self) -> list[str]:
        """Those with results, in the order of the experiment."""
        present = {row["allocator"] for row in self.content["results"]}
        return [row["name"] for row in self.content["allocators"] if row["name"] in present]

    def metrics(self) -> list[str]:
        return metrics.in_order({row["metric"] for row in self.content["results"]})

    def result(self, benchmark: str, allocator: str, metric: str) -> stats.Estimate | None:
        row = self._results.get((benchmark, allocator, metric))
        return None if row is None else stats.Estimate(row["median"], *row["ci95"])

    def samples(self, benchmark: str, allocator: str, metric: str) -> list[float]:
        row = self._results.get((benchmark, allocator, metric))
        return [] if row is None else list(row["samples"])

    def ratio(self, benchmark: str, base: str, metric: str) -> stats.Estimate | None:
        """The subject over base."""
        return self.ratio_to(benchmark, self.subject(), base, metric)

    def ratio_to(
        self, benchmark: str, allocator: str, base: str, metric: str
    ) -> stats.Estimate | None:
        """Any allocator over any other; None where one of them has no result, or is 0."""
        key = (benchmark, allocator, base, metric)
        inverse = self._ratios.get((benchmark, base, allocator, metric))
        if key not in self._ratios and inverse is not None and inverse.low > 0:
            self._ratios[key] = stats.Estimate(1 / inverse.value, 1 / inverse.high, 1 / inverse.low)
        elif key not in self._ratios:
            ours = self.samples(benchmark, allocator, metric)
            theirs = self.samples(benchmark, base, metric)
            self._ratios[key] = (
                stats.ratio(ours, theirs) if ours and theirs and allocator != base else None
            )
        return self._ratios[key]

    def mean_ratio(self, base: str, metric: str) -> float | None:
        """The geometric mean of the subject over base, over all benchmarks."""
        mean = self.mean_ratio_to(self.subject(), base, metric)
        return None if mean is None else mean.value

    def mean_ratio_to(
        self, allocator: str, base: str, metric: str, among: Sequence[str] | None = None
    ) -> stats.Estimate | None:
        """The geometric mean of any allocator over any other, over benchmarks that both have."""
        names = self.benchmarks() if among is None else among
        pairs = [
            (self.samples(name, allocator, metric), self.samples(name, base, metric))
            for name in names
            if self.ratio_to(name, allocator, base, metric) is not None
        ]
        return stats.mean_ratio(pairs)
