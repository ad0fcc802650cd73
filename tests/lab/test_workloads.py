"""The drivers of the suites threads and memory, at a small size: the agreed names, a checksum that
neither an allocator nor the order of the threads changes, and memory that is really looked at."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hakmem_lab import metrics as known_metrics
from hakmem_lab.peers import registry
from hakmem_lab.suites import SUITES
from support import BUILD, LIBRARY, run_driver, start_driver

AGREED = {
    "threads": "larson producer_consumer false_sharing churn_threads idle_threads stress_mixed",
    "memory": "fragment phases many_threads_rss startup",
}

# Each benchmark of the two suites, as a driver and its arguments, for a test.
SMALL = {
    "larson": "larson 2 200000",
    "larson_16": "larson 16 200000",
    "producer_consumer": "producer_consumer 1 60000",
    "producer_consumer_16": "producer_consumer 8 20000",
    "false_sharing": "false_sharing fresh 2 40000",
    "false_sharing_handed": "false_sharing handed 2 40000",
    "churn_threads": "churn_threads 300",
    "idle_threads": "idle_threads 100",
    "idle_threads_freed": "idle_threads 100 freed",
    "idle_threads_mixed": "idle_threads 4 mixed",
    "stress_mixed": "stress_mixed 20000",
    "pair_64_2": "pair_threads 64 2 50000",
    "pair_65536_2": "pair_threads 65536 2 50000",
    "fragment": "fragment 4",
    "phases": "phases idle 8 1",
    "phases_trickle": "phases trickle 8 1",
    "phases_scattered": "phases scattered 8 1",
    "many_threads_rss": "many_threads_rss 40",
    "startup": "startup 20",
}

METRICS = {
    "idle_threads": {"thread_bytes", "thread_heap_bytes"},
    "fragment": {"average_rss_bytes", "fragmentation", "rss_after_bytes"},
    "phases": {
        "average_rss_bytes", "rss_after_100ms_bytes", "rss_after_bytes", "rss_after_2s_bytes",
    },
    "many_threads_rss": {"fragmentation", "rss_after_bytes", "thread_bytes"},
    "startup": {"private_bytes"},
}  # fmt: skip
METRICS["phases_trickle"] = METRICS["phases_scattered"] = METRICS["phases"]
METRICS["idle_threads_freed"] = METRICS["idle_threads_mixed"] = METRICS["idle_threads"]

# What a driver says besides, which no allocator changes.
FACTS = {name: {"live_bytes"} for name in ("phases", "phases_trickle", "phases_scattered")}

# Resident memory less resident memory: a page more of the program's files makes it negative.
DIFFERENCES = {"thread_heap_bytes"}

GIBIBYTE = 2**30

# Another behaviour of the system's malloc, which is always there: no caches of threads, one arena,
# and blocks that are not zero when they are new.
PERTURBED = {
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:glibc.malloc.perturb=85"
}


def a_peer() -> Path | None:
    """Any other allocator that is on this machine."""
    found = (registry.find(candidate) for candidate in registry.PEERS)
    return next((peer.library for peer in found if peer is not None), None)


@pytest.mark.parametrize("suite", AGREED)
def test_the_suites_have_the_agreed_names(suite: str) -> None:
    names = [benchmark.name for benchmark in SUITES[suite]]
    assert set(AGREED[suite].split()) <= set(names)
    assert set(names) <= set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_nothing_changes_the_checksum(name: str) -> None:
    words = SMALL[name].split()
    peer = a_peer()
    ways = [(None, None), (LIBRARY, None), (None, PERTURBED), *([(peer, None)] if peer else [])]
    with ThreadPoolExecutor() as pool:
        lines = list(
            pool.map(lambda way: run_driver(*words, library=way[0], variables=way[1]), ways)
        )
    system = lines[0]
    for line in lines:
        assert line["benchmark"] == name
        same = {"checksum", "ops"} | FACTS.get(name, set())
        assert {fact: line[fact] for fact in same} == {fact: system[fact] for fact in same}
        facts = {"benchmark", "seconds"} | same
        metrics = {"ns_per_op", "peak_rss_bytes"} | METRICS.get(name, set())
        assert set(line) == facts | metrics
        assert metrics | FACTS.get(name, set()) <= set(known_metrics.METRICS)
        assert all(line[key] > 0 for key in ({"ops", "seconds"} | metrics) - DIFFERENCES)
        assert all(line[key] > -4096 for key in metrics & DIFFERENCES)


@pytest.mark.parametrize("name", SMALL)
def test_in_a_limited_address_space(name: str) -> None:
    run_driver(*SMALL[name].split(), library=LIBRARY, limit_bytes=GIBIBYTE)


@pytest.mark.parametrize("name", ["larson", "stress_mixed", "fragment", "many_threads_rss"])
def test_a_corrupted_block_shows(name: str) -> None:
    """The stub hands blocks out again while they are in use, as corruption would."""
    words = SMALL[name].split()
    broken = start_driver(*words, library=BUILD / "bench" / "libstub.so")
    assert broken.returncode != 0 or run_driver(*words)["checksum"] not in broken.stdout


WRONG = """
larson
larson 0
larson 2 1
larson 2 100000 3
producer_consumer
producer_consumer 1000
false_sharing
false_sharing 2
false_sharing warm 2
churn_threads 1
idle_threads
idle_threads 99999999
idle_threads 100 asleep
stress_mixed x
pair_threads 64
pair_threads 8 2
fragment 0
fragment 4 4
phases
phases busy
phases idle 8 0
many_threads_rss
many_threads_rss -1
startup 0
startup 1 2
"""


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_a_driver_refuses_what_it_cannot_do(line: str) -> None:
    done = start_driver(*line.split())
    assert done.returncode == 1
    assert done.stderr.startswith(f"{line.split()[0]}: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_phases_sees_memory_given_back() -> None:
    """glibc gives a block that it has mapped back at once, and one inside its heap not at all."""
    words = ("phases", "scattered", "32", "1")
    kept = run_driver(*words, variables={"MALLOC_MMAP_THRESHOLD_": "33554432"})
    mapped = run_driver(*words, variables={"MALLOC_MMAP_THRESHOLD_": "4096"})
    assert mapped["checksum"] == kept["checksum"]
    assert mapped["rss_after_bytes"] < 0.75 * kept["rss_after_bytes"]
    assert kept["rss_after_bytes"] > 0.8 * kept["peak_rss_bytes"]


def test_what_threads_keep_is_seen() -> None:
    """With an arena for each thread, what a thread has freed serves no other one."""
    words = ("many_threads_rss", "64")
    shared = run_driver(*words, variables={"MALLOC_ARENA_MAX": "1"})
    apart = run_driver(*words, variables={"MALLOC_ARENA_MAX": "64"})
    assert apart["checksum"] == shared["checksum"]
    assert apart["fragmentation"] > 1.5 * shared["fragmentation"]


def test_live_memory_is_resident() -> None:
    """No allocator can hold 32 MiB of written blocks in less than 32 MiB."""
    line = run_driver("fragment", "32", library=LIBRARY)
    assert line["average_rss_bytes"] > 32 * 2**20 * 0.95
    assert line["fragmentation"] > 0.99
