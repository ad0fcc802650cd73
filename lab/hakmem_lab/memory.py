"""Memory of live processes: looked at now and then while they run, and how much it is on average.

Resident pages are counted one by one by the kernel (smaps_rollup): the quick counters of statm may
be off by some hundred kilobytes. Pss is what it counts as a process's share: its own pages whole, a
page that n processes map by one nth. Summed over the processes of a run it is what the run really
occupies, which the peak of the largest process (measure.py) does not say.

It must not disturb what it looks at. Such a look makes the kernel walk the page tables while the
program's own calls of mmap wait, some milliseconds for a gigabyte. So the first looks are at 10, 30
and 70 milliseconds and later ones a tenth of a second apart, and a look that took long is followed
by a pause of a hundred times its length: at most 1 % of the time is spent looking, whatever the
size. A run that ends before the third look has no average.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

FIRST_SECONDS = 0.01
RAREST_SECONDS = 0.1
PAUSE = 100.0
FEWEST_LOOKS = 3


@dataclass(frozen=True)
class Memory:
    """In bytes: the mean of so many looks."""

    resident: float  # Rss
    proportional: float  # Pss: pages shared with other processes count in part
    looks: int = 1


def mean(memories: Iterable[Memory]) -> Memory:
    """Over all their looks."""
    found = list(memories)
    looks = sum(each.looks for each in found)
    return Memory(
        sum(each.resident * each.looks for each in found) / looks,
        sum(each.proportional * each.looks for each in found) / looks,
        looks,
    )


def look(pid: int) -> Memory | None:
    """At a process once. None when it is gone, or not ours to look at."""
    found = _bytes_of(Path(f"/proc/{pid}/smaps_rollup"), "Rss", "Pss")
    return None if found is None else Memory(*found)


def peak_bytes(pid: int) -> int | None:
    """The most that a live process ever had resident."""
    found = _bytes_of(Path(f"/proc/{pid}/status"), "VmHWM")
    return None if found is None else found[0]


def _bytes_of(path: Path, *names: str) -> list[int] | None:
    """What a file of /proc has after these names, in their order; None unless it has them all."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    lines = [line.partition(":") for line in text.splitlines()]
    values = {name: value for name, _, value in lines if name in names}
    return (
        [int(values[name].split()[0]) * 1024 for name in names]
        if len(values) == len(names)
        else None
    )


@dataclass
class Sampler:
    """Looks at processes between start() and stop(), in a thread of its own."""

    processes: Callable[[], Iterable[int]]
    _looks: list[tuple[float, Memory]] = field(default_factory=list)  # all together, and when
    _begin: float = 0.0
    _end: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._begin = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None and not self._stop.is_set():
            self._end = time.monotonic()
            self._stop.set()
            self._thread.join()

    def average_bytes(self) -> float | None:
        """Of Pss, over time."""
        if len(self._looks) < FEWEST_LOOKS:
            return None
        looks = [(moment, memory.proportional) for moment, memory in self._looks]
        return average(looks, self._begin, self._end)

    def between(self, begin: float, end: float) -> list[Memory]:
        """What was seen from one moment of time.monotonic() to another."""
        return [memory for moment, memory in self._looks if begin <= moment <= end]

    def _run(self) -> None:
        pause = FIRST_SECONDS
        while not self._stop.wait(pause):
            moment, begin = time.monotonic(), time.thread_time()
            seen = [memory for memory in map(look, self.processes()) if memory is not None]
            cost = time.thread_time() - begin  # waiting for a busy processor costs nothing
            if seen:
                total = Memory(
                    sum(memory.resident for memory in seen),
                    sum(memory.proportional for memory in seen),
                )
                self._looks.append((moment, total))
            pause = max(PAUSE * cost, min(2 * pause, RAREST_SECONDS))


def average(looks: list[tuple[float, float]], begin: float, end: float) -> float:
    """The mean over time; between two looks memory is taken to change evenly."""
    points = [(begin, looks[0][1]), *looks, (max(end, looks[-1][0]), looks[-1][1])]
    area = sum(
        (later - earlier) * (first + second) / 2
        for (earlier, first), (later, second) in pairwise(points)
    )
    return area / (points[-1][0] - begin)
