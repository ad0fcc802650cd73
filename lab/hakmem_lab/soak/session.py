"""All processes of a soak, taking turns.

Every allocator has one process that lives through the whole soak. The processes take turns, an
epoch each in an order that is drawn anew, while the others sleep: what drifts on the machine meets
all of them alike, and no two compete for the processors. The price is that an allocator which gives
memory back by the clock does so in its pauses; the lead of each epoch, a stretch of it that is not
measured, takes that memory and the caches back.

All do the same work at their own pace. It is cut into stretches of equal numbers of steps, and an
epoch is as many of them as fill its seconds:

    the fast one   | lead | 1 | 2 | 3 | ... | 24 |      the time asked for, after the lead;
    the slow one   |  lead  |  1  |  2  | ... | 16 |    what of the machine's noise averages out
                                                        in it is the same for both

After equal numbers of steps they must have come to the same checksum, so they are compared wherever
both have been. Epochs go on until N seconds for each allocator have been measured. A few in between
are traced for their system calls and not timed.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hakmem_lab.errors import RunError
from hakmem_lab.measure import Allocator
from hakmem_lab.soak.driver import SERVER, Driver, Epoch, Load, joined

PROBE_STEPS = 100_000
FEWEST_STEPS = 1000
STRETCHES = 16  # of an epoch of the average allocator
COUNTED_ROUNDS = 5
# A stretch that takes so many times as long as an epoch should, and a minute, is hung.
SLOWEST = 50.0
SLOWEST_SECONDS = 60.0


class Phase(StrEnum):
    WARM_UP = "warm-up"
    MEASURED = "measured"
    COUNTED = "counted"


@dataclass(frozen=True)
class Plan:
    seconds: float  # measured, for each allocator
    epoch_seconds: float
    warmup: int  # epochs
    threads: int
    seed: int
    load: Load = SERVER


@dataclass
class Life:
    """What one allocator's process has shown."""

    allocator: Allocator
    epochs: list[tuple[Phase, Epoch]] = field(default_factory=list)
    failure: str | None = None
    uncounted: str | None = None  # why system calls could not be counted
    timer: dict[str, object] = field(default_factory=dict)

    def of(self, phase: Phase) -> list[Epoch]:
        return [epoch for each, epoch in self.epochs if each is phase]


@dataclass
class Soak:
    plan: Plan
    lives: list[Life]
    steps: int = PROBE_STEPS  # of a thread in a stretch
    compared: int = 0  # times that two or more had come to the same number of steps
    interrupted: bool = False


class Observer:
    """Told what goes on, for a progress bar; this one looks away."""

    def at(self, phase: Phase, share: float) -> None:
        """A round begins; this share of the phase is done."""

    def seen(self, phase: Phase, allocator: str, epoch: Epoch) -> None:
        """An epoch has ended."""


def epoch_seconds_for(seconds: float) -> float:
    """Sixty epochs where that makes them neither shorter than a quarter of a second nor longer
    than ten seconds."""
    return min(max(seconds / 60, 0.25), 10.0)


def warmup_for(seconds: float, epoch_seconds: float) -> int:
    """Epochs of a tenth of the measured time: a heap needs to turn over a few times before it is
    what it will be."""
    return max(2, math.ceil(seconds / epoch_seconds / 10))


