"""`hakmem demo`: a real program at real work, under HAKMEM and under the system's allocator.

sqlite3 makes a table of 200,000 rows in memory, two indices, joins, sorts and deletes; where there
is no sqlite3, Python does work of the same kind with dictionaries, lists, text and JSON. Both runs
must print the same.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial

from hakmem_lab.errors import RunError
from hakmem_lab.measure import Allocator, Command, run
from hakmem_lab.schedule import Metrics, Task

_SQL = """\
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, town TEXT, born INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO person
SELECT i, printf('name %x of many', (i * 7919) % 1000003), printf('town %d', (i * 104729) % 997),
       1900 + (i * 31) % 120 FROM n;
CREATE INDEX person_name ON person(name);
CREATE INDEX person_town ON person(town, born);
SELECT town, count(*), avg(born) FROM person GROUP BY town ORDER BY 2 DESC, 1 LIMIT 5;
SELECT count(*) FROM person a JOIN person b ON a.town = b.town AND a.born = b.born + 1;
SELECT group_concat(name, ',') FROM (SELECT name FROM person ORDER BY name DESC LIMIT 20);
UPDATE person SET name = upper(name) || ' ' || town WHERE id % 3 = 0;
DELETE FROM person WHERE id % 5 = 0;
SELECT count(*), sum(length(name)), max(name) FROM person;
"""

_PYTHON = """\
import json
rows = [{"id": i, "name": f"name {i * 7919 % 1000003:x}", "town": f"town {i * 104729 % 997}"}
        for i in range(200000)]
towns = {}
for row in rows:
    towns.setdefault(row["town"], []).append(row)
text = json.dumps(rows)
back = json.loads(text)
back.sort(key=lambda row: row["name"], reverse=True)
words = " ".join(row["name"] for row in back).split()
print(len(text), len(words), len(towns), max(len(town) for town in towns.values()))
print([row["id"] for row in back[:10]])
"""


@dataclass(frozen=True)
class Demo:
    name: str
    command: Command


def choose() -> Demo:
    if shutil.which("sqlite3"):
        words = ("sqlite3", "-batch", "-noheader", ":memory:")
        return Demo("sqlite3, 200,000 rows", Command(words, stdin=_SQL.encode()))
    return Demo("python3, 200,000 records", Command(("python3", "-"), stdin=_PYTHON.encode()))


class SameOutput:
    """Fails a run whose output is not that of the first."""

    def __init__(self) -> None:
        self._first: tuple[str, bytes] | None = None

    def check(self, allocator: str, stdout: bytes) -> None:
        if self._first is None:
            self._first = (allocator, stdout)
        elif self._first[1] != stdout:
            raise RunError(f"the output under {allocator} is not that under {self._first[0]}")


def tasks(demo: Demo, allocators: list[Allocator]) -> list[Task]:
    same = SameOutput()

    def once(allocator: Allocator) -> Metrics:
        result = run(demo.command, allocator)
        same.check(allocator.name, result.stdout)
        return result.metrics

    return [Task(demo.name, each.name, partial(once, each)) for each in allocators]
