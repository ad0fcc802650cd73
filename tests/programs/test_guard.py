"""Guard sampling in real programs: with every block guarded they do what they always do, and a
planted bug is found as often as the rate predicts."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import guard_rate
from harness import Side, Sides, run

BUILD = Path(os.environ.get("HAKMEM_BUILD", "build/release")).resolve()
PLANTED = BUILD / "tests" / "programs" / "libplanted.so"


def options(side: Side, more: str) -> dict[str, str]:
    if side.library is None:
        return {}
    return {"HAKMEM_OPTIONS": f"stats=exit:json,stats_file={side.statistics}/%p.json,{more}"}


PROGRAMS: dict[str, list[str]] = {
    "python": ["/usr/bin/python3", "-c", "import json, re, decimal; print(len(json.dumps(list(range(9999)))))"],
    "python-threads": [
        "/usr/bin/python3", "-c",
        "from concurrent.futures import ThreadPoolExecutor as T\n"
        "with T(8) as pool: print(sum(pool.map(lambda n: len(str(2 ** n)), range(400))))",
    ],
    "sqlite": ["/usr/bin/sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i + 1 from n"
               " where i < 3000) select count(*), sum(length(hex(i))) from n order by hex(i)"],
    "git": ["/usr/bin/git", "--version"],
    "perl": ["/usr/bin/perl", "-e", "my %h = map { $_ => $_ x 9 } 1 .. 3000; print scalar(keys %h), qq(\\n)"],
    "gcc": ["/bin/bash", "-c", "echo 'int main(void) { return 0; }' | gcc -x c -O2 - -o out && ./out && echo built"],
    "node": ["/usr/bin/node", "-e", "console.log([...Array(9999).keys()].map(String).join().length)"],
}  # fmt: skip


@pytest.mark.parametrize("guards", ["guard_rate=1", "guard_rate=1001,guard_slots=8"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_with_guarded_blocks(sides: Sides, program: str, guards: str) -> None:
    if not Path(PROGRAMS[program][0]).exists():
        pytest.skip(f"{PROGRAMS[program][0]} is not here")
    outputs = [
        run(side, *PROGRAMS[program], environment=options(side, guards)).stdout for side in sides
    ]
    assert outputs[0] == outputs[1]


# Of the rows in the query, one in four touches a block as it must not.
RATE, ROWS, SHARE, RUNS = 1000, 2000, 4, 100
QUERY = f"""
create table t(id integer primary key, note text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
insert into t select i, hex(i * 7919) || ' ' || hex(i * 104729) from n;
select count(*), sum(length(upper(note)))
  from t where id %% {SHARE} != 0 or planted(%s) = 1 order by note;
"""


def assert_as_predicted(sample: Callable[[], float]) -> None:
    """sample: an experiment, and by how many standard deviations its outcome is off.

    Three is what is asked for, and one in 370 correct outcomes is beyond: then a second experiment
    must not be. Beyond four no second one is asked. In all, of 10,000 correct outcomes one fails.
    """
    off = sample()
    assert abs(off) < 4
    if abs(off) >= 3:
        assert abs(sample()) < 3


def found_runs(side: Side, call: str, kind: str) -> int:
    found = 0
    for _ in range(RUNS):
        result = run(
            side, "/usr/bin/sqlite3", ":memory:", f".load {PLANTED}", QUERY % call,
            environment=options(side, f"guard_rate={RATE}"), succeeds=False, is_served=False,
        )  # fmt: skip
        if result.returncode == 0:
            assert "hakmem" not in result.stderr
            continue
        assert result.returncode == -signal.SIGABRT, result
        assert re.match(rf"hakmem: {kind}: read at 0x", result.stderr), result
        assert "libplanted.so+0x" in result.stderr.split("allocated by")[0], result
        found += 1
    return found


# Half of the guarded blocks have their inaccessible page behind them, the others before. Between it
# and a block of 100 bytes lie 12 more, for blocks begin at multiples of 16.
@pytest.mark.parametrize(
    ("bug", "size", "kind", "visible"),
    [
        ("after-free", 48, "use after free", 1.0),
        ("behind", 48, "heap overflow", 0.5),
        ("behind", 100, "heap overflow", 0.0),
        ("beyond", 100, "heap overflow", 0.5),
    ],
)
def test_planted_bug_is_found_as_often_as_predicted(
    sides: Sides, bug: str, size: int, kind: str, visible: float
) -> None:
    """Each call of malloc is guarded with a chance of 1 in RATE, so a run without a find has a
    chance of (1 - visible / RATE) ** calls."""
    chance = 1 - (1 - visible / RATE) ** (ROWS // SHARE)
    deviation = math.sqrt(RUNS * chance * (1 - chance))

    def sample() -> float:
        found = found_runs(sides.hakmem, f"'{bug}', {size}", kind)
        print(f"{bug}: {found} of {RUNS} runs, predicted {RUNS * chance:.1f} +- {deviation:.1f}")
        if deviation == 0:
            return 0 if found == 0 else math.inf
        return (found - RUNS * chance) / deviation

    assert_as_predicted(sample)


# Fewer runs than guard_rate.py makes by itself, of which docs/decisions/0039 has the figures.
LOADED_RUNS, LOADED_STEPS = 15, 120


@pytest.mark.parametrize(
    ("work", "bug"), [("bursts", "after-free"), ("bursts", "behind"), ("pairs", "after-free")]
)
def test_what_leaves_refills_is_found_as_often_as_predicted(work: str, bug: str) -> None:
    """In a process that is busy for a second, at a rate at which not every call is seen."""

    def sample() -> float:
        rate = guard_rate.WORKS[work][3]
        experiment = guard_rate.experiment_of(bug, work, rate, LOADED_RUNS, LOADED_STEPS)
        print(experiment)
        assert abs(experiment.guarded_off()) < 5
        assert experiment.predicted() > 1
        return experiment.off()

    assert_as_predicted(sample)
