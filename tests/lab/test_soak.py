"""The soak: what is planted is found (a leak, system calls, a crash), what is not there is not."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hakmem_lab import memory
from hakmem_lab.errors import RunError
from hakmem_lab.measure import Allocator
from hakmem_lab.memory import Memory
from hakmem_lab.soak import analysis, histogram
from hakmem_lab.soak.calls import between_marks
from hakmem_lab.soak.driver import SERVER, Driver, Epoch, Load, Work, joined
from hakmem_lab.soak.session import (
    STRETCHES,
    Observer,
    Phase,
    Plan,
    Session,
    epoch_seconds_for,
    warmup_for,
)
from support import BUILD, HAKMEM, LIBRARY, ROOT, SYSTEM, hakmem

LEAK_EVERY = 128

METRICS = """
    ns_per_op cpu_ns_per_op resident_bytes page_faults_per_op syscalls_per_op
    malloc_p50_ns malloc_p9999_ns free_p99_ns free_max_ns
""".split()

Build = Callable[..., Path]


@pytest.fixture
def faulty(tmp_path: Path) -> Build:
    """Builds an allocator with a planted fault."""

    def build(**definitions: int) -> Path:
        library = tmp_path / "libfaulty.so"
        words = ["gcc", "-O2", "-fPIC", "-shared", "-fno-builtin", "-o", str(library)]
        words += [f"-D{name}={value}" for name, value in definitions.items()]
        subprocess.run([*words, str(ROOT / "tests/lab/faulty_malloc.c")], check=True)
        return library

    return build


@contextmanager
def running(allocator: Allocator, threads: int = 2, load: Load = SERVER) -> Iterator[Driver]:
    driver = Driver(allocator, threads, load)
    try:
        yield driver
    finally:
        driver.stop()


# The driver


def test_the_same_epochs_come_to_the_same_checksum() -> None:
    with running(HAKMEM) as ours, running(SYSTEM) as theirs:
        for steps in (1, 20_000, 50_000):
            one, other = ours.epoch(steps, steps, 60), theirs.epoch(steps, steps, 60)
            assert one.checksum == other.checksum
            assert one.ops == other.ops >= 2 * steps
            assert one.steps_so_far == other.steps_so_far
        ours.close()
        theirs.close()


@pytest.mark.parametrize(("blocks", "alive"), [(None, 65_536), (4_000, 4_000)])
def test_random_mixed_replaces_blocks_of_one_table(blocks: int | None, alive: int) -> None:
    load = Load(Work.MIXED, blocks)
    with running(HAKMEM, load=load) as ours, running(SYSTEM, load=load) as theirs:
        for _ in range(2):
            one, other = ours.epoch(0, 400_000, 60), theirs.epoch(0, 400_000, 60)
            assert one.checksum == other.checksum
            assert one.ops == other.ops == 2 * 400_000
            assert abs(one.live_bytes - 2 * alive * 528) < 1 << 20
        ours.close()
        theirs.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_works(threads: int) -> None:
    with running(HAKMEM, threads) as driver:
        first, second = driver.epoch(0, 30_000, 60), driver.epoch(3_000, 30_000, 60)
        assert second.ops > threads * 30_000
        assert second.checksum != first.checksum
        driver.close()


def test_the_bytes_alive_stay_the_same_and_one_call_in_64_is_timed() -> None:
    with running(SYSTEM) as driver:
        epochs = [driver.epoch(1_000, 200_000, 60) for _ in range(3)]
    live = [epoch.live_bytes for epoch in epochs]
    assert max(live) - min(live) < 0.005 * min(live)
    for epoch in epochs:
        assert epoch.memory.resident > epoch.live_bytes > 20 << 20
        for calls in (epoch.malloc, epoch.free):
            assert 0.9 < calls.total() * 64 / epoch.ops < 1.1


def test_memory_is_looked_at_while_steps_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RAREST_SECONDS", 0.001)
    monkeypatch.setattr(memory, "PAUSE", 1.0)
    with running(SYSTEM) as driver:
        measured, led = driver.epoch(1, 1_000_000, 60), driver.epoch(1_000_000, 1, 60)
    assert measured.memory.looks > 10
    # A look a millisecond of the one measured step, and one at the end; none of the lead.
    assert led.memory.looks <= 1 + led.seconds / 0.001
    for seen in (measured.memory, led.memory):
        assert seen.resident > 20 << 20
        assert seen.resident * 0.5 < seen.proportional <= seen.resident


def test_stretches_become_one_epoch_with_the_mean_of_all_looks() -> None:
    with running(SYSTEM) as driver:
        stretches = [driver.epoch(0, 10_000, 60) for _ in range(3)]
    last = stretches[-1]
    memories = Memory(7, 6), Memory(90, 80, looks=2), Memory(13, 14)
    shown = [
        replace(each, memory=seen, live_bytes=live)
        for each, seen, live in zip(stretches, memories, (5, 1, 3), strict=True)
    ]
    epoch = joined(shown)
    assert (epoch.memory, epoch.live_bytes) == (Memory(50, 45, looks=4), 3)
    assert epoch.ops == sum(each.ops for each in stretches)
    assert (epoch.start_ns, epoch.end_ns) == (stretches[0].start_ns, last.end_ns)
    assert (epoch.checksum, epoch.steps_so_far) == (last.checksum, last.steps_so_far)
    assert epoch.malloc.total() == sum(each.malloc.total() for each in stretches)


def workers_of(pid: int) -> set[int]:
    """Its threads, but for HAKMEM's own."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has just ended
            if (task / "comm").read_text() != "hakmem\n":
                found.add(int(task.name))
    return found


