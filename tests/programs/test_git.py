"""git on a repository of 600 commits: clone through a pack, threads of index-pack and gc, log."""

from collections.abc import Iterator

import pytest

from harness import Side, Sides, assert_same, assert_same_text, run

IDENTITY = "A U Thor <author@example.com>"


def history() -> Iterator[str]:
    """A stream for git fast-import: 60 files that keep changing, and a merge now and then."""

    def data(text: str) -> str:
        return f"data {len(text.encode())}\n{text}\n"

    def content(file: int, turn: int) -> str:
        rows = (
            f"row {i} of file {file}: {i * i * (turn // (1 + i % 9)) % 99991}" for i in range(120)
        )
        return "\n".join(rows) + "\n"

    for turn in range(1, 601):
        branch = "topic" if turn % 10 == 9 else "main"
        yield f"commit refs/heads/{branch}\nmark :{turn}\n"
        yield f"author {IDENTITY} {1_600_000_000 + turn * 60} +0000\n"
        yield f"committer {IDENTITY} {1_600_000_000 + turn * 60} +0000\n"
        yield data(f"Change number {turn}\n\nBecause file {turn % 60} wanted it.\n")
        if branch == "topic":
            yield f"from :{turn - 1}\n"
        elif turn % 10 == 0:
            yield f"from :{turn - 2}\nmerge :{turn - 1}\n"
        elif turn > 1:
            yield f"from :{turn - 1}\n"
        for file in {turn % 60, turn * 7 % 60, turn * 13 % 60}:
            yield f"M 100644 inline folder{file % 5}/file{file}.txt\n"
            yield data(content(file, turn))
    yield "reset refs/heads/main\nfrom :600\n"


CONFIGURATION = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
}  # fmt: skip


def git(sides: Sides, *words: str) -> str:
    return assert_same(sides, "/usr/bin/git", *words, environment=CONFIGURATION)


@pytest.fixture
def repository(sides: Sides) -> Sides:
    stream = "".join(history())

    def create(side: Side) -> None:
        run(side, "/usr/bin/git", "init", "-q", "-b", "main", "origin", environment=CONFIGURATION)
        fast_import = ("/usr/bin/git", "-C", "origin", "fast-import", "--quiet")
        run(side, *fast_import, stdin=stream, environment=CONFIGURATION)
        run(side, "/usr/bin/git", "-C", "origin", "checkout", "-qf", "main")

    sides.at_once(create)
    return sides


def test_clone_gc_log(repository: Sides) -> None:
    sides = repository
    # --no-local sends a pack through upload-pack and index-pack instead of linking files.
    git(sides, "clone", "-q", "--no-local", "origin", "copy")
    git(sides, "-C", "copy", "gc", "-q", "--aggressive", "--prune=now")
    git(sides, "-C", "copy", "fsck", "--full", "--strict", "--no-progress")
    log = git(sides, "-C", "copy", "log", "-p", "--stat", "--graph", "main")
    assert log.count("Change number") == 600
    git(sides, "-C", "copy", "log", "--follow", "-M", "--format=%H %s", "folder1/file1.txt")
    git(sides, "-C", "copy", "blame", "folder2/file7.txt")
    git(sides, "-C", "copy", "grep", "-n", "-e", "row 1. of", "main~50")
    git(sides, "-C", "copy", "shortlog", "-se", "main")
    objects = ("--batch-check", "--batch-all-objects")
    assert git(sides, "-C", "copy", "cat-file", *objects).count("\n") > 2000


def test_rewriting_history(repository: Sides) -> None:
    sides = repository
    git(sides, "-C", "origin", "checkout", "-q", "-b", "rebased", "main~30")
    write = (
        "for i in 1 2 3 4 5 6 7 8; do seq $i 3000 > new$i; git add new$i; git commit -qm $i; done"
    )
    assert_same(sides, "/bin/bash", "-c", f"cd origin && {write}", environment=CONFIGURATION)
    git(sides, "-C", "origin", "rebase", "-q", "--onto", "main~60", "main~30", "rebased")
    git(sides, "-C", "origin", "merge", "-q", "-s", "ours", "main", "-m", "merged")
    git(sides, "-C", "origin", "diff", "--stat", "main", "rebased")
    git(sides, "-C", "origin", "rev-list", "--objects", "--all")


def test_pack_is_the_same_byte_for_byte(repository: Sides) -> None:
    """With one thread the deltas that git picks are determined by the objects alone."""
    repack = ("-c", "pack.threads=1", "-C", "origin", "repack", "-adfq")
    packs = []
    for side in repository:
        run(side, "/usr/bin/git", *repack)
        pack = next(side.work.glob("origin/.git/objects/pack/*.pack"))
        packs.append(run(side, "/usr/bin/sha256sum", str(pack.relative_to(side.work))).stdout)
    assert_same_text(repository, packs)
