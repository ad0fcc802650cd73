"""sqlite3 on 200,000 rows: equal answers, and equal databases byte for byte."""

import sql
from harness import Sides, assert_same, assert_same_files


def test_two_hundred_thousand_rows(sides: Sides) -> None:
    command = ("/usr/bin/sqlite3", "-batch", "rows.db")
    out = assert_same(sides, *command, stdin=sql.SCRIPT)
    assert f"\n{sql.ROWS}|" in out and out.endswith("ok\n")
    assert_same_files(sides, "rows.db")
    assert_same(sides, *command, ".dump")


def test_in_memory(sides: Sides) -> None:
    """All pages of the database are malloc's blocks then."""
    assert_same(sides, "/usr/bin/sqlite3", "-batch", ":memory:", stdin=sql.SCRIPT)