class Session:
    """Runs a plan; run() may be interrupted, and what is there by then is kept."""

    def __init__(self, plan: Plan, allocators: Sequence[Allocator], observer: Observer) -> None:
        self.soak = Soak(plan, [Life(allocator) for allocator in allocators])
        self._observer = observer
        self._random = random.Random(plan.seed)
        self._drivers: list[tuple[Driver, Life]] = []
        self._checksums: dict[int, dict[str, str]] = {}  # after so many steps, by allocator

    def run(self) -> Soak:
        try:
            self._start()
            self._warm_up()
            self._measure()
            self._end()
        except KeyboardInterrupt:
            self.soak.interrupted = True
        finally:
            for driver, _ in self._drivers:
                driver.stop()
        return self.soak

    def _start(self) -> None:
        for life in self.soak.lives:
            try:
                driver = Driver(life.allocator, self.soak.plan.threads, self.soak.plan.load)
            except RunError as error:
                life.failure = str(error)
                continue
            life.timer = {name: driver.hello[name] for name in ("timer", "timer_cost_ns")}
            self._drivers.append((driver, life))

    def _end(self) -> None:
        for driver, life in self._drivers:
            try:
                driver.close()
            except RunError as error:
                life.failure = str(error)

    def _warm_up(self) -> None:
        """First two probes, of which the second is believed: the first meets a new heap."""
        plan = self.soak.plan
        self._round(self._probe)
        self._choose_steps(self._round(self._probe))
        for number in range(plan.warmup):
            self._observer.at(Phase.WARM_UP, number / plan.warmup)
            self._round(self._epoch, Phase.WARM_UP)

    def _choose_steps(self, probes: Sequence[Epoch]) -> None:
        seconds = sum(probe.seconds for probe in probes)
        if seconds > 0:
            share = self.soak.plan.epoch_seconds * len(probes) / STRETCHES / seconds
            self.soak.steps = max(FEWEST_STEPS, round(PROBE_STEPS * share))

    def _measure(self) -> None:
        """A soak of one or two rounds is counted too: each round may take more than one part."""
        measured = 0.0
        counted = 0
        while self._drivers:
            share = measured / (self.soak.plan.seconds * len(self._drivers))
            if share >= 1.0:
                break
            self._observer.at(Phase.MEASURED, share)
            measured += sum(each.seconds for each in self._round(self._epoch, Phase.MEASURED))
            # Spread over the soak, in the middle of equal parts of it.
            if share >= (counted + 0.5) / COUNTED_ROUNDS:
                self._round(self._counted, Phase.COUNTED)
                counted += 1

    def _round(
        self, turn: Callable[[Driver, Life], Epoch], phase: Phase | None = None
    ) -> list[Epoch]:
        """A turn of every process that is still there; written down if it belongs to a phase."""
        epochs = []
        for driver, life in self._random.sample(self._drivers, len(self._drivers)):
            try:
                epochs.append(turn(driver, life))
            except RunError as error:
                life.failure = f"after {driver.steps_so_far:,} steps of each thread: {error}"
                continue
            if phase is not None:
                life.epochs.append((phase, epochs[-1]))
                self._observer.seen(phase, life.allocator.name, epochs[-1])
        self._compare()
        for driver, life in self._drivers:
            if life.failure is not None:
                driver.stop()
        self._drivers = [each for each in self._drivers if each[1].failure is None]
        return epochs

    def _probe(self, driver: Driver, life: Life) -> Epoch:
        return self._stretch(driver, life, PROBE_STEPS // 10, PROBE_STEPS)

    def _epoch(self, driver: Driver, life: Life) -> Epoch:
        """As many stretches as come nearest to the time asked for."""
        steps = self.soak.steps
        stretches = [self._stretch(driver, life, steps, steps)]
        seconds = stretches[0].seconds
        while seconds * (1 + 0.5 / len(stretches)) < self.soak.plan.epoch_seconds:
            stretches.append(self._stretch(driver, life, 0, steps))
            seconds += stretches[-1].seconds
        return joined(stretches)

    def _counted(self, driver: Driver, life: Life) -> Epoch:
        """In one piece, for strace looks at it as a whole."""
        steps = self.soak.steps
        count = life.uncounted is None
        epoch = self._stretch(driver, life, steps, STRETCHES * steps, count)
        if count:
            life.uncounted = epoch.uncounted
        return epoch

    def _stretch(
        self, driver: Driver, life: Life, lead: int, steps: int, count: bool = False
    ) -> Epoch:
        limit = max(SLOWEST_SECONDS, SLOWEST * self.soak.plan.epoch_seconds)
        stretch = driver.epoch(lead, steps, limit, count)
        after = self._checksums.setdefault(stretch.steps_so_far, {})
        after[life.allocator.name] = stretch.checksum
        return stretch

    def _compare(self) -> None:
        """After as many steps all must have come to the same checksum. Where most have been is
        looked at first: of two that differ nobody can tell which is wrong."""
        self.soak.compared = sum(len(found) > 1 for found in self._checksums.values())
        for steps, everyones in sorted(
            self._checksums.items(), key=lambda item: len(item[1]), reverse=True
        ):
            sound = [life for life in self.soak.lives if life.failure is None]
            found = [
                (life, everyones[life.allocator.name])
                for life in sound
                if life.allocator.name in everyones
            ]
            most_common = Counter(checksum for _, checksum in found).most_common(1)
            for life, checksum in found:
                expected, _ = most_common[0]
                if checksum != expected:
                    life.failure = (
                        f"after {steps:,} steps of each thread: the checksum is {checksum}, under "
                        f"the others {expected}: it did not keep what was written into its blocks"
                    )
