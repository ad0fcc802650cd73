"""Runs are interleaved, the warm-up is dropped, and a failure takes only itself along."""

import io

import pytest
from rich.console import Console

from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.schedule import Metrics, Task, interleave, orders

QUIET = Console(file=io.StringIO())
BENCHMARKS = ("a", "b", "c")
ALLOCATORS = ("x", "y", "z")


def nothing() -> Metrics:
    return {}


def tasks() -> list[Task]:
    return [Task(benchmark, name, nothing) for benchmark in BENCHMARKS for name in ALLOCATORS]


def test_each_round_has_every_task_once() -> None:
    wanted = sorted(task.key for task in tasks())
    for order in orders(BENCHMARKS, tasks(), 5, seed=1):
        assert sorted(task.key for task in order) == wanted


def test_allocators_of_a_benchmark_run_next_to_each_other() -> None:
    for order in orders(BENCHMARKS, tasks(), 5, seed=1):
        for start in range(0, len(order), len(ALLOCATORS)):
            assert len({task.benchmark for task in order[start : start + len(ALLOCATORS)]}) == 1


def test_rounds_differ_and_a_seed_repeats_them() -> None:
    first, again, other = (
        [[task.key for task in order] for order in orders(BENCHMARKS, tasks(), 6, seed)]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len({tuple(order) for order in first}) > 1


def test_warm_up_is_run_and_dropped() -> None:
    calls = iter(range(100))
    task = Task("a", "x", lambda: {"wall_s": float(next(calls))})
    samples = interleave([task], runs=3, warmup=2, seed=0, console=QUIET)
    assert samples.of("a", "x", "wall_s") == [2.0, 3.0, 4.0]


def test_a_metric_of_some_runs_only_is_dropped() -> None:
    calls = iter(range(100))

    def once() -> Metrics:
        return {"wall_s": 1.0, **({"avg_pss_bytes": 5.0} if next(calls) % 2 else {})}

    samples = interleave([Task("a", "x", once)], runs=4, warmup=0, seed=0, console=QUIET)
    assert samples.of("a", "x", "wall_s") == [1.0] * 4
    assert samples.of("a", "x", "avg_pss_bytes") is None


def test_a_failing_allocator_is_dropped_and_the_others_go_on() -> None:
    calls = {"x": 0, "y": 0}

    def once(name: str, fails_at: int) -> Metrics:
        calls[name] += 1
        if calls[name] == fails_at:
            raise RunError("it crashed")
        return {"wall_s": 1.0}

    samples = interleave(
        [Task("a", "x", lambda: once("x", 3)), Task("a", "y", lambda: once("y", -1))],
        runs=4,
        warmup=1,
        seed=0,
        console=QUIET,
    )
    assert samples.failures == {("a", "x"): "it crashed"}
    assert samples.of("a", "x", "wall_s") is None
    assert samples.of("a", "y", "wall_s") == [1.0] * 4
    assert calls == {"x": 3, "y": 5}


def test_a_library_that_was_not_mapped_ends_everything() -> None:
    def once() -> Metrics:
        raise NotMappedError("glibc against glibc")

    with pytest.raises(NotMappedError):
        interleave([Task("a", "x", once)], runs=1, warmup=0, seed=0, console=QUIET)


def test_a_library_that_is_missed_later_takes_only_itself_along() -> None:
    calls = iter(range(100))

    def once() -> Metrics:
        if next(calls) == 2:
            raise NotMappedError("a child without it")
        return {"wall_s": 1.0}

    steady = Task("a", "y", lambda: {"wall_s": 2.0})
    samples = interleave([Task("a", "x", once), steady], runs=4, warmup=1, seed=0, console=QUIET)
    assert samples.failures == {("a", "x"): "a child without it"}
    assert samples.of("a", "y", "wall_s") == [2.0] * 4


def test_ctrl_c_keeps_what_there_is() -> None:
    calls = iter([1.0, 2.0, 3.0])

    def once() -> Metrics:
        try:
            return {"wall_s": next(calls)}
        except StopIteration:
            raise KeyboardInterrupt from None

    samples = interleave([Task("a", "x", once)], runs=9, warmup=1, seed=0, console=QUIET)
    assert samples.interrupted
    assert samples.of("a", "x", "wall_s") == [2.0, 3.0]


def test_ctrl_c_before_the_first_sample_ends_everything() -> None:
    def once() -> Metrics:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interleave([Task("a", "x", once)], runs=1, warmup=0, seed=0, console=QUIET)
