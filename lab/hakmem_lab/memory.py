"""Average memory of a run: the program's share of memory, looked at now and then.

Pss is what the kernel counts as a process's share of memory: its own pages whole, a page that n
processes map by one nth. Summed over the processes of a run it is what the run really occupies,
which the peak of the largest process (measure.py) does not say. A thread looks at all processes
below the launcher and integrates over time.

It must not disturb what it looks at. Reading Pss makes the kernel walk the page tables while the
program's own calls of mmap wait, some milliseconds for a gigabyte. So the first looks are at 10, 30
and 70 milliseconds and later ones a tenth of a second apart, and a look that took long is followed
by a pause of a hundred times its length: at most 1 % of the time is spent looking, whatever the
size. A run that ends before the third look has no average.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from hakmem_lab.proof import descendants

_FIRST_SECONDS = 0.01
_RAREST_SECONDS = 0.1
_PAUSE = 100.0
_FEWEST_LOOKS = 3


@dataclass
class Sampler:
    """Looks at the processes below root between start() and stop()."""

    root: int
    _looks: list[tuple[float, float]] = field(default_factory=list)  # seconds, bytes
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
        if len(self._looks) < _FEWEST_LOOKS:
            return None
        return average(self._looks, self._begin, self._end)

    def _run(self) -> None:
        pause = _FIRST_SECONDS
        while not self._stop.wait(pause):
            begin = time.monotonic()
            total = sum(filter(None, map(pss_bytes, descendants(self.root))))
            cost = time.monotonic() - begin
            if total > 0:
                self._looks.append((begin, float(total)))
            pause = max(_PAUSE * cost, min(2 * pause, _RAREST_SECONDS))


def average(looks: list[tuple[float, float]], begin: float, end: float) -> float:
    """The mean over time; between two looks memory is taken to change evenly."""
    points = [(begin, looks[0][1]), *looks, (max(end, looks[-1][0]), looks[-1][1])]
    area = sum(
        (later - earlier) * (first + second) / 2
        for (earlier, first), (later, second) in pairwise(points)
    )
    return area / (points[-1][0] - begin)


def pss_bytes(pid: int) -> int | None:
    """None when the process is gone, or not ours to look at."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return None


def peak_bytes(pid: int) -> int | None:
    """The most that a live process ever had resident (VmHWM)."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
