"""Intervals hold what they promise, on samples whose truth is known."""

import numpy as np
import pytest

from hakmem_lab import stats


def test_median_is_the_middle_sample() -> None:
    estimate = stats.median([5.0, 1.0, 100.0])
    assert estimate.value == 5.0
    assert 1.0 <= estimate.low <= estimate.value <= estimate.high <= 100.0


def test_one_sample_or_equal_samples_have_no_spread() -> None:
    assert stats.median([2.0]) == stats.Estimate(2.0, 2.0, 2.0)
    assert stats.median([2.0, 2.0, 2.0]) == stats.Estimate(2.0, 2.0, 2.0)
    assert stats.ratio([2.0, 2.0], [4.0, 4.0]) == stats.Estimate(0.5, 0.5, 0.5)
    assert stats.ratio([1.0], [2.0]) == stats.Estimate(0.5, 0.5, 0.5)


def test_ratio_of_equal_samples_beside_a_spread() -> None:
    estimate = stats.ratio([10.0, 10.0, 10.0], [19.0, 20.0, 21.0])
    assert estimate is not None
    assert estimate.value == 0.5
    assert estimate.low < 0.5 < estimate.high


def test_ratio_to_zero_is_no_ratio() -> None:
    assert stats.ratio([1.0, 2.0], [0.0, 0.0]) is None


def test_the_same_samples_give_the_same_interval() -> None:
    ours, theirs = [1.0, 1.2, 1.1, 1.4], [2.0, 2.1, 2.5, 2.2]
    assert stats.ratio(ours, theirs) == stats.ratio(ours, theirs)


def test_more_samples_narrow_the_interval() -> None:
    generator = np.random.default_rng(1)
    few, many = (stats.median(list(generator.normal(100, 5, n))) for n in (8, 200))
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize("true_ratio", [1.0, 0.9])
def test_interval_of_the_ratio_covers_the_truth(true_ratio: float) -> None:
    """200 experiments of 10 skewed samples a side: the 95 % interval misses in few of them."""
    generator = np.random.default_rng(2)
    trials, covered = 200, 0
    for _ in range(trials):
        ours = true_ratio * generator.lognormal(0.0, 0.02, 10)
        theirs = generator.lognormal(0.0, 0.02, 10)
        estimate = stats.ratio(list(ours), list(theirs))
        assert estimate is not None
        covered += estimate.low <= true_ratio <= estimate.high
    assert covered / trials > 0.9


def test_geometric_mean_of_a_gain_and_its_opposite_is_one() -> None:
    assert stats.geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert stats.geometric_mean([8.0, 1.0]) == pytest.approx(8**0.5)


def test_mean_of_ratios_and_how_sure_it_is() -> None:
    pairs = [([2.0, 2.0, 2.0], [1.0, 1.0, 1.0]), ([1.0, 1.0], [8.0, 8.0])]
    estimate = stats.mean_ratio(pairs)
    assert estimate is not None
    assert [estimate.value, estimate.low, estimate.high] == pytest.approx([0.5] * 3)
    assert stats.mean_ratio([]) is None
    assert stats.mean_ratio([([1.0], [0.0])]) is None


def test_interval_of_the_mean_of_ratios_covers_the_truth() -> None:
    generator = np.random.default_rng(3)
    trials, covered = 100, 0
    for _ in range(trials):
        pairs = [
            (list(true * generator.lognormal(0, 0.05, 10)), list(generator.lognormal(0, 0.05, 10)))
            for true in (0.5, 1.0, 2.0, 0.8, 1.25)
        ]
        mean, alone = stats.mean_ratio(pairs), stats.ratio(*pairs[1])
        assert mean is not None
        assert alone is not None
        covered += mean.low <= 1.0 <= mean.high
        assert mean.high - mean.low < alone.high - alone.low
    assert covered / trials > 0.9
