"""hakmem bisect finds a planted slow-down among 20 commits of a toy allocator, two of which do not
compile."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support import hakmem
from toy import FLAGS, compile_program, source

COMMITS, SLOW = 20, 13
BROKEN = (10, 11)  # in the middle, where git bisect begins
BUILD = f"gcc {' '.join(FLAGS)} -shared -fPIC toy.c -o toy.so"


def version(number: int) -> str:
    """Each commit changes something; from one on, malloc does more."""
    text = source(work=400 if number >= SLOW else 20, trim=f"trimmed = {number};")
    return text + ("this does not compile\n" if number in BROKEN else "")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("repository")
    git = ["git", "-C", str(place), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for number in range(1, COMMITS + 1):
        (place / "toy.c").write_text(version(number))
        subprocess.run([*git, "add", "toy.c"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", f"Commit {number}"], check=True)
        subprocess.run([*git, "tag", f"c{number}"], check=True)
    return place


def bisect(
    repository: Path, program: Path, good: str, bad: str, *options: str | Path
) -> subprocess.CompletedProcess[str]:
    return hakmem(
        "bisect", good, bad, "--repository", repository, "--build", BUILD, "--library", "toy.so",
        "--runs", "5", "--budget", "20", "--margin", "25%", *options, "--", program,
    )  # fmt: skip


def test_the_commit_that_made_it_slower_is_found(repository: Path, tmp_path: Path) -> None:
    before = state(repository)
    program, result = compile_program(tmp_path), tmp_path / "result.json"
    done = bisect(repository, program, "c1", "c20", "--json", result)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Commit {SLOW} made" in done.stdout
    content = json.loads(result.read_text())
    assert content["culprit"] == commit(repository, f"c{SLOW}")
    answers = {each["subject"].partition(" ")[2]: each["answer"] for each in content["steps"]}
    assert answers[f"Commit {SLOW}"] == "bad"
    skipped = {name for name, answer in answers.items() if answer == "skip"}
    assert skipped
    assert skipped <= {f"Commit {number}" for number in BROKEN}
    assert len(content["steps"]) < 10
    assert "git bisect start" in content["log"]
    assert state(repository) == before


def test_nothing_to_find(repository: Path, tmp_path: Path) -> None:
    done = bisect(repository, compile_program(tmp_path), "c1", "c9")
    assert done.returncode == 2
    assert "executes nothing of what differs" in done.stderr


def test_a_culprit_among_skipped_commits_is_not_guessed(tmp_path: Path) -> None:
    place = tmp_path / "repository"
    place.mkdir()
    git = ["git", "-C", str(place), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for number, text in enumerate((source(), source() + "no C\n", source(work=400)), start=1):
        (place / "toy.c").write_text(text)
        subprocess.run([*git, "add", "toy.c"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", f"Commit {number}"], check=True)
    done = bisect(place, compile_program(tmp_path), "HEAD~2", "HEAD")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "cannot be told" in done.stdout
    assert commit(place, "HEAD")[:10] in done.stdout
    assert commit(place, "HEAD~1")[:10] in done.stdout


def commit(repository: Path, name: str) -> str:
    words = ["git", "-C", str(repository), "rev-parse", name]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def state(repository: Path) -> str:
    """What bisect must leave as it was: branch, files, worktrees."""
    words = ["git", "-C", str(repository)]
    return "".join(
        subprocess.run([*words, *more], check=True, capture_output=True, text=True).stdout
        for more in (["status", "--branch", "--short"], ["worktree", "list"], ["branch", "--all"])
    )
