#!/usr/bin/env python3
"""Is a planted bug found as often as the rate of guard sampling predicts, where only the blocks that
leave refills are sampled, in a sqlite3 under load?

    tests/programs/guard_rate.py                          100 runs of each bug, with build/release
    tests/programs/guard_rate.py --runs 20 --work pairs     fewer, of one kind

Each run is a process of its own, busy for a second or so: it makes tables, sorts, joins, updates and
deletes; meanwhile a planted function takes and gives back blocks of a size that nothing else in it
has, many in use at a time (bursts) or one (pairs), and touches each as it must not. Runs without the
bug, of the same work and sampled in the same way, are done in turns with them: their statistics say
how many blocks of that size counted: those that left slabs, and those of bins that were parked. Of so many, with visible = 1 (after free) or 1/2 (behind:
the inaccessible page may be before the block), none is found with a chance of (1 - visible / rate) **
blocks. Found runs are compared with that, within three standard deviations.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HAKMEM_BUILD", ROOT / "build/release")).resolve()
LIBRARY = Path(os.environ.get("HAKMEM_LIBRARY", BUILD / "libhakmem.so")).resolve()
RUNS_PER_CONTROL = 5

BUGS = {"after-free": ("use after free", 1.0), "behind": ("heap overflow", 0.5)}
# Bytes of a block, blocks in use at a time, one in so many rows of the load; the rate. Of this size
# sqlite3 takes a handful itself.
WORKS = {"bursts": (1920, 50, 4000, 5000), "pairs": (1920, 1, 1, 1001)}
SLOTS = 4096  # so that no find is missed because other blocks hold the slots

LOAD = """
create table t(id integer primary key, k integer, note text);
create index by_k on t(k);
{steps}
"""
# Each step leaves the table another size, so that levels of bins move.
STEP = """
with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
insert into t(k, note) select (i * 7919) % 1009, hex(randomblob(i % 90)) from n;
select count(*), sum(length(upper(note)))
  from t where id % {every} != 0 or planted('{bug}', {bytes}, {blocks}) = 1 order by note;
