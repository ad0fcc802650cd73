"""The command as a user meets it: what it runs, what it prints, what it ends in."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hakmem_lab import demo
from hakmem_lab.measure import run
from support import HAKMEM, LIBRARY, ROOT, SYSTEM, crashing_library, hakmem


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
    calls = {
        (row["benchmark"], row["allocator"]): row["median"]
        for row in content["results"]
        if row["metric"] == "syscalls_per_op"
    }
    assert set(calls) == rows and calls["pair_16", "hakmem"] == 0
    assert "random_mixed_256" in done.stdout


def test_bench_runs_profiles_side_by_side(tmp_path: Path) -> None:
    target, page = tmp_path / "result.json", tmp_path / "page.html"
    done = hakmem("bench", "--only", "pair_64", "--profiles", "speed,lean", "--set", "shards=1",
                  "--peers", "glibc", "--runs", "1", "--warmup", "0", "--count", "0",
                  "--json", target, "--html", page)  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(target.read_text())
    options = {row["name"]: row["options"] for row in content["allocators"]}
    assert options == {
        "hakmem": "shards=1",
        "hakmem (speed)": "profile=speed,shards=1",
        "hakmem (lean)": "profile=lean,shards=1",
        "glibc": "",
    }
    assert {row["allocator"] for row in content["results"]} == set(options)
    for text in (done.stdout, page.read_text()):
        assert "hakmem (speed)" in text and "hakmem (lean)" in text
    refused = hakmem("bench", "--only", "pair_64", "--profiles", "fast", "--peers", "glibc")
    assert refused.returncode == 1 and "no profile 'fast'" in refused.stderr


def test_bench_runs_other_options_side_by_side(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = hakmem("bench", "--only", "pair_64", "--variant", "hardened=1,zero_on_free=1",
                  "--variant", "guard_rate=0", "--set", "shards=1", "--peers", "glibc",
                  "--runs", "1", "--warmup", "0", "--count", "0", "--json", target)  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(target.read_text())
    assert {row["name"]: row["options"] for row in content["allocators"]} == {
        "hakmem": "shards=1",
        "hakmem (hardened=1,zero_on_free=1)": "shards=1,hardened=1,zero_on_free=1",
        "hakmem (guard_rate=0)": "shards=1,guard_rate=0",
        "glibc": "",
    }
    assert "hakmem (guard_rate=0)" in done.stdout
    refused = hakmem("bench", "--only", "pair_64", "--variant", "hardened", "--peers", "glibc")
    assert refused.returncode == 1 and "not 'hardened'" in refused.stderr


def test_the_stub_is_left_out_where_it_would_mislead(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = hakmem("bench", "--only", "calloc_large", "--peers", "glibc,stub", "--runs", "1",
                  "--warmup", "0", "--json", target)  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(target.read_text())
    assert {row["allocator"] for row in content["results"]} == {"hakmem", "glibc"}
    calls = [
        row["median"]
        for row in content["results"]
        if row["metric"] == "syscalls_per_op" and row["allocator"] == "glibc"
    ]
    assert calls and calls[0] > 0.1  # it maps each of these blocks anew


def test_locks_are_counted_of_hakmem_alone(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = hakmem("bench", "--suite", "threads", "--only", "larson", "--peers", "glibc",
                  "--runs", "1", "--warmup", "0", "--json", target)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(target.read_text())["results"]
    counted = {row["metric"]: row["median"] for row in rows if row["allocator"] == "hakmem"}
    # A refill or a flush is a slow call and takes a lock; few of the operations need one.
    assert 0 < counted["slow_calls_per_mop"] < 100_000
    assert counted["locks_per_mop"] > counted["slow_calls_per_mop"] / 2
    assert counted["contended_per_mop"] < counted["locks_per_mop"]
    assert "Contended locks per 1,000 slow calls" in " ".join(done.stdout.split())
    assert not any("contended" in row["metric"] for row in rows if row["allocator"] == "glibc")


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


def test_an_allocator_that_crashes_leaves_the_others_and_their_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = hakmem(
        "compare", "--peers", "glibc", "--runs", "2", "--html", page, "--", "true",
        variables={"HAKMEM_LIBRARY": str(crashing_library(tmp_path))},
    )  # fmt: skip
    assert done.returncode == 1
    assert "failed: true under hakmem: 'true' was ended by SIGABRT" in done.stdout
    assert "HAKMEM against" not in done.stdout
    assert "Failed: true under hakmem" in page.read_text()
    assert ">glibc<" in page.read_text()


def test_a_program_that_never_ends_under_one_allocator(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    script = 'case "$LD_PRELOAD" in *libhakmem*) exec sleep 1000;; esac'
    done = hakmem("compare", "--peers", "glibc", "--runs", "1", "--timeout", "0.7",
                  "--json", target, "--", "sh", "-c", script)  # fmt: skip
    assert done.returncode == 1
    assert "'sh' did not end within 0.7 seconds" in done.stdout
    assert {row["allocator"] for row in json.loads(target.read_text())["results"]} == {"glibc"}


def test_a_program_with_a_malloc_of_its_own_is_compared_with_glibcs(tmp_path: Path) -> None:
    own = tmp_path / "own.c"
    own.write_text(
        "#include <stddef.h>\n"
        "static char buffer[64 << 20]; static size_t used;\n"
        "void *malloc(size_t n) { used += (n + 31) & ~15ul; return buffer + used - n; }\n"
        "void *calloc(size_t n, size_t size) { return malloc(n * size); }\n"
        "void *realloc(void *p, size_t n) { (void)p; return malloc(n); }\n"
        "void free(void *p) { (void)p; }\n"
    )
    library = tmp_path / "libown.so"
    subprocess.run(["cc", "-fno-builtin", "-shared", "-fPIC", "-o", library, own], check=True)
    user = tmp_path / "user.c"
    user.write_text("#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n")
    program = tmp_path / "user"
    subprocess.run(
        ["cc", "-fno-builtin", "-o", program, user, "-Wl,--no-as-needed", library,
         f"-Wl,-rpath,{tmp_path}"], check=True)  # fmt: skip
    done = hakmem("compare", "--peers", "glibc", "--runs", "2", "--", program)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "the program brings a malloc of its own; glibc was preloaded" in done.stdout
    assert "HAKMEM against glibc" in done.stdout


def test_ctrl_c_shows_what_there_is(tmp_path: Path) -> None:
    target, note = tmp_path / "result.json", tmp_path / "runs"
    words = ["compare", "--peers", "glibc", "--runs", "1000", "--warmup", "0", "--json",
             str(target), "--", "sh", "-c", f"echo >> {note}; sleep 0.02"]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, ROOT / "lab", *words],
        env={**os.environ, "COLUMNS": "200"}, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not (note.exists() and note.stat().st_size > 20) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: not all runs were made" in stdout
    content = json.loads(target.read_text())
    assert content["interrupted"]
    assert 3 <= len(content["results"][0]["samples"]) < 1000


def test_a_file_that_cannot_be_written_is_said_before_the_first_run(tmp_path: Path) -> None:
    note = tmp_path / "ran"
    for option in ("--json", "--html"):
        done = hakmem("compare", "--peers", "glibc", option, "/proc/result", "--", "touch", note)
        assert done.returncode == 1
        assert "cannot write /proc/result" in done.stderr
        assert not note.exists()


def test_results_are_kept_when_their_file_cannot_be_written_in_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    script = f"rm -rf {folder}; touch {folder}"
    done = hakmem("compare", "--peers", "glibc", "--runs", "2", "--json", folder / "r.json",
                  "--", "sh", "-c", script, variables={"TMPDIR": str(tmp_path)})  # fmt: skip
    assert done.returncode == 1
    assert "HAKMEM against glibc" in done.stdout
    assert "cannot write" in done.stderr
    (kept,) = tmp_path.glob("hakmem-*/r.json")
    assert str(kept) in done.stderr.replace("\n", "")
    assert len(json.loads(kept.read_text())["results"]) > 4


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["compare", "--", "no-such-program"], 2, "no program 'no-such-program'"),
        (["run", "--", "no-such-program"], 2, "no program 'no-such-program'"),
        (["compare", "--peers", "nomalloc", "--", "true"], 1, "no peer 'nomalloc'"),
        (["compare", "--peers", "glibc", "--base", "x", "--", "true"], 1, "the base 'x'"),
        (["compare", "--runs", "0", "--", "true"], 2, "--runs"),
        (["compare"], 2, "what is to be run?"),
        (["compare", "--server", "true"], 1, "--client CMD"),
        (["compare", "--server", "true", "--client", "true", "--", "true"], 1, "either -- CMD"),
        (["compare", "--server", "no-such", "--client", "true"], 2, "no program 'no-such'"),
        (["compare", "--server", "a 'b", "--client", "true"], 1, "--server: No closing"),
        (["compare", "--server", "true", "--client", "true", "--ready", "x"], 1, "--ready takes"),
        (["results", "show", "/no/such/result.json"], 1, "cannot read"),
        (["results", "diff", "/no/such/a.json", "/no/such/b.json"], 1, "cannot read"),
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
