"""git bisect, with a trial as its judge.

First GOOD against BAD: unless BAD is slower, there is nothing to find. That also says by how much,
and every commit is then asked one question: is it nearer to GOOD or to BAD? The line between them
is half of the difference. A commit that merely moved code about (see layout.py) does not reach it;
of several slow-downs, the one that crosses it is found.

    the commit does not build                          git bisect skip
    its code is that of GOOD, or none of what is
    different is executed                              good, and nothing needs to be timed
    its code is that of BAD                            bad, likewise
    the interval lies on one side of the line          good or bad
    it does not                                        asked again with twice the time; then skip

Everything happens in a worktree of its own; the user's is not touched. git bisect itself keeps the
account, so its log can be replayed.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from hakmem_lab.ab import builds, reach, trial
from hakmem_lab.ab.verdict import Look, Plan, Verdict, by_interval, interval
from hakmem_lab.ab.workload import Workload
from hakmem_lab.errors import LabError
from hakmem_lab.stats import Estimate

GOOD, BAD, SKIP = "good", "bad", "skip"
_FOUND = re.compile(r"^([0-9a-f]{40}) is the first bad commit", re.MULTILINE)
_UNTOLD = "only 'skip'ped commits left"


class NothingToFind(LabError):
    exit_status = 2


@dataclass(frozen=True)
class Hunt:
    """What is asked."""

    good: builds.Side  # both of a commit, whose full name is the word
    bad: builds.Side
    recipe: builds.Recipe
    workload: Workload
    plan: Plan
    seconds: float  # of one trial
    repeats: int
    seed: int


@dataclass(frozen=True)
class Step:
    """One commit's turn."""

    commit: str
    subject: str
    answer: str  # GOOD, BAD, SKIP
    reason: str
    ratio: Estimate | None = None  # over GOOD
    pairs: int = 0


@dataclass
class Find:
    """What came out."""

    difference: Look  # BAD over GOOD
    steps: list[Step] = field(default_factory=list)
    culprit: str | None = None
    suspects: tuple[str, ...] = ()  # where the culprit is one of several that could not be told
    log: str = ""

    @property
    def line(self) -> float:
        """Ratios to GOOD above it are bad."""
        return 1 + (self.difference.effect.value - 1) / 2

    def side_of_line(self, look: Look) -> str | None:
        """GOOD, BAD, or not to be told (yet)."""
        if by_interval(look.control, (self.line - 1) / 2) is not Verdict.NEUTRAL:
            return None  # the machine's own differences are as large as what is looked for
        if look.effect.high < self.line:
            return GOOD
        return BAD if look.effect.low > self.line else None


def run(hunt: Hunt, console: Console, tell: Callable[[Step], None]) -> Find:
    find = Find(_difference(hunt, console))
    with tempfile.TemporaryDirectory(prefix="hakmem-bisect-") as name:
        repository, tree = hunt.recipe.repository, Path(name) / "tree"
        with builds.worktree(repository, hunt.bad.word, tree, checkout=False):
            # The worktree is for git's account only: commits are built in places of their own.
            ends = (hunt.bad.word, hunt.good.word)
            said = builds.git(tree, "bisect", "start", "--no-checkout", *ends)
            while not _is_over(said, find):
                step = _ask(builds.commit_of("BISECT_HEAD", tree), hunt, find, console)
                find.steps.append(step)
                tell(step)
                # It ends in 2 when only skipped commits are left, which is an answer too.
                said = builds.git(tree, "bisect", step.answer, accepted=(0, 2))
            find.log = builds.git(tree, "bisect", "log")
    return find


def _is_over(said: str, find: Find) -> bool:
    if found := _FOUND.search(said):
        find.culprit = found[1]
    elif _UNTOLD in said:
        find.suspects = tuple(re.findall(r"^[0-9a-f]{40}$", said, re.MULTILINE))
    return bool(find.culprit or find.suspects)


def _difference(hunt: Hunt, console: Console) -> Look:
    change = reach.compare(hunt.good.library, hunt.bad.library)
    if change.identical:
        raise NothingToFind("GOOD and BAD are the same library, byte for byte")
    if not _may_be_executed(change, hunt.bad.library, hunt):
        raise NothingToFind(
            f"{hunt.workload.name} executes nothing of what differs between GOOD and BAD"
        )
    limits = trial.Limits(hunt.plan, hunt.seconds)
    record = _trial(hunt, hunt.bad.library, limits, console)
    if record.failure is not None:
        raise NothingToFind(f"the benchmark fails: {record.failure}")
    if record.look is None or record.verdict is not Verdict.NO_GO:
        figures = f" ({interval(record.look.effect)})" if record.look else ""
        raise NothingToFind(
            f"BAD against GOOD is {record.verdict} in {hunt.workload.name}{figures}, so there is "
            "nothing to find; a larger --budget or --margin may tell more"
        )
    return record.look


def _trial(hunt: Hunt, library: Path, limits: trial.Limits, console: Console) -> trial.Record:
    """GOOD against a library."""
    generator = random.Random(hunt.seed)
    with tempfile.TemporaryDirectory(prefix="hakmem-ab-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the program may change its user
        programs = trial.Programs(folder, (hunt.good.library, library), None, generator)
        return trial.run([hunt.workload], programs, limits, generator, console)[0]


def _ask(commit: str, hunt: Hunt, find: Find, console: Console) -> Step:
    subject = builds.subject_of(commit, hunt.recipe.repository)
    try:
        with console.status(f"building {escape(subject)}"):
            library = builds.of_commit(commit, commit, hunt.recipe).library
    except builds.BuildError as error:
        return Step(commit, subject, SKIP, str(error))
    known = _known(library, hunt)
    if known is not None:
        return Step(commit, subject, *known)
    return _measured(commit, subject, library, hunt, find, console)


def _known(library: Path, hunt: Hunt) -> tuple[str, str] | None:
    """What can be told without timing anything."""
    if reach.compare(hunt.bad.library, library).identical:
        return BAD, "the same library as BAD"
    from_good = reach.compare(hunt.good.library, library)
    if from_good.identical:
        return GOOD, "the same library as GOOD"
    if _may_be_executed(from_good, library, hunt):
        return None
    return GOOD, "the benchmark executes nothing of what is not as in GOOD"


def _may_be_executed(change: reach.Change, library: Path, hunt: Hunt) -> bool:
    """Whether the benchmark executes any of the code in which a library differs from GOOD."""
    if not change.can_be_checked or not change.complete:
        return True
    reached = reach.run(change, hunt.good.library, library, hunt.workload.command)
    return any(each.executed for each in reached)


def _measured(
    commit: str, subject: str, library: Path, hunt: Hunt, find: Find, console: Console
) -> Step:
    """Until the interval lies on one side of the line, with more time each time."""
    ratio, pairs = None, 0
    for repeat in range(1 + hunt.repeats):
        limits = trial.Limits(
            hunt.plan, hunt.seconds * 2**repeat, lambda look: find.side_of_line(look) is not None
        )
        record = _trial(hunt, library, limits, console)
        if record.failure is not None:
            return Step(commit, subject, SKIP, f"the benchmark fails: {record.failure}")
        if record.look is None:
            continue
        ratio, pairs = record.look.effect, 2 * record.look.rounds
        if answer := find.side_of_line(record.look):
            return Step(commit, subject, answer, f"nearer to {answer.upper()}", ratio, pairs)
    return Step(commit, subject, SKIP, "noise wins: on both sides of the line", ratio, pairs)
