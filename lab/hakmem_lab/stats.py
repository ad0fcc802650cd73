"""Medians and how sure they are.

Times of programs are skewed: now and then a run is disturbed and late, none is ever early. So the
middle sample stands for all (the median), and intervals come from resampling (the bootstrap: draw
as many samples as there are, with replacement, ten thousand times, and see how far the median
moves) rather than from the bell curve. Intervals are at 95 %. The random numbers start from a
fixed seed: the same samples give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 9999
CONFIDENCE = 0.95
_SEED = 20250101

Samples = Sequence[float]


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; the ends are the figure itself when there is one sample."""

    value: float
    low: float
    high: float


def _row_medians(samples: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    medians: NDArray[np.float64] = np.median(samples, axis=axis)
    return medians


def _ratio_of_medians(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], axis: int = -1
) -> NDArray[np.float64]:
    return _row_medians(ours, axis) / _row_medians(theirs, axis)


def _varies(samples: Samples) -> bool:
    return min(samples) != max(samples)


def median(samples: Samples) -> Estimate:
    value = float(np.median(samples))
    if len(samples) < 2 or not _varies(samples):
        return Estimate(value, value, value)
    # Imported here: SciPy takes half a second, and `hakmem run` should not wait for it.
    from scipy.stats import bootstrap

    interval = bootstrap(
        (np.asarray(samples, dtype=np.float64),),
        _row_medians,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(_SEED),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))


def ratio(ours: Samples, theirs: Samples) -> Estimate | None:
    """Median of ours over median of theirs; None where theirs is 0."""
    if float(np.median(theirs)) == 0.0 or min(theirs) == 0.0:
        return None
    value = float(np.median(ours)) / float(np.median(theirs))
    if not _varies(ours) and not _varies(theirs):
        return Estimate(value, value, value)
    if len(ours) < 2 or len(theirs) < 2:
        return Estimate(value, value, value)
    from scipy.stats import bootstrap

    interval = bootstrap(
        (np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)),
        _ratio_of_medians,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        paired=False,
        method="percentile",
        random_state=np.random.default_rng(_SEED),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))


def mean_ratio(pairs: Sequence[tuple[Samples, Samples]]) -> Estimate | None:
    """The geometric mean of the ratios of medians, a pair of ours and theirs for each benchmark.

    All are drawn anew in each resampling. None where there is no pair, or a median is 0."""
    if not pairs or any(float(np.median(samples)) <= 0 for pair in pairs for samples in pair):
        return None
    generator = np.random.default_rng(_SEED)
    logarithms = np.zeros(RESAMPLES)
    value = 0.0
    for ours, theirs in pairs:
        for sign, samples in ((1, ours), (-1, theirs)):
            drawn = generator.choice(
                np.asarray(samples, dtype=np.float64), (RESAMPLES, len(samples))
            )
            logarithms += sign * np.log(_row_medians(drawn))
            value += sign * math.log(float(np.median(samples)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(logarithms / len(pairs), (tail, 1 - tail)))
    return Estimate(math.exp(value / len(pairs)), float(low), float(high))


def geometric_mean(values: Sequence[float]) -> float:
    """The mean for ratios: twice as fast here and half as fast there is 1."""
    return math.exp(sum(math.log(value) for value in values) / len(values))
