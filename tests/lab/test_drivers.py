"""The drivers: the agreed names, one line of JSON, and a checksum that no allocator changes."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hakmem_lab import metrics as known_metrics
from hakmem_lab import suites
from hakmem_lab.errors import LabError, RunError
from hakmem_lab.measure import Allocator, Run
from hakmem_lab.suites import MICRO, SUITES, Benchmark, Checksums
from support import BUILD, LIBRARY, run_driver, samples_of

NAMES = """
    pair_16 pair_64 pair_256 pair_1024 pair_8192 pair_65536 pair_1048576
    random_mixed_256 random_mixed_400 random_mixed_4096 random_mixed_65536 random_mixed_1000000
    bulk_fifo bulk_lifo bulk_random mid_mixed realloc_grow calloc_large aligned_mixed
""".split()

STUB = BUILD / "bench" / "libstub.so"
A_TENTH = {"BENCH_DIVIDE": "10"}  # of the steps


def drive(
    benchmark: Benchmark, library: Path | None, variables: Mapping[str, str] | None = None
) -> dict[str, object]:
    return run_driver(benchmark.driver, *benchmark.arguments, library=library, variables=variables)


def test_the_micro_suite_has_the_agreed_names() -> None:
    assert [benchmark.name for benchmark in MICRO] == NAMES


@pytest.mark.parametrize("benchmark", MICRO, ids=lambda benchmark: benchmark.name)
def test_same_checksum_under_the_library_and_the_system(benchmark: Benchmark) -> None:
    system, ours = (drive(benchmark, each, A_TENTH) for each in (None, LIBRARY))
    assert ours["checksum"] == system["checksum"]
    assert ours["ops"] == system["ops"]
    for line in (system, ours):
        assert line["benchmark"] == benchmark.name
        for name in ("ops", "seconds", "ns_per_op", "cpu_ns_per_op", "peak_rss_bytes"):
            value = line[name]
            assert isinstance(value, (int, float))
            assert value > 0


@pytest.mark.parametrize("name", ["pair_64", "mid_mixed", "bulk_lifo", "realloc_grow"])
def test_a_short_run_takes_a_part_of_the_steps(name: str) -> None:
    benchmark = next(each for each in MICRO if each.name == name)
    usual, short = drive(benchmark, LIBRARY), drive(benchmark, LIBRARY, A_TENTH)
    assert int(str(short["ops"])) * 10 == int(str(usual["ops"]))


@pytest.mark.parametrize(
    "benchmark",
    [each for each in MICRO if each.stub],
    ids=lambda benchmark: benchmark.name,
)
def test_the_stub_runs_where_it_is_listed(benchmark: Benchmark) -> None:
    assert drive(benchmark, STUB)["benchmark"] == benchmark.name


def test_a_corrupted_block_changes_the_checksum() -> None:
    """The stub's blocks overlap, which is what losing contents looks like."""
    benchmark = next(each for each in MICRO if each.name == "random_mixed_400")
    assert drive(benchmark, STUB)["checksum"] != drive(benchmark, None)["checksum"]


@pytest.mark.parametrize("arguments", [[], ["x"], ["8"], ["16", "16"], ["99999999999999"]])
def test_a_driver_refuses_what_it_cannot_do(arguments: list[str]) -> None:
    done = subprocess.run(
        [BUILD / "bench" / "pair", *arguments], capture_output=True, text=True, check=False,
        env=dict(os.environ), timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("pair: ")
    assert done.stdout == ""


def test_the_allocator_that_stands_alone_with_its_checksum_fails() -> None:
    checksums = Checksums()
    samples = samples_of(
        {("pair_16", name): {"ns_per_op": [1.0]} for name in ("a", "b", "c", "stub")}
    )
    for name, checksum in (("a", "1"), ("b", "2"), ("c", "2"), ("stub", "3")):
        checksums.add("pair_16", name, checksum)
    checksums.judge(samples)
    assert list(samples.failures) == [("pair_16", "a")]
    assert {allocator for _, allocator in samples.values} == {"b", "c", "stub"}


def test_a_checksum_that_changes_from_run_to_run_fails() -> None:
    checksums = Checksums()
    checksums.add("pair_16", "a", "1")
    with pytest.raises(RunError, match="was 1 and is now 2"):
        checksums.add("pair_16", "a", "2")


@pytest.mark.parametrize("stdout", [b"", b"no JSON", b"{}", b'{"benchmark": "other"}', b"[1]"])
def test_a_driver_that_prints_no_result_fails(stdout: bytes) -> None:
    run = Run({"wall_s": 1.0}, stdout)
    with pytest.raises(RunError):
        suites.driver_metrics(MICRO[0], Allocator("a", None), run, Checksums())


def test_a_metric_without_a_unit_fails() -> None:
    line = b'{"benchmark": "pair_16", "ns_per_op": 1, "peak_rss_bytes": 1, "checksum": "0", "x": 1}'
    with pytest.raises(RunError, match="reports 'x'"):
        suites.driver_metrics(MICRO[0], Allocator("a", None), Run({}, line), Checksums())


def test_only_what_the_suite_has_can_be_chosen() -> None:
    assert [each.name for each in suites.select("micro", ["bulk_fifo", "pair_16"])] == [
        "pair_16",
        "bulk_fifo",
    ]
    with pytest.raises(LabError, match=r"no benchmark pair_17; it has: pair_16"):
        suites.select("micro", ["pair_17"])


def test_names_without_a_suite_are_looked_for_in_all() -> None:
    chosen = suites.choose(None, ["startup", "pair_16", "larson"])
    assert {suite: [each.name for each in members] for suite, members in chosen.items()} == {
        "micro": ["pair_16"],
        "threads": ["larson"],
        "memory": ["startup"],
    }
    assert list(suites.choose(None, [])) == ["micro"]
    assert list(suites.choose("all", [])) == list(SUITES)
    with pytest.raises(LabError, match="no benchmark lason; the suites have: micro: pair_16"):
        suites.choose(None, ["lason"])
    with pytest.raises(LabError, match="no suite 'macro'; there are: micro"):
        suites.choose("macro", [])


def test_every_suite_says_what_its_tables_show() -> None:
    assert list(suites.METRICS) == list(SUITES)
    for metrics in suites.METRICS.values():
        assert set(metrics) <= set(known_metrics.METRICS)
