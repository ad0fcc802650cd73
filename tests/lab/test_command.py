"""The command as a user meets it: what it runs, what it prints, what it ends in."""

import json
import os
import shutil
from pathlib import Path

import pytest

from hakmem_lab import demo
from hakmem_lab.measure import run
from support import HAKMEM, LIBRARY, ROOT, SYSTEM, hakmem


def test_run_puts_the_program_under_the_library(tmp_path: Path) -> None:
    done = hakmem("run", "--", "cat", "/proc/self/maps")
    assert done.returncode == 0
    assert str(LIBRARY.resolve()) in done.stdout


def test_run_ends_as_the_program_ends() -> None:
    assert hakmem("run", "sh", "-c", "exit 7").returncode == 7
    assert hakmem("run", "--", "sh", "-c", "kill -TERM $$").returncode == -15


def test_run_hands_options_on() -> None:
    words = ["run", "--profile", "lean", "--set", "decay_ms=5", "--", "printenv", "HAKMEM_OPTIONS"]
    assert hakmem(*words, variables={"HAKMEM_OPTIONS": ""}).stdout == "profile=lean,decay_ms=5\n"
    earlier = hakmem(*words, variables={"HAKMEM_OPTIONS": "verbose=0"})
    assert earlier.stdout == "verbose=0,profile=lean,decay_ms=5\n"


def test_run_changes_nothing_else() -> None:
    """The program must not meet the lab's own Python path or environment."""
    variables = {"LD_PRELOAD": "", "HAKMEM_OPTIONS": ""}
    seen = hakmem("run", "env", variables=variables, program=[ROOT / "bin/hakmem"]).stdout
    expected = {**os.environ, "COLUMNS": "200", **variables, "LD_PRELOAD": str(LIBRARY.resolve())}
    names = {line.partition("=")[0] for line in seen.splitlines() if "=" in line}
    assert names - {"_", "OLDPWD", "PWD", "SHLVL"} <= set(expected)
    assert f"LD_PRELOAD={LIBRARY.resolve()}" in seen


def test_the_programs_own_options_are_not_taken_for_ours() -> None:
    assert hakmem("run", "echo", "--profile", "--help").stdout == "--profile --help\n"


def test_started_through_a_symbolic_link(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(ROOT / "bin/hakmem")
    second.symlink_to("first")
    done = hakmem("peers", program=[second])
    assert done.returncode == 0, done.stderr
    assert "glibc" in done.stdout


def test_compare_prints_both_and_a_verdict() -> None:
    done = hakmem("compare", "--peers", "glibc", "--runs", "3", "--", "python3", "-c", "print(1)")
    assert done.returncode == 0, done.stderr
    for word in ("hakmem", "glibc", "peak memory", "page faults", "HAKMEM against glibc"):
        assert word in done.stdout


def test_bench_prints_the_stub_and_writes_the_samples(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = hakmem("bench", "--suite", "micro", "--peers", "glibc,stub", "--runs", "2",
                  "--json", target, "--only", "pair_16", "random_mixed_256")  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(target.read_text())
    rows = {(row["benchmark"], row["allocator"]) for row in content["results"]}
    assert rows == {
        (benchmark, allocator)
        for benchmark in ("pair_16", "random_mixed_256")
        for allocator in ("hakmem", "glibc", "stub")
    }
    metrics = {row["metric"] for row in content["results"]}
    assert {"ns_per_op", "wall_s", "cpu_s", "peak_rss_bytes", "page_faults"} <= metrics
    assert "random_mixed_256" in done.stdout


def test_the_stub_is_left_out_where_it_would_mislead(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = hakmem("bench", "--only", "calloc_large", "--peers", "glibc,stub", "--runs", "1",
                  "--warmup", "0", "--json", target)  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(target.read_text())
    assert {row["allocator"] for row in content["results"]} == {"hakmem", "glibc"}


def test_the_demo_ends_in_zero_with_a_table(tmp_path: Path) -> None:
    target = tmp_path / "demo.json"
    done = hakmem("demo", "--runs", "1", "--json", target)
    assert done.returncode == 0, done.stderr
    for word in ("hakmem", "glibc", "time", "peak memory", "200,000"):
        assert word in done.stdout
    rows = json.loads(target.read_text())["results"]
    assert {row["allocator"] for row in rows} == {"hakmem", "glibc"}


def test_the_demo_fails_when_the_library_is_not_in_the_program(tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("this is not a shared object")
    done = hakmem("demo", variables={"HAKMEM_LIBRARY": str(broken)})
    assert done.returncode == 3
    assert "hakmem was to be measured" in done.stderr


@pytest.mark.parametrize("with_sqlite", [True, False])
def test_each_program_of_the_demo_does_its_work(
    with_sqlite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if with_sqlite else None)
    chosen = demo.choose()
    outputs = [run(chosen.command, allocator).stdout for allocator in (HAKMEM, SYSTEM)]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == (8 if with_sqlite else 2)


def test_a_program_that_fails_under_one_allocator_leaves_the_other(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    script = 'case "$LD_PRELOAD" in *libhakmem*) exit 9;; esac'
    done = hakmem(
        "compare", "--peers", "glibc", "--runs", "1", "--json", target, "--", "sh", "-c", script
    )
    assert done.returncode == 1
    assert "under hakmem: 'sh' ended with status 9" in done.stdout
    content = json.loads(target.read_text())
    assert {row["allocator"] for row in content["results"]} == {"glibc"}
    assert content["failed"][0]["allocator"] == "hakmem"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["compare", "--", "no-such-program"], 2, "no program 'no-such-program'"),
        (["run", "--", "no-such-program"], 2, "no program 'no-such-program'"),
        (["compare", "--peers", "nomalloc", "--", "true"], 1, "no peer 'nomalloc'"),
        (["compare", "--peers", "glibc", "--base", "x", "--", "true"], 1, "the base 'x'"),
        (["compare", "--runs", "0", "--", "true"], 2, "--runs"),
        (["compare"], 2, "Missing argument"),
        (["bench", "--suite", "macro"], 1, "no suite 'macro'"),
        (["bench", "--only", "pair_17"], 1, "no benchmark pair_17"),
        (["run", "--profile", "fast", "--", "true"], 1, "no profile 'fast'"),
        (["results", "table", "--page", "/no/such/page.md"], 1, "cannot read"),
        (["nonsense"], 2, "No such command"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(words: list[str], status: int, says: str) -> None:
    done = hakmem(*words)
    assert done.returncode == status
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    done = hakmem("run", "true", variables={"HAKMEM_LIBRARY": str(tmp_path / "none.so")})
    assert done.returncode == 2
    assert "the library is not there" in done.stderr