update t set note = note || k where k % 7 = {seed};
select count(*) from (select k, group_concat(note) as g from t group by k having length(g) > 9);
delete from t where k % 3 = {seed} % 3;
"""


def query(bug: str, work: str, steps: int) -> str:
    size, blocks, every, _ = WORKS[work]
    texts = [
        STEP.format(rows=900 + 350 * (i % 5), seed=i % 7, bug=bug, bytes=size, blocks=blocks, every=every)
        for i in range(steps)
    ]  # fmt: skip
    return LOAD.format(steps="".join(texts))


def one_run(text: str, rate: int, folder: Path) -> tuple[int, str, dict[str, object]]:
    """A process's exit code, what it said, and its statistics, if it came to its end."""
    file = folder / "statistics.json"
    file.unlink(missing_ok=True)
    options = f"guard_rate={rate},guard_slots={SLOTS},stats=exit:json,stats_file={file}"
    environment = {"LD_PRELOAD": str(LIBRARY), "HAKMEM_OPTIONS": options}
    planted = BUILD / "tests" / "programs" / "libplanted.so"
    done = subprocess.run(
        ["/usr/bin/sqlite3", "-bail", ":memory:"],
        input=f".load {planted}\n{text}", env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    statistics = json.loads(file.read_text()) if file.exists() else {}
    return done.returncode, done.stderr, statistics


def blocks_of(statistics: dict[str, object], size: int) -> int:
    """Those that counted, of one size; 0: of all."""
    classes = statistics["classes"]
    assert isinstance(classes, list)
    return sum(each["taken"] + each["unparked"] for each in classes if size in (0, each["size"]))


def guarded_of(statistics: dict[str, object]) -> int:
    guarded = statistics["guarded"]
    assert isinstance(guarded, dict)
    return int(guarded["taken"])


@dataclass
class Experiment:
    """Runs of one bug in one work, and what was found."""

    bug: str
    work: str
    rate: int
    runs: int = 0
    found: int = 0
    blocks: list[int] = field(default_factory=list)  # of the planted size, in runs without bug
    all_blocks: int = 0  # of all sizes in these,
    all_guarded: int = 0  # and of them guarded

    def chances(self) -> list[float]:
        visible = BUGS[self.bug][1]
        return [1 - (1 - visible / self.rate) ** blocks for blocks in self.blocks]

    def predicted(self) -> float:
        return self.runs * sum(self.chances()) / len(self.blocks)

    def deviation(self) -> float:
        """Of the runs, and of what is known of their chance."""
        chances = self.chances()
        mean = sum(chances) / len(chances)
        spread = sum((chance - mean) ** 2 for chance in chances) / max(len(chances) - 1, 1)
        return math.sqrt(self.runs * mean * (1 - mean) + self.runs**2 * spread / len(chances))

    def off(self) -> float:
        """By how many standard deviations more, or less, was found."""
        return (self.found - self.predicted()) / self.deviation()

    def guarded_off(self) -> float:
        """The same of the guarded blocks of all sizes in runs without bug."""
        expected = self.all_blocks / self.rate
        return (self.all_guarded - expected) / math.sqrt(expected)

    def __str__(self) -> str:
        return (
            f"{self.work}, {self.bug}, guard_rate={self.rate}: found in {self.found} of {self.runs} runs, "
            f"predicted {self.predicted():.1f} +- {self.deviation():.1f} ({self.off():+.1f} deviations); "
            f"{sum(self.blocks) / len(self.blocks):.0f} blocks a run counted; of all sizes "
            f"{self.all_guarded} of {self.all_blocks} guarded, predicted "
            f"{self.all_blocks / self.rate:.1f} ({self.guarded_off():+.1f})"
        )


def control(experiment: Experiment, steps: int, folder: Path) -> None:
    code, said, statistics = one_run(query("none", experiment.work, steps), experiment.rate, folder)
    assert code == 0, said
    assert not said, said
    experiment.blocks.append(blocks_of(statistics, WORKS[experiment.work][0]))
    experiment.all_blocks += blocks_of(statistics, 0)
    experiment.all_guarded += guarded_of(statistics)


def attempt(experiment: Experiment, steps: int, folder: Path) -> None:
    code, said, _ = one_run(query(experiment.bug, experiment.work, steps), experiment.rate, folder)
    experiment.runs += 1
    if code == 0:
        assert not said, said
        return
    assert code == -signal.SIGABRT, (code, said)
    assert re.match(rf"hakmem: {BUGS[experiment.bug][0]}: read at 0x", said), said
    assert "libplanted.so+0x" in said.split("allocated by")[0], said
    experiment.found += 1


def experiment_of(bug: str, work: str, rate: int, runs: int, steps: int) -> Experiment:
    experiment = Experiment(bug, work, rate)
    with tempfile.TemporaryDirectory() as name:
        for index in range(runs):
            if index % RUNS_PER_CONTROL == 0:
                control(experiment, steps, Path(name))
            attempt(experiment, steps, Path(name))
    return experiment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=100, help="of each bug; 100")
    parser.add_argument("--rate", type=int, help="guard_rate; 5000 for bursts, 1001 for pairs")
    parser.add_argument("--steps", type=int, default=120, help="of the load; 120, about a second")
    parser.add_argument("--work", choices=WORKS, action="append", help="only this one")
    arguments = parser.parse_args()
    is_off = False
    for work in arguments.work or WORKS:
        for bug in BUGS:
            rate = arguments.rate or WORKS[work][3]
            experiment = experiment_of(bug, work, rate, arguments.runs, arguments.steps)
            print(experiment, flush=True)
            is_off |= abs(experiment.off()) > 3
    return 1 if is_off else 0


if __name__ == "__main__":
    sys.exit(main())
