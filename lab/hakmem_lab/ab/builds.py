"""The two sides of a comparison: libraries, build folders, source trees or revisions.

    path/to/libhakmem.so      that library
    build/release             the library in that build folder
    .                         a source tree as it lies there, built in place
    HEAD~3, v0.1.0, 1a2b3c4   a commit, built in a worktree of its own; what is changed and not
                              committed does not count

A commit is built once: the library and the log of its build are kept under build/ab of the checkout
(`make clean` forgets them), by commit and by how it was built. How that is, a recipe says: HAKMEM's
own by default, anything else for another project.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab import paths
from hakmem_lab.errors import LabError, MissingError


class BuildError(LabError):
    """A tree does not build."""

    exit_status = 2


@dataclass(frozen=True)
class Recipe:
    """How a tree is built, and where the library then is."""

    repository: Path
    command: str = "tools/build release --target hakmem_shared"
    library: str = "build/release/libhakmem.so"
    variables: Mapping[str, str] = field(default_factory=dict)

    def key(self, commit: str) -> str:
        text = "\0".join((self.command, self.library, repr(sorted(self.variables.items()))))
        return f"{commit[:16]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Side:
    """One of the two libraries."""

    word: str  # as it was typed
    library: Path
    origin: str  # what it is, for people
    commit: str | None = None
    build_folder: Path | None = None  # with the objects that the library was linked from
    options: str = ""  # what it is told in HAKMEM_OPTIONS

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.library.read_bytes()).hexdigest()


def find(word: str, recipe: Recipe) -> Side:
    """What a word of the command line means. A file or folder of that name goes before a commit."""
    path = Path(word)
    if path.is_file():
        return Side(word, path.resolve(), "a library")
    if path.is_dir():
        return _of_folder(word, path.resolve(), recipe)
    return of_commit(word, commit_of(word, recipe.repository), recipe)


def _of_folder(word: str, folder: Path, recipe: Recipe) -> Side:
    built = folder / Path(recipe.library).name
    if built.is_file():
        return Side(word, built, "a build folder", build_folder=folder)
    if not (folder / ".git").exists():
        raise MissingError(f"{word} is neither a build folder with {built.name} nor a source tree")
    library = _build(folder, recipe, _cache() / f"tree-{recipe.key('built in place')}.log")
    return Side(word, library, "a source tree as it is", build_folder=library.parent)


def of_commit(word: str, commit: str, recipe: Recipe) -> Side:
    """The library of a commit, from the cache or built now."""
    place = _cache() / recipe.key(commit)
    library = place / Path(recipe.library).name
    with _locked(place):
        if not library.is_file():
            with worktree(recipe.repository, commit, place / "tree") as tree:
                built = _build(tree, recipe, place / "build.log")
                unfinished = library.with_suffix(".part")
                shutil.copy2(built, unfinished)
                unfinished.rename(library)
    return Side(word, library, subject_of(commit, recipe.repository), commit)


def build_tree(commit: str, recipe: Recipe) -> Path:
    """A worktree of the commit, built and kept with its objects. Returns the library in it."""
    place = _cache() / f"{recipe.key(commit)}-objects"
    library = place / "tree" / recipe.library
    with _locked(place):
        if not library.is_file():
            _remove_worktree(recipe.repository, place / "tree")
            _add_worktree(recipe.repository, commit, place / "tree")
            _build(place / "tree", recipe, place / "build.log")
    return library


def _cache() -> Path:
    if paths.is_checkout():
        return paths.checkout() / "build/ab"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "hakmem/ab"


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Two commands that want the same commit: the second waits, and then finds it built."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(tree: Path, recipe: Recipe, log: Path) -> Path:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        done = subprocess.run(
            recipe.command,
            shell=True,
            cwd=tree,
            env={**os.environ, **recipe.variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    library = tree / recipe.library
    if done.returncode != 0:
        raise BuildError(
            f"{tree_name(tree)} does not build: '{recipe.command}' ended with status "
            f"{done.returncode}; its log is {log}"
        )
    if not library.is_file():
        raise BuildError(f"'{recipe.command}' made no {recipe.library} in {tree_name(tree)}")
    return library


def tree_name(tree: Path) -> str:
    done = subprocess.run(
        ["git", "-C", str(tree), "log", "-1", "--format=%h (%s)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout.strip() or tree}"


@contextmanager
def worktree(repository: Path, commit: str, place: Path, checkout: bool = True) -> Iterator[Path]:
    _remove_worktree(repository, place)  # what an earlier, interrupted build left
    _add_worktree(repository, commit, place, checkout)
    try:
        yield place
    finally:
        _remove_worktree(repository, place)


def _add_worktree(repository: Path, commit: str, place: Path, checkout: bool = True) -> None:
    how = ["--quiet", "--detach", "--force", *([] if checkout else ["--no-checkout"])]
    git(repository, "worktree", "add", *how, str(place), commit)


def _remove_worktree(repository: Path, place: Path) -> None:
    if place.exists():
        words = ["git", "-C", str(repository), "worktree", "remove", "--force", "--force"]
        subprocess.run([*words, str(place)], capture_output=True, check=False)
        shutil.rmtree(place, ignore_errors=True)
    git(repository, "worktree", "prune")


def git(repository: Path, *words: str, accepted: Sequence[int] = (0,)) -> str:
    """The output of a git command; its complaint as an error."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *words],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise MissingError("git is not here, and revisions need it") from None
    if done.returncode not in accepted:
        complaint = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise MissingError(f"git {words[0]}: {complaint[-1] if complaint else 'failed'}")
    return done.stdout.strip()


def commit_of(word: str, repository: Path) -> str:
    try:
        return git(repository, "rev-parse", "--verify", "--quiet", f"{word}^{{commit}}")
    except MissingError:
        raise MissingError(
            f"'{word}' is no file, no folder, and no revision of {repository}"
        ) from None


def date_of(commit: str, repository: Path) -> str:
    return git(repository, "log", "-1", "--format=%cs", commit)


def subject_of(commit: str, repository: Path) -> str:
    return git(repository, "log", "-1", "--format=%h %s", commit)
