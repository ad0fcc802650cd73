"""Guard sampling in real programs: with every block guarded they do what they always do, and a
planted bug is found as often as the rate predicts."""

from __future__ import annotations

import math
import os
import re
import signal
from pathlib import Path

import pytest

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
  from t where id %% {SHARE} != 0 or planted('%s') = 1 order by note;
"""


# Half of the guarded blocks have their inaccessible page behind them, the others before. Between it
# and a block of 100 bytes lie 12 more, for blocks begin at multiples of 16.
@pytest.mark.parametrize(
    ("bug", "kind", "visible"),
    [
        ("after-free", "use after free", 1.0),
        ("behind", "heap overflow", 0.5),
        ("behind-odd", "heap overflow", 0.0),
        ("behind-slack", "heap overflow", 0.5),
    ],
)
def test_planted_bug_is_found_as_often_as_predicted(
    sides: Sides, bug: str, kind: str, visible: float
) -> None:
    """Each call of malloc is guarded with a chance of 1 in RATE, so a run without a find has a
    chance of (1 - visible / RATE) ** calls. Four standard deviations, for a test that runs every day."""
    found = 0
    for _ in range(RUNS):
        result = run(
            sides.hakmem, "/usr/bin/sqlite3", ":memory:", f".load {PLANTED}", QUERY % bug,
            environment=options(sides.hakmem, f"guard_rate={RATE}"), succeeds=False, is_served=False,
        )  # fmt: skip
        if result.returncode == 0:
            assert "hakmem" not in result.stderr
            continue
        assert result.returncode == -signal.SIGABRT, result
        assert re.match(rf"hakmem: {kind}: read at 0x", result.stderr), result
        assert "libplanted.so+0x" in result.stderr.split("allocated by")[0], result
        found += 1
    chance = 1 - (1 - visible / RATE) ** (ROWS // SHARE)
    deviation = math.sqrt(RUNS * chance * (1 - chance))
    print(
        f"{bug}: found in {found} of {RUNS} runs, predicted {RUNS * chance:.1f} +- {deviation:.1f}"
    )
    assert abs(found - RUNS * chance) <= 4 * deviation