def test_threads_come_and_go_within_an_epoch() -> None:
    with running(HAKMEM) as driver:
        before = workers_of(driver.pid)
        epoch = driver.epoch(0, 1_000_000, 60, count=True)
        after = workers_of(driver.pid)
        assert before & after == {driver.pid}
        # Each worker's steps take four lives: the kernel numbers threads in the order of birth.
        assert max(after) - max(before) >= 6
        assert epoch.calls is not None
        assert not {"clone", "clone3"} & set(epoch.calls)
        driver.close()


@pytest.mark.parametrize(
    ("words", "lines", "says"),
    [
        ([], "", "usage"),
        (["0"], "", "out of range"),
        (["65"], "", "out of range"),
        (["1", "server"], "", "usage"),
        (["1", "server", "400"], "", "usage"),
        (["1", "mixed", "0"], "", "out of range"),
        (["1", "mixed", "400", "1"], "", "usage"),
        (["1"], "100\n", "not: LEAD STEPS"),
        (["1"], "1 0\n", "out of range"),
        (["1"], "1 x\n", "out of range"),
        (["1"], "1" * 200 + "\n", "too long"),
    ],
)
def test_the_driver_refuses_what_it_cannot_do(words: list[str], lines: str, says: str) -> None:
    done = subprocess.run(
        [BUILD / "bench/soak", *words], input=lines, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("soak: ")
    assert says in done.stderr


# Histograms


def test_buckets_are_read_as_the_driver_writes_them(tmp_path: Path) -> None:
    """The two sides are in two languages: values through the C side, back by the Python side."""
    source = tmp_path / "buckets.c"
    source.write_text(
        '#include "support/latency.h"\n#include <stdio.h>\nstruct latency_timer latency_timer;\n'
        "int main(void) { unsigned long v;\n"
        'while (scanf("%lu", &v) == 1) printf("%u\\n", latency_bucket(v)); }\n'
    )
    program = tmp_path / "buckets"
    subprocess.run(
        ["gcc", "-O1", f"-I{ROOT / 'bench'}", "-o", str(program), str(source)], check=True
    )
    generator = random.Random(1)
    values = [
        *range(200),
        *(generator.randrange(1 << generator.randrange(8, 43)) for _ in range(999)),
    ]
    text = "\n".join(map(str, values))
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    buckets = [int(line) for line in done.stdout.split()]
    for value, bucket in zip(values, buckets, strict=True):
        read = histogram.value_ns(bucket) * histogram.UNITS_PER_NS
        assert read == value if value < 64 else abs(read - value) <= value / 64 + 0.5


def test_percentiles_of_a_known_distribution() -> None:
    calls = Counter({8: 9_000, 16: 900, 40: 99, 63: 1})  # 1 ns, 2 ns, 5 ns, 7.875 ns
    assert histogram.percentiles(calls) == {
        "p50": 1.0, "p90": 1.0, "p99": 2.0, "p99.9": 5.0, "p99.99": 5.0, "max": 7.875,
    }  # fmt: skip
    assert histogram.percentiles(Counter()) == {}
    assert histogram.merge([calls, calls]).total() == 20_000
    assert histogram.parse([[3, 7]]) == {3: 7}


# Drift and variation


def noisy(slope_percent: float, epochs: int = 60) -> tuple[list[float], list[float]]:
    """Epochs of a heap that grows by so many percent over the run, some of them disturbed."""
    generator = random.Random(7)
    times = [2.0 * number for number in range(epochs)]
    values = [
        100.0 * (1 + slope_percent / 100 * number / (epochs - 1)) + generator.gauss(0, 0.3)
        for number in range(epochs)
    ]
    for number in (5, 17, 40):
        values[number] *= 1.5
    return times, values


@pytest.mark.parametrize("planted", [-8.0, 2.0, 20.0])
def test_a_drift_is_found_though_epochs_are_disturbed(planted: float) -> None:
    times, values = noisy(planted)
    found = analysis.drift(times, values)
    assert found is not None
    middle = 1 + planted / 200
    assert abs(found.run - planted / middle) < 0.5
    assert found.low < planted / middle < found.high
    assert found.low > 0 if planted > 0 else found.high < 0
    assert found.hour == pytest.approx(found.run * 3600 / times[-1], rel=0.02)


def test_no_drift_is_no_drift() -> None:
    found = analysis.drift(*noisy(0.0))
    assert found is not None
    assert found.low < 0 < found.high
    assert abs(found.run) < 0.3
    assert analysis.drift([1.0, 2.0], [5.0, 6.0]) is None


def test_variation_is_the_standard_deviation_over_the_mean() -> None:
    assert analysis.variation([9.0, 10.0, 11.0]) == pytest.approx(10.0)
    assert analysis.variation([9.0, 11.0]) is None


def test_a_rate_of_no_events_has_an_upper_end() -> None:
    """Of a rate of 3.7 in so many operations, none would be seen in 2.5 % of the cases."""
    assert summary_of(Counter(), 1_000_000).syscalls_per_op == 0.0
    most = summary_of(Counter(), 1_000_000).syscalls_per_op_at_most
    assert most == pytest.approx(3.689e-6, rel=0.01)
    seen = summary_of(Counter({"mmap": 90, "futex": 10}), 1_000_000)
    assert seen.syscalls_per_op == pytest.approx(1e-4)
    assert seen.syscalls_per_op_at_most == pytest.approx(121.6e-6, rel=0.01)


def summary_of(calls: Counter[str], ops: int) -> analysis.Summary:
    return analysis.Summary(
        1, 1.0, ops, 1.0, 1.0, None, 1.0, 1.0, None, None, None, {}, {}, 0, 0, 0.0, ops, calls
    )


# System calls

TRACE = """\
10 read(0x0, 0x7ffc, 0x1) = 0x1
10 futex(0x1, 0x81, 0x1, 0, 0, 0) = 0x1
11 futex(0x1, 0x80 <unfinished ...>
11 <... futex resumed>) = 0x1
12 mmap(0, 0x1000) = 0x7f
12 getppid() = 0x1
13 getpgrp() = 0x1
13 madvise(0x7f, 0x4000, 0x4) = 0
12 madvise(0x7f, 0x1000, 0x4) = 0
11 getppid() = 0x1
11 mmap(0, 0x1000 <unfinished ...>
99 madvise(0x7f, 0x1000, 0x4) = 0
12 getppid() = 0x1
11 <... mmap resumed>) = 0x7f
12 madvise(0x7f, 0x1000, 0x4) = 0
10 write(0x1, 0x7f, 0x10) = 0x10
11 munmap(0x7f, 0x1000) = 0
11 getppid() = 0x1
99 munmap(0x7f, 0x1000) = 0
11 mmap(0, 0x1000) = 0x7f
"""


def test_only_calls_between_the_marks_count() -> None:
    """Threads 11 and 12 work, 13 ends in the lead, 10 is the main thread, 99 the allocator's."""
    calls = between_marks(TRACE.splitlines(), main_thread=10)
    assert calls == {"madvise": 2, "mmap": 1, "munmap": 1}


def test_half_a_trace_is_no_trace() -> None:
    assert between_marks(TRACE.splitlines()[:10], main_thread=10) is None
    assert between_marks([], main_thread=10) is None


# Whole soaks


def test_a_short_soak_writes_all_it_promises(tmp_path: Path) -> None:
    target, png, html = tmp_path / "soak.json", tmp_path / "soak.png", tmp_path / "soak.html"
    done = hakmem("soak", "--seconds", "2", "--epoch", "0.2", "--warmup", "2", "--peers", "glibc",
                  "--json", target, "--png", png, "--html", html)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for word in (
        "hakmem",
        "glibc",
        "memory drift",
        "CV",
        "throughput CV",
        "p99.99",
        "calls per op",
    ):
        assert word in done.stdout
    content = json.loads(target.read_text())
    rows = {(row["allocator"], row["metric"]): row for row in content["results"]}
    for name in ("hakmem", "glibc"):
        for metric in METRICS:
            assert rows[name, metric]["benchmark"] == "soak"
        life = content["soak"]["allocators"][name]
        summary = life["summary"]
        measured = [row for row in life["epochs"] if row["phase"] == "measured"]
        assert len(measured) == summary["epochs"] == len(rows[name, "ns_per_op"]["samples"])
        assert sum(row["phase"] == "warm-up" for row in life["epochs"]) == 2
        assert any(row.get("calls") is not None for row in life["epochs"])
        assert summary["counted_ops"] > 0
        figures = [summary["malloc_ns"][each] for each in histogram.PERCENTILES]
        assert figures == sorted(figures)
        assert sum(count for _, count in life["histograms"]["malloc"]) == summary["malloc_samples"]
    # Where both have been, as they do equal stretches.
    assert content["soak"]["checksums_compared"] > STRETCHES
    measured_seconds = sum(
        life["summary"]["seconds"] for life in content["soak"]["allocators"].values()
    )
    assert measured_seconds >= 4.0
    assert png.read_bytes().startswith(b"\x89PNG")
    page = html.read_text()
    assert "p99.99" in page
    assert "<svg" in page


def test_a_servers_heap_has_as_many_blocks_as_it_has() -> None:
    done = hakmem("soak", "--seconds", "1", "--blocks", "400")
    assert done.returncode == 1
    assert "--blocks is for --work mixed" in done.stderr


def test_a_planted_leak_and_planted_calls_are_found(faulty: Build) -> None:
    allocator = Allocator("leaky", faulty(LEAK_EVERY=LEAK_EVERY))
    # Sixty epochs; on a machine that has become busy since their length was chosen, some fifteen.
    soak = Session(Plan(6.0, 0.1, 1, 2, 1), [allocator], Observer()).run()
    (life,) = soak.lives
    assert life.failure is None
    assert life.uncounted is None
    summary = analysis.summarize(life)
    assert summary is not None
    assert summary.resident_drift is not None
    assert summary.resident_drift.low > 1.0
    # Every free but those of realloc, which are its own; nearly one in each operation.
    assert summary.calls["getuid"] * LEAK_EVERY / summary.counted_ops == pytest.approx(1, abs=0.05)


def test_a_crash_keeps_the_epochs_and_the_others_go_on(faulty: Build, tmp_path: Path) -> None:
    """The two measure for four seconds, taking turns, so after two it is in the midst of them."""
    target = tmp_path / "soak.json"
    done = hakmem("soak", "--seconds", "2", "--epoch", "0.1", "--warmup", "1", "--peers", "glibc",
                  "--json", target,
                  variables={"HAKMEM_LIBRARY": str(faulty(ABORT_AFTER=2000))})  # fmt: skip
    content = json.loads(target.read_text())
    lives = content["soak"]["allocators"]
    assert done.returncode == 1
    assert "SIGABRT" in done.stdout
    assert [row["allocator"] for row in content["failed"]] == ["hakmem"]
    assert lives["hakmem"]["epochs"]
    assert lives["glibc"]["summary"]["epochs"] > len(
        [row for row in lives["hakmem"]["epochs"] if row["phase"] == "measured"]
    )


def test_an_allocator_that_loses_contents_is_caught() -> None:
    done = hakmem("soak", "--seconds", "1", "--epoch", "0.1",
                  variables={"HAKMEM_LIBRARY": str(BUILD / "bench/libstub.so")})  # fmt: skip
    assert done.returncode == 1
    assert "a block lost its contents" in done.stdout


def test_a_checksum_unlike_the_others_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Driver.epoch

    def epoch(driver: Driver, *arguments: Any) -> Epoch:
        found = honest(driver, *arguments)
        return replace(found, checksum="0" * 16) if driver.allocator.name == "liar" else found

    monkeypatch.setattr(Driver, "epoch", epoch)
    allocators = [replace(SYSTEM, name=name) for name in ("one", "liar", "other")]
    soak = Session(Plan(0.5, 0.1, 1, 2, 1), allocators, Observer()).run()
    one, liar, other = soak.lives
    assert one.failure is None
    assert other.failure is None
    assert liar.failure is not None
    assert "the checksum is 0000000000000000, under the others" in liar.failure
    assert not liar.epochs
    assert one.of(Phase.MEASURED)


def test_an_interrupted_soak_keeps_what_it_has() -> None:
    class Impatient(Observer):
        seen_epochs = 0

        def seen(self, phase: Phase, allocator: str, epoch: Epoch) -> None:
            self.seen_epochs += phase is Phase.MEASURED
            if self.seen_epochs == 3:
                raise KeyboardInterrupt

    soak = Session(Plan(1000.0, 0.1, 1, 2, 1), [SYSTEM], Impatient()).run()
    assert soak.interrupted
    (life,) = soak.lives
    assert len(life.of(Phase.MEASURED)) == 3
    assert life.failure is None


def test_a_hung_driver_does_not_hang_the_soak() -> None:
    with running(SYSTEM) as driver:
        with pytest.raises(RunError, match="did not end within"):
            driver.epoch(0, 10**12, limit_seconds=0.3)
        assert is_alive(driver.pid)
    end = time.monotonic() + 10
    while is_alive(driver.pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_alive(driver.pid)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state not in "ZX"


def test_the_wrong_library_is_not_measured(tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("this is not a shared object")
    done = hakmem("soak", "--seconds", "1", variables={"HAKMEM_LIBRARY": str(broken)})
    assert done.returncode == 3
    assert "hakmem was to be measured" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--json", "/proc/nowhere/soak.json"], 1, "/proc/nowhere"),
        (["--png", "picture.jpeg"], 1, ".png or .svg"),
        (["--seconds", "0"], 2, "--seconds"),
        (["--threads", "65"], 2, "--threads"),
        (["--peers", "nomalloc"], 1, "no peer 'nomalloc'"),
    ],
)
def test_what_cannot_be_done_is_said_first(words: list[str], status: int, says: str) -> None:
    done = hakmem("soak", *words)
    assert done.returncode == status
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_epochs_are_a_sixtieth_within_bounds() -> None:
    lengths = [epoch_seconds_for(seconds) for seconds in (3, 120, 3600)]
    assert lengths == [0.25, 2.0, 10.0]
    warm = [
        warmup_for(seconds, each) for seconds, each in zip((3, 120, 3600), lengths, strict=True)
    ]
    assert warm == [2, 6, 36]


def test_the_library_of_these_tests_is_the_one_measured() -> None:
    with running(HAKMEM) as driver:
        assert str(LIBRARY.resolve()) in Path(f"/proc/{driver.pid}/maps").read_text()
