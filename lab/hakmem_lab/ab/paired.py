"""How much slower is B than A, from runs in pairs?

A pair is a run of A and a run of B, a moment apart, in random order. What the machine did at that
moment (another clock rate, a busy neighbour) it did to both, so the pair's ratio is nearly free of
it. What is left is noise of the single runs, and it has long tails: now and then a run is
disturbed and late. It is as likely to be that of A as that of B, though, so the logarithms of the
ratios lie symmetrically about the truth. That is all that Wilcoxon's signed-rank statistic asks
for, so its estimate and interval hold for any shape of noise, from ten pairs on, where means and
bell curves would be thrown by a single late run:

    the estimate   the median of the means of every two log-ratios (Hodges and Lehmann)
    the interval   the means of two that are k-th from below and from above, k such that the
                   signed-rank test would reject less than it may

The means of two ("Walsh averages") are half a million for a thousand pairs. They are not made:
how many lie below a value can be counted in the sorted ratios, and the value with k below it is
found by halving.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hakmem_lab.stats import Estimate

Floats = NDArray[np.float64]

_EXACT_UP_TO = 60  # pairs; beyond, the statistic's own bell curve is as good
_PRECISION = 1e-9  # of a logarithm


@lru_cache(maxsize=256)
def _rank_from_below(pairs: int, confidence: float) -> int:
    """k: the k-th mean of two from below (from 1) is the lower end; 0: too few pairs for one."""
    tail = (1 - confidence) / 2
    if pairs <= _EXACT_UP_TO:
        ways = np.ones(1)  # ways[t]: in how many of the signs the positive ranks sum up to t
        for rank in range(1, pairs + 1):
            ways = np.convolve(ways, [1.0, *[0.0] * (rank - 1), 1.0])
        probability = np.cumsum(ways) / 2.0**pairs
        return int(np.searchsorted(probability, tail, side="right"))
    from scipy.stats import norm

    mean = pairs * (pairs + 1) / 4
    deviation = math.sqrt(pairs * (pairs + 1) * (2 * pairs + 1) / 24)
    return max(0, math.floor(mean + float(norm.ppf(tail)) * deviation))


def _walsh_averages(ordered: Floats, ranks: Sequence[int]) -> Floats:
    """Those of the means of every two (and of each with itself) with these ranks from below, from
    1. All are searched for at once."""
    own = np.arange(len(ordered))
    wanted = np.asarray(ranks)
    low = np.full(len(wanted), ordered[0])
    high = np.full(len(wanted), ordered[-1])
    while float(np.max(high - low)) > _PRECISION:
        middle = (low + high) / 2
        # For each value: with how many from itself on is its mean not above the middle?
        partners = np.searchsorted(ordered, 2 * middle[:, None] - ordered, side="right") - own
        enough = np.maximum(partners, 0).sum(axis=1) >= wanted
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def ratio(log_ratios: Floats, confidence: float) -> Estimate:
    """The ratio and its interval. With too few pairs for the confidence it is without ends."""
    ordered = np.sort(log_ratios)
    pairs = len(ordered)
    averages = pairs * (pairs + 1) // 2
    rank = _rank_from_below(pairs, confidence)
    ranks = ((averages + 1) // 2, averages // 2 + 1, max(rank, 1), averages - max(rank, 1) + 1)
    below, above, low, high = (float(each) for each in _walsh_averages(ordered, ranks))
    value = math.exp((below + above) / 2)
    if rank == 0:
        return Estimate(value, 0.0, math.inf)
    return Estimate(value, math.exp(low), math.exp(high))
