"""Average memory: of all processes, over time, and what short runs cannot have."""

import os
import sys
import time

import pytest

from hakmem_lab import memory
from hakmem_lab.measure import Command, run
from support import SYSTEM

MIB = 2.0**20


def average_of(program: str) -> float:
    return run(Command((sys.executable, "-c", program)), SYSTEM).metrics["avg_pss_bytes"]


def test_the_mean_is_over_time_and_not_over_looks() -> None:
    looks = [(1.0, 10.0), (1.1, 10.0), (1.2, 10.0), (5.2, 20.0)]
    assert memory.average(looks, 0.0, 5.2) == pytest.approx((1.2 * 10 + 4 * 15) / 5.2)
    assert memory.average([(1.0, 7.0)], 0.0, 2.0) == 7.0


def test_the_share_of_time_that_memory_is_held_shows() -> None:
    """Long enough for three looks at least, of which one may cost a pause of half a second."""
    held = average_of("import time; data = bytearray(100 << 20); time.sleep(2)")
    half = average_of(
        "import time; data = bytearray(100 << 20); time.sleep(1.2); del data; time.sleep(1.8)"
    )
    assert held > 80 * MIB
    assert 15 * MIB < half < 0.8 * held


def test_memory_of_all_processes_counts() -> None:
    child = "import time; data = bytearray(60 << 20); time.sleep(2)"
    program = (
        "import subprocess, sys\n"
        f"running = [subprocess.Popen([sys.executable, '-c', {child!r}]) for _ in range(2)]\n"
        "for each in running: each.wait()"
    )
    command = Command((sys.executable, "-c", program))
    metrics = run(command, SYSTEM).metrics
    assert metrics["avg_pss_bytes"] > 90 * MIB
    assert metrics["peak_rss_bytes"] < 90 * MIB


def test_a_run_that_is_too_short_has_no_average() -> None:
    assert "avg_pss_bytes" not in run(Command(("true",)), SYSTEM).metrics
    assert "avg_pss_bytes" not in run(Command(("sleep", "0.5"), watch=False), SYSTEM).metrics


def test_figures_of_one_process() -> None:
    peak, now = memory.peak_bytes(os.getpid()), memory.look(os.getpid())
    assert peak is not None and now is not None
    assert 5 * MIB < now.proportional <= min(now.resident, peak)
    assert memory.look(2**22 + 1) is None
    assert memory.peak_bytes(2**22 + 1) is None


def test_looking_takes_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heap so big that looking at it takes 20 ms is looked at every two seconds, at a stretch."""

    def slow_look(_: int) -> memory.Memory:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return memory.Memory(1.0, 1.0)

    monkeypatch.setattr(memory, "look", slow_look)
    sampler = memory.Sampler(lambda: [1])
    begin = time.monotonic()
    sampler.start()
    time.sleep(2.5)
    sampler.stop()
    end = time.monotonic()
    seen = sampler.between(begin, end)
    assert 1 <= len(seen) <= 1 + (end - begin) / 2
    assert sampler.between(begin - 2, begin) == sampler.between(end, end + 2) == []
