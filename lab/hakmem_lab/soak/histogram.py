"""Latencies as bench/support/latency.h counts them: buckets of a logarithmic histogram, 32 in
each power of two, in eighths of a nanosecond."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

UNITS_PER_NS = 8
STEP_BITS = 5

Histogram = Counter[int]  # bucket: calls

# The names that people and the JSON use, and the share of calls that are not slower.
PERCENTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "p99.9": 0.999,
    "p99.99": 0.9999,
    "max": 1.0,
}


def parse(pairs: Iterable[Sequence[int]]) -> Histogram:
    return Counter({int(bucket): int(count) for bucket, count in pairs})


def merge(histograms: Iterable[Histogram]) -> Histogram:
    merged: Histogram = Counter()
    for histogram in histograms:
        merged.update(histogram)
    return merged


def value_ns(bucket: int) -> float:
    """The middle of a bucket's values."""
    if bucket < 2 << STEP_BITS:
        return bucket / UNITS_PER_NS
    shift = (bucket >> STEP_BITS) - 1
    low = (bucket - (shift << STEP_BITS)) << shift
    return (low + (1 << shift) / 2) / UNITS_PER_NS


def percentiles(histogram: Histogram) -> dict[str, float]:
    """Of each share, the least value that so many calls do not exceed; {} without calls."""
    total = histogram.total()
    if total == 0:
        return {}
    found = {}
    buckets = iter(sorted(histogram))
    bucket, seen = -1, 0
    for name, share in PERCENTILES.items():
        rank = math.ceil(share * total)
        while seen < rank:
            bucket = next(buckets)
            seen += histogram[bucket]
        found[name] = value_ns(bucket)
    return found
