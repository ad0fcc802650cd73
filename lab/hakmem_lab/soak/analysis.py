"""What a life of epochs says: does it drift, does it vary, how late are the late calls?

Drift is the Theil–Sen slope: the median of the slopes between all pairs of epochs. One epoch that a
neighbour disturbed moves it as little as it moves a median, where a line of least squares would
follow it. Its 95 % interval takes the epochs for independent. They are not quite (memory of one
epoch is much like that of the last), so an interval that just misses 0 is no proof of a drift; one
that lies far from it is.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.soak import histogram
from hakmem_lab.soak.driver import Epoch
from hakmem_lab.soak.session import Life, Phase

# Under three points a slope says nothing.
FEWEST_EPOCHS = 3


@dataclass(frozen=True)
class Drift:
    """In percent of the median. Over the run: from its first measured epoch to its last."""

    run: float
    low: float
    high: float
    hour: float  # of one hour of the process's own measured work


@dataclass(frozen=True)
class Summary:
    epochs: int
    seconds: float
    ops: int
    resident_bytes: float  # median
    live_bytes: float
    resident_drift: Drift | None
    ns_per_op: float
    cpu_ns_per_op: float
    ns_per_op_cv: float | None  # percent
    throughput_cv: float | None
    ns_per_op_drift: Drift | None
    malloc_ns: dict[str, float]  # percentiles over all measured epochs
    free_ns: dict[str, float]
    malloc_samples: int
    free_samples: int
    page_faults_per_op: float
    counted_ops: int  # operations whose system calls were counted
    calls: Counter[str]

    @property
    def syscalls_per_op(self) -> float | None:
        return self.calls.total() / self.counted_ops if self.counted_ops else None

    @property
    def syscalls_per_op_at_most(self) -> float | None:
        """The upper end of the 95 % interval of a rate of which so many events were seen (Garwood):
        no call in a million operations does not mean that none will come."""
        if not self.counted_ops:
            return None
        from scipy.stats import chi2

        return float(chi2.ppf(0.975, 2 * (self.calls.total() + 1)) / 2 / self.counted_ops)


def drift(seconds: Sequence[float], values: Sequence[float]) -> Drift | None:
    """Of values that were seen after so many seconds; None where there are too few."""
    middle = statistics.median(values) if values else 0.0
    if len(values) < FEWEST_EPOCHS or middle == 0.0:
        return None
    from scipy.stats import theilslopes

    slope, _, low, high = theilslopes(values, seconds, alpha=0.95)
    length = seconds[-1] - seconds[0]
    ends = [float(each) * length / middle * 100 for each in (slope, low, high)]
    return Drift(ends[0], ends[1], ends[2], float(slope) * 3600 / middle * 100)


def variation(values: Sequence[float]) -> float | None:
    """The coefficient of variation: standard deviation over mean, in percent."""
    if len(values) < FEWEST_EPOCHS:
        return None
    return statistics.stdev(values) / statistics.fmean(values) * 100


def own_seconds(epochs: Sequence[Epoch]) -> list[float]:
    """At the end of each epoch, how long the process had been measured: the others' turns do not
    count."""
    total, seconds = 0.0, []
    for epoch in epochs:
        total += epoch.seconds
        seconds.append(total)
    return seconds


def summarize(life: Life) -> Summary | None:
    """None when no epoch was measured."""
    epochs = life.of(Phase.MEASURED)
    if not epochs:
        return None
    counted = [epoch for epoch in life.of(Phase.COUNTED) if epoch.calls is not None]
    times = own_seconds(epochs)
    memory = [epoch.memory.resident for epoch in epochs]
    speed = [epoch.ns_per_op for epoch in epochs]
    ops = sum(epoch.ops for epoch in epochs)
    malloc = histogram.merge(epoch.malloc for epoch in epochs)
    free = histogram.merge(epoch.free for epoch in epochs)
    calls: Counter[str] = Counter()
    for epoch in counted:
        calls.update(epoch.calls or {})
    return Summary(
        epochs=len(epochs),
        seconds=times[-1],
        ops=ops,
        resident_bytes=statistics.median(memory),
        live_bytes=statistics.median(epoch.live_bytes for epoch in epochs),
        resident_drift=drift(times, memory),
        ns_per_op=statistics.median(speed),
        cpu_ns_per_op=statistics.median(epoch.cpu_ns_per_op for epoch in epochs),
        ns_per_op_cv=variation(speed),
        throughput_cv=variation([1 / each for each in speed]),
        ns_per_op_drift=drift(times, speed),
        malloc_ns=histogram.percentiles(malloc),
        free_ns=histogram.percentiles(free),
        malloc_samples=malloc.total(),
        free_samples=free.total(),
        page_faults_per_op=sum(e.minor_faults + e.major_faults for e in epochs) / ops,
        counted_ops=sum(epoch.ops for epoch in counted),
        calls=calls,
    )
