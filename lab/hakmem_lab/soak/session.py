"""All processes of a soak, taking turns.

Every allocator has one process that lives through the whole soak. The processes take turns, an
epoch each in an order that is drawn anew, while the others sleep: what drifts on the machine meets
all of them alike, and no two compete for the processors. The price is that an allocator which gives
memory back by the clock does so in its pauses; the lead of each epoch, a tenth of it that is not
measured, takes that memory and the caches back.

All do the same work: an epoch is a number of steps, chosen in the warm-up so that an epoch of the
average allocator lasts as long as was asked for. Epochs go on until N seconds for each allocator
have been measured. A few rounds in between are traced for their system calls and not timed.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hakmem_lab.errors import RunError
from hakmem_lab.measure import Allocator
from hakmem_lab.soak.driver import Driver, Epoch, Work

PROBE_STEPS = 100_000
COUNTED_ROUNDS = 5
# An epoch that takes so many times as long as it should, and a minute, is hung.
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
    work: Work = Work.SERVER


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
    steps: int = 0  # of a thread in a measured epoch
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
                driver = Driver(life.allocator, self.soak.plan.threads, self.soak.plan.work)
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
        """Twice a probe, of which only the second is believed: the first meets a new heap."""
        plan = self.soak.plan
        self._round(Phase.WARM_UP, PROBE_STEPS, keep=False)
        self._choose_steps(self._round(Phase.WARM_UP, PROBE_STEPS, keep=False), PROBE_STEPS)
        for number in range(plan.warmup):
            self._observer.at(Phase.WARM_UP, number / plan.warmup)
            epochs = self._round(Phase.WARM_UP, self.soak.steps)
            if number < plan.warmup // 2:
                self._choose_steps(epochs, self.soak.steps)

    def _choose_steps(self, epochs: Sequence[Epoch], steps: int) -> None:
        if not epochs:
            return
        seconds_per_step = sum(epoch.seconds for epoch in epochs) / len(epochs) / steps
        self.soak.steps = max(1000, round(self.soak.plan.epoch_seconds / seconds_per_step))

    def _measure(self) -> None:
        """A soak of one or two rounds is counted too: each round may take more than one part."""
        measured = 0.0
        counted = 0
        while self._drivers:
            share = measured / (self.soak.plan.seconds * len(self._drivers))
            if share >= 1.0:
                break
            self._observer.at(Phase.MEASURED, share)
            measured += sum(epoch.seconds for epoch in self._round(Phase.MEASURED, self.soak.steps))
            # Spread over the soak, in the middle of equal parts of it.
            if share >= (counted + 0.5) / COUNTED_ROUNDS:
                self._round(Phase.COUNTED, self.soak.steps)
                counted += 1

    def _round(self, phase: Phase, steps: int, keep: bool = True) -> list[Epoch]:
        """One epoch of every process that is still there."""
        epochs: dict[str, Epoch] = {}
        for driver, life in self._random.sample(self._drivers, len(self._drivers)):
            epoch = self._epoch(driver, life, phase, steps)
            if epoch is not None:
                epochs[life.allocator.name] = epoch
                if keep:
                    life.epochs.append((phase, epoch))
                self._observer.seen(phase, life.allocator.name, epoch)
        self._compare(epochs)
        for driver, life in self._drivers:
            if life.failure is not None:
                driver.stop()
        self._drivers = [each for each in self._drivers if each[1].failure is None]
        return list(epochs.values())

    def _epoch(self, driver: Driver, life: Life, phase: Phase, steps: int) -> Epoch | None:
        limit = max(SLOWEST_SECONDS, SLOWEST * self.soak.plan.epoch_seconds)
        count = phase is Phase.COUNTED and life.uncounted is None
        try:
            epoch = driver.epoch(steps // 10, steps, limit, count)
        except RunError as error:
            life.failure = f"in epoch {driver.epochs_begun}: {error}"
            return None
        if count and epoch.calls is None:
            life.uncounted = epoch.uncounted
        return epoch

    def _compare(self, epochs: dict[str, Epoch]) -> None:
        """The same epochs must have come to the same checksum."""
        if not epochs:
            return
        expected, _ = Counter(epoch.checksum for epoch in epochs.values()).most_common(1)[0]
        for life in self.soak.lives:
            epoch = epochs.get(life.allocator.name)
            if epoch is not None and epoch.checksum != expected:
                life.failure = (
                    f"in epoch {epoch.number}: the checksum is {epoch.checksum}, under the others "
                    f"{expected}: it did not keep what was written into its blocks"
                )
