"""How often is the verdict wrong? On made-up samples whose truth is known, with noise as real
machines have it. The rates are printed (pytest -s, or the log of the test)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from hakmem_lab.ab import paired
from hakmem_lab.ab.verdict import Plan, Verdict, by_interval, look, overall
from hakmem_lab.stats import Estimate

PLAN = Plan()
TRIALS = 200


def samples(
    generator: np.random.Generator, rounds: int, noise: float, effect: float
) -> NDArray[np.float64]:
    """Rounds of A, A', B, B': skewed noise of every run, now and then a run that is disturbed and
    up to several tenths late, and a drift that a round has in common."""
    times = generator.lognormal(0.0, noise, (rounds, 4))
    disturbed = generator.random((rounds, 4)) < 0.05
    times *= 1 + disturbed * generator.exponential(10 * noise, (rounds, 4))
    times *= np.exp(np.cumsum(generator.normal(0, noise, (rounds, 1)), axis=0))
    times[:, 2:] *= 1 + effect
    return times


def verdict_of(times: NDArray[np.float64], plan: Plan) -> tuple[Verdict, int]:
    """As a trial goes: looks as planned until one is final."""
    for rounds in plan.schedule():
        if rounds > len(times):
            break
        found = look(times[:rounds], plan)
        if found.is_final:
            return found.verdict, rounds
    return Verdict.UNKNOWN, len(times)


def rates(noise: float, effect: float, rounds: int, plan: Plan = PLAN) -> Counter[Verdict]:
    generator = np.random.default_rng(20250101)
    found: Counter[Verdict] = Counter()
    taken = []
    for _ in range(TRIALS):
        verdict, used = verdict_of(samples(generator, rounds, noise, effect), plan)
        found[verdict] += 1
        taken.append(used)
    listed = ", ".join(f"{each} {found[each] / TRIALS:.1%}" for each in Verdict)
    print(
        f"effect {effect:+.1%}, noise {noise:.0%}, at most {rounds} rounds: {listed}; "
        f"median of {np.median(taken):.0f} rounds"
    )
    return found


@pytest.mark.parametrize("noise", [0.005, 0.03, 0.1])
def test_a_against_a_is_rarely_said_to_differ(noise: float) -> None:
    """Also where noise is twenty times the margin, and looking again and again would find one."""
    found = rates(noise, 0.0, rounds=260)
    assert (found[Verdict.GO] + found[Verdict.NO_GO]) / TRIALS < 0.05


def test_a_against_a_is_neutral_in_the_end() -> None:
    assert rates(0.01, 0.0, rounds=400)[Verdict.NEUTRAL] / TRIALS > 0.95


@pytest.mark.parametrize(("effect", "verdict"), [(0.02, Verdict.NO_GO), (-0.02, Verdict.GO)])
def test_two_per_cent_are_found_in_one_per_cent_of_noise(effect: float, verdict: Verdict) -> None:
    assert rates(0.01, effect, rounds=260)[verdict] / TRIALS > 0.95


def test_an_effect_at_the_margin_is_not_called() -> None:
    """Neither equal nor different would be right; both together stay rare."""
    found = rates(0.01, 0.005, rounds=400)
    assert (found[Verdict.NO_GO] + found[Verdict.NEUTRAL]) / TRIALS < 0.05


def test_planned_looks_keep_the_error_where_careless_ones_do_not() -> None:
    """The interval alone, without the control and next to no margin, at nine looks: how often is
    it once beside the truth? At 95 % for each look, too often; as planned, not."""
    margin, looks = 0.0001, PLAN.schedule()[:9]
    careless = replace(PLAN, error=0.05 * PLAN.looks)
    generator = np.random.default_rng(1)
    wrong: Counter[Plan] = Counter()
    for _ in range(TRIALS):
        times = samples(generator, looks[-1], 0.05, 0.0)
        for plan in (PLAN, careless):
            verdicts = {by_interval(look(times[:each], plan).effect, margin) for each in looks}
            wrong[plan] += bool(verdicts & {Verdict.GO, Verdict.NO_GO})
    print(f"once wrong in nine looks: {wrong[PLAN] / TRIALS:.1%} as planned, "
          f"{wrong[careless] / TRIALS:.1%} at 95 % each")  # fmt: skip
    assert wrong[PLAN] / TRIALS < 0.05
    assert wrong[careless] / TRIALS > 0.1


@pytest.mark.parametrize("pairs", [10, 37, 90])
def test_the_interval_is_where_the_signed_rank_test_rejects(pairs: int) -> None:
    generator = np.random.default_rng(pairs)
    ratios = generator.normal(0.01, 0.02, pairs)
    interval = paired.ratio(ratios, 0.95)
    for inside, outside in (
        (np.log(interval.low) + 1e-6, np.log(interval.low) - 1e-6),
        (np.log(interval.high) - 1e-6, np.log(interval.high) + 1e-6),
    ):
        method = "exact" if pairs <= 60 else "approx"
        assert wilcoxon(ratios - inside, mode=method).pvalue > 0.049
        assert wilcoxon(ratios - outside, mode=method).pvalue < 0.051


def test_one_late_run_does_not_move_the_estimate() -> None:
    ratios = np.random.default_rng(3).normal(0, 0.001, 40)
    ratios[7] = 5.0
    found = paired.ratio(ratios, 0.95)
    assert abs(found.value - 1) < 0.002
    assert found.high < 1.002


def test_the_estimate_is_the_median_of_the_means_of_two() -> None:
    ratios = np.array([0.1, 0.4, -0.2, 0.05, 0.3])
    means = [(a + b) / 2 for i, a in enumerate(ratios) for b in ratios[i:]]
    assert paired.ratio(ratios, 0.5).value == pytest.approx(np.exp(np.median(means)))


def test_few_pairs_have_no_interval() -> None:
    found = paired.ratio(np.array([0.1, 0.2]), 0.99)
    assert (found.low, found.high) == (0.0, np.inf)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.9, 0.994, Verdict.GO),
        (0.9, 0.996, Verdict.UNKNOWN),
        (0.996, 1.004, Verdict.NEUTRAL),
        (0.99, 1.01, Verdict.UNKNOWN),
        (1.004, 1.006, Verdict.UNKNOWN),
        (1.006, 1.1, Verdict.NO_GO),
    ],
)
def test_the_interval_decides(low: float, high: float, verdict: Verdict) -> None:
    assert by_interval(Estimate(1.0, low, high), 0.005) is verdict


def test_nothing_is_believed_when_a_differs_from_a() -> None:
    generator = np.random.default_rng(5)
    times = generator.lognormal(0, 0.001, (40, 4))
    times[:, 2:] *= 1.02
    assert look(times, PLAN).verdict is Verdict.NO_GO
    times[:, [1, 3]] *= 1.01  # the primed copies are slower: the machine makes differences
    found = look(times, PLAN)
    assert found.control_verdict is Verdict.NO_GO
    assert found.verdict is Verdict.UNKNOWN


def test_benchmarks_together() -> None:
    go, neutral, no_go, unknown = Verdict.GO, Verdict.NEUTRAL, Verdict.NO_GO, Verdict.UNKNOWN
    assert overall([go, unknown, no_go]) is no_go
    assert overall([go, unknown]) is unknown
    assert overall([neutral, go]) is go
    assert overall([neutral, neutral]) is neutral
    assert overall([]) is unknown


def test_benchmarks_share_the_error() -> None:
    assert replace(PLAN, benchmarks=4).confidence > PLAN.confidence > 0.99
