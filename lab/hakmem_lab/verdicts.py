"""What a comparison of one program shows, in a sentence.

    HAKMEM against glibc: 7 % faster (5–9 %), 12 % smaller (11–13 %)

"7 % faster" is 7 % less time, and "12 % smaller" 12 % less memory at the peak, with the ends of the
95 % interval of the ratio of medians. An interval that has "no change" in it is not turned into a
figure: these runs then show no difference.
"""

from __future__ import annotations

from hakmem_lab import stats
from hakmem_lab.report import View
from hakmem_lab.suites import STUB

TOO_FEW = "One run says nothing about the next: no verdict."


def sentences(view: View, benchmark: str, base: str) -> list[str]:
    """Against the base, and against the fastest of the others where that is another."""
    if view.content["runs"] < 2:
        return [TOO_FEW]
    against_base = against(view, benchmark, base)
    found = [] if against_base is None else [f"{against_base}."]
    fastest = fastest_other(view, benchmark)
    if fastest not in (None, base):
        other = against(view, benchmark, str(fastest), ", the fastest of the others")
        found += [] if other is None else [f"{other}."]
    return found


def fastest_other(view: View, benchmark: str) -> str | None:
    times = {
        name: estimate.value
        for name in view.allocators()
        if name not in (view.subject(), STUB)
        and (estimate := view.result(benchmark, name, "wall_s")) is not None
    }
    return min(times, key=lambda name: times[name]) if times else None


def against(view: View, benchmark: str, other: str, aside: str = "") -> str | None:
    """None where one of the two failed, or they are the same."""
    time = view.ratio(benchmark, other, "wall_s")
    memory = view.ratio(benchmark, other, "peak_rss_bytes")
    if time is None or memory is None:
        return None
    subject = view.subject().upper() if view.subject() == "hakmem" else view.subject()
    return (
        f"{subject} against {other}{aside}: {_change(time, 'faster', 'slower', 'time')}, "
        f"{_change(memory, 'smaller', 'larger', 'peak memory')}"
    )


def _change(ratio: stats.Estimate, better: str, worse: str, what: str) -> str:
    """Ratios as changes: 0.93 (0.91-0.95) is 7 % less (5-9 %)."""
    low, high = (ratio.low - 1) * 100, (ratio.high - 1) * 100
    # No more digits than the interval bears.
    digits = 0 if high - low >= 1.5 and min(abs(low), abs(high)) >= 1 else 1
    if low == high == 0:
        return f"the same {what}"
    if low <= 0 <= high:
        ends = f"{low:+.{digits}f} to {high:+.{digits}f} %".replace("-", "−")
        return f"no difference in {what} that these runs can show ({ends})"
    word = better if ratio.value < 1 else worse
    near, far = sorted((abs(low), abs(high)))
    change = abs(ratio.value - 1) * 100
    return f"{change:.{digits}f} % {word} ({near:.{digits}f}–{far:.{digits}f} %)"
