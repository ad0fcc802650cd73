"""hakmem ab as a user meets it, on a toy allocator, with effects that any machine shows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.ab import builds, layout
from support import LIBRARY, ROOT, hakmem
from toy import compile_library, compile_program, source

ATOMIC = "__atomic_fetch_add(&trimmed, 1, __ATOMIC_RELAXED);"
# Rounds of noise are not what these tests are about.
QUICK = ("--budget", "60", "--margin", "25%")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("toys")
    compile_program(place)
    compile_library(source(work=20), place / "same.so")
    compile_library(source(work=400), place / "slow.so")
    compile_library(source(work=20, trim=ATOMIC), place / "elsewhere.so")
    return place


def ab(folder: Path, a: str, b: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
    program = folder / "program"
    return hakmem("ab", folder / a, folder / b, *QUICK, *options, "--", program)


def test_slower_is_no_go(folder: Path, tmp_path: Path) -> None:
    files = ("--json", tmp_path / "result.json", "--chart", tmp_path / "chart.png")
    done = ab(folder, "same.so", "slow.so", *files)
    assert done.returncode == 1, done.stderr
    assert "NO-GO" in done.stdout
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "result.json").read_text())
    (trial,) = content["trials"]
    assert content["verdict"] == trial["verdict"] == "NO-GO"
    assert content["executed"] is True
    assert trial["pairs"] >= 10
    assert 1.25 < trial["interval"][0] <= trial["ratio"] <= trial["interval"][1]
    assert trial["control"]["verdict"] == "NEUTRAL"
    assert [each["function"] for each in content["change"]["functions"]] == ["malloc"]
    assert {row["allocator"] for row in content["results"]} == {"A", "A'", "B", "B'"}
    assert {"benchmark", "metric", "unit", "better", "samples", "median", "ci95"} <= set(
        content["results"][0]
    )


def test_faster_is_go(folder: Path) -> None:
    done = ab(folder, "slow.so", "same.so")
    assert done.returncode == 0, done.stderr
    assert "GO: B is faster" in done.stdout
    assert "NO-GO" not in done.stdout


def test_the_same_is_neutral(folder: Path) -> None:
    done = ab(folder, "same.so", "same.so")
    assert done.returncode == 0, done.stdout
    assert "the same, byte for byte" in done.stdout
    assert "NEUTRAL" in done.stdout


def test_a_change_that_is_not_executed_is_not_timed(folder: Path, tmp_path: Path) -> None:
    done = ab(folder, "same.so", "elsewhere.so", "--json", tmp_path / "result.json")
    assert done.returncode == 2
    assert "the change was not executed" in done.stdout
    assert "malloc_trim" in done.stdout
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["executed"] is False
    assert content["verdict"] == "UNKNOWN"
    assert content["results"] == []


def test_noise_that_wins_is_unknown(folder: Path) -> None:
    """A margin that no machine can tell in a second."""
    done = hakmem(
        "ab", folder / "same.so", folder / "same.so", "--budget", "1", "--margin", "0.0001%",
        "--", folder / "program",
    )  # fmt: skip
    assert done.returncode == 2
    assert "UNKNOWN" in done.stdout
    assert "--budget" in done.stdout


def test_instructions_are_counted_exactly(folder: Path, tmp_path: Path) -> None:
    """20 more turns of a loop of at least four instructions, for 100,000 calls and a few."""
    result = tmp_path / "result.json"
    compile_library(source(work=40), folder / "longer.so")
    done = ab(folder, "same.so", "longer.so", "--instructions", "--json", result)
    assert done.returncode in (0, 1), done.stderr
    counts = json.loads(result.read_text())["trials"][0]["instructions"]
    more = (counts["b"] - counts["a"]) / 100_000 / 20
    assert more == pytest.approx(round(more), rel=0.01)
    assert more >= 3


def test_built_in_benchmarks_by_name(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = hakmem(
        "ab", LIBRARY, LIBRARY, *QUICK, "--instructions", "--json", result, "--", "pair_64"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = json.loads(result.read_text())["trials"]
    assert (trial["benchmark"], trial["metric"]) == ("pair_64", "cpu_ns_per_op")
    assert trial["instructions"]["a"] == pytest.approx(trial["instructions"]["b"], abs=0.01)
    assert 30 < trial["instructions"]["a"] < 60


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ab", "no-such-revision", LIBRARY], "no file, no folder, and no revision"),
        (["ab", LIBRARY, ROOT / "docs"], "neither a build folder"),
        (["ab", LIBRARY, LIBRARY, "--margin", "much"], "--margin takes a share"),
        (["ab", LIBRARY, LIBRARY, "--metric", "luck"], "--metric is one of"),
        (["ab", LIBRARY, LIBRARY, "--", "no-such-program"], "no program 'no-such-program'"),
        (["ab", LIBRARY, LIBRARY, "--", "false"], "false"),
    ],
)
def test_what_cannot_be_asked_ends_in_two(words: list[str], says: str) -> None:
    """1 would say that B is slower."""
    done = hakmem(*words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_layouts_differ_and_the_code_does_not(tmp_path: Path) -> None:
    """Functions in another order, and each still what it was."""
    import random

    from hakmem_lab.ab.code import Library
    from hakmem_lab.ab.difference import differences

    link = layout.read_link(LIBRARY)
    places = set()
    for number in range(3):
        shuffled = tmp_path / str(number) / "libhakmem.so"
        shuffled.parent.mkdir()
        layout.shuffle(link, shuffled, random.Random(number))
        code = Library(shuffled)
        assert differences(Library(LIBRARY), code) == []
        places.add(code.functions["malloc"].begin)
    assert len(places) > 1


def test_a_revision_is_built_once_in_a_place_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git = ["git", "-C", str(repository), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (repository / "toy.c").write_text(source())
    subprocess.run([*git, "add", "toy.c"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "First"], check=True)
    (repository / "toy.c").write_text("not committed, and not C")
    monkeypatch.setattr(builds, "_cache", lambda: tmp_path / "cache")
    counted = "echo built >> $COUNTER && gcc -O2 -fno-builtin -shared -fPIC toy.c -o toy.so"
    monkeypatch.setenv("COUNTER", str(tmp_path / "counter"))
    recipe = builds.Recipe(repository, counted, "toy.so")
    first, again = builds.find("HEAD", recipe), builds.find("master@{0}", recipe)
    assert first.library == again.library
    assert first.library.is_file()
    assert (tmp_path / "counter").read_text() == "built\n"
    listed = subprocess.run([*git, "worktree", "list"], check=True, capture_output=True, text=True)
    assert listed.stdout.count("\n") == 1
    with pytest.raises(builds.BuildError, match=r"does not build.*build\.log"):
        builds.find("HEAD", builds.Recipe(repository, "echo no; false", "toy.so"))


def test_one_library_in_two_ways(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = hakmem("ab", LIBRARY, LIBRARY, "--set-b", "hardened=2", *QUICK, "--instructions",
                  "--counts", "2", "--json", target, "--", folder / "program")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "the same, byte for byte" in done.stdout and "hardened=2" in done.stdout
    content = json.loads(target.read_text())
    assert (content["a"]["options"], content["b"]["options"]) == ("", "hardened=2")
    (trial,) = content["trials"]
    assert trial["verdict"] == "NO-GO"
    counted = trial["instructions"]
    assert [len(each) for each in counted["samples"]] == [2, 2]
    assert counted["b"] > 3 * counted["a"]
    refused = hakmem("ab", LIBRARY, LIBRARY, "--set-a", "hardened", "--", "pair_64")
    assert refused.returncode == 2 and "not 'hardened'" in refused.stderr


def test_programs_of_the_suite_by_name(tmp_path: Path) -> None:
    """However few rounds a busy machine lets it have."""
    target = tmp_path / "result.json"
    done = hakmem("ab", LIBRARY, LIBRARY, "--budget", "20", "--margin", "50%",
                  "--json", target, "--", "sqlite_file")  # fmt: skip
    assert done.returncode in (0, 2), done.stderr
    (trial,) = json.loads(target.read_text())["trials"]
    assert (trial["benchmark"], trial["metric"]) == ("sqlite_file", "cpu_s")
    assert trial["verdict"] == {0: "NEUTRAL", 2: "UNKNOWN"}[done.returncode]
    assert trial["pairs"] > 0


def test_what_cannot_be_counted_is_timed_all_the_same(tmp_path: Path) -> None:
    target, script = tmp_path / "result.json", tmp_path / "shy.sh"
    script.write_text(
        "while read -r line; do [[ $line != */valgrind/* ]] || exit 1; done < /proc/self/maps\n"
    )
    done = hakmem("ab", LIBRARY, LIBRARY, *QUICK, "--instructions", "--json", target, "--",
                  "bash", script)  # fmt: skip
    assert "not counted" in done.stdout and "failed under callgrind" in done.stdout, done.stderr
    (trial,) = json.loads(target.read_text())["trials"]
    assert trial["pairs"] > 0
    assert "failed under callgrind" in trial["instructions"]["failure"]
