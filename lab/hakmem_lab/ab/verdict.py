"""GO, NEUTRAL, NO-GO or UNKNOWN, and how often one may look before saying so.

The ratio is time of B over time of A, so below 1 is faster. With a margin of 0.5 %:

                  0.995      1      1.005
    GO       |--|   :        |        :              all of the interval is below the margin
    NEUTRAL         :    |------|     :              all of it is within
    NO-GO           :        |        :   |----|     all of it is above
    UNKNOWN         :        |     |----|            anything else: noise wins

Pairs are added until the interval says one of the first three. But whoever looks after each pair
whether a 95 % interval has left the margin sees it leave sooner or later: the error of one look
adds up. So looks are few and planned (after 10 rounds, then each time after half as many again),
and each has its share of the error: with 16 planned looks every interval is one at 99.7 %, and all
together are right in 95 % of all trials, however long they go on. Benchmarks share it too.

A round has four runs, in random order: A, A', B and B', where the primed are copies of the same
file under another name. B over A (and B' over A') is what was asked; A' over A (and B' over B) is
the same procedure, at the same moments, on a question whose answer is known. Each has as many runs
as the other, so no time is lost on the control. Unless the control comes out NEUTRAL, the machine
makes differences of its own and nothing else is believed. NEUTRAL means within the margin, or
within a fifth of what B differs by: a machine that is sure of itself to 1 % may be believed about
80 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hakmem_lab.ab import paired
from hakmem_lab.stats import Estimate

PROGRAMS = ("A", "A'", "B", "B'")  # the columns of a table of rounds
CONTROL_SHARE = 5


class Verdict(StrEnum):
    GO = "GO"
    NEUTRAL = "NEUTRAL"
    NO_GO = "NO-GO"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Plan:
    """When to look, and how sure a look has to be."""

    margin: float = 0.005
    first_look: int = 10  # rounds
    growth: float = 1.5
    looks: int = 16
    error: float = 0.05  # of all looks at all benchmarks together
    benchmarks: int = 1

    def schedule(self) -> list[int]:
        """After how many rounds each look is."""
        return [math.ceil(self.first_look * self.growth**look) for look in range(self.looks)]

    @property
    def confidence(self) -> float:
        return 1 - self.error / (self.looks * self.benchmarks)


@dataclass(frozen=True)
class Look:
    """What the rounds so far say."""

    rounds: int
    effect: Estimate  # B over A
    control: Estimate  # A over A, B over B
    verdict: Verdict  # of the effect, if the control may be believed
    control_verdict: Verdict

    @property
    def is_final(self) -> bool:
        return self.verdict is not Verdict.UNKNOWN


def by_interval(ratio: Estimate, margin: float) -> Verdict:
    if ratio.high < 1 - margin:
        return Verdict.GO
    if ratio.low > 1 + margin:
        return Verdict.NO_GO
    if ratio.low >= 1 - margin and ratio.high <= 1 + margin:
        return Verdict.NEUTRAL
    return Verdict.UNKNOWN


def look(rounds: Sequence[Sequence[float]] | paired.Floats, plan: Plan) -> Look:
    """rounds: for each, the times of PROGRAMS."""
    logs = np.log(np.asarray(rounds, dtype=np.float64))
    effect = paired.ratio(_pairs(logs, (0, 2), (1, 3)), plan.confidence)
    control = paired.ratio(_pairs(logs, (0, 1), (2, 3)), plan.confidence)
    control_verdict = by_interval(control, max(plan.margin, _least(effect) / CONTROL_SHARE))
    believed = control_verdict is Verdict.NEUTRAL
    verdict = by_interval(effect, plan.margin) if believed else Verdict.UNKNOWN
    return Look(len(logs), effect, control, verdict, control_verdict)


def _least(effect: Estimate) -> float:
    """How far from 1 the effect is at least."""
    return max(effect.low - 1, 1 - effect.high, 0.0)


def _pairs(logs: paired.Floats, *columns: tuple[int, int]) -> paired.Floats:
    """The log-ratios of second over first of each pair of columns."""
    return np.concatenate([logs[:, second] - logs[:, first] for first, second in columns])


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several benchmarks: one that is slower decides, then one that is not known."""
    for decisive in (Verdict.NO_GO, Verdict.UNKNOWN, Verdict.GO):
        if decisive in verdicts:
            return decisive
    return Verdict.NEUTRAL if verdicts else Verdict.UNKNOWN


def percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.2f} %"


def interval(ratio: Estimate) -> str:
    low, high = (ratio.low - 1) * 100, (ratio.high - 1) * 100
    return f"{low:+.2f} … {high:+.2f} %"
