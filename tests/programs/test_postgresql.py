"""PostgreSQL: initdb, then pgbench; one process a client, each forked from the postmaster.

PostgreSQL refuses to run as root, so root becomes the user postgres that Debian's
package makes. The server listens on a unix socket in a folder of its own only.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from harness import TIMES, Filter, Side, Sides, assert_same_text, run
from servers import Server, serving

USER = "postgres"
CLIENTS = 4
ANSWERS = """
SELECT count(*), sum(abalance) FROM pgbench_accounts;
SELECT sum(tbalance) FROM pgbench_tellers;
SELECT sum(bbalance) FROM pgbench_branches;
SELECT count(*), sum(delta) FROM pgbench_history;
CREATE TABLE item AS SELECT i AS id, md5(i::text) AS name, i * 7919 % 5003 AS kind,
  array(SELECT generate_series(1, i % 9)) AS list, jsonb_build_object('i', i, 't', repeat('x', i % 50)) AS doc
  FROM generate_series(1, 60000) AS i;
CREATE INDEX ON item(kind); CREATE INDEX ON item USING gin(doc);
ANALYZE item;
SELECT kind, count(*), string_agg(left(name, 2), '' ORDER BY id) FROM item GROUP BY kind ORDER BY 2 DESC, 1 LIMIT 10;
SELECT count(*), sum(a.id % 1000) FROM item a JOIN item b USING (kind) WHERE a.id < b.id;
SELECT sum(cardinality(list)), count(DISTINCT doc->>'t') FROM item WHERE doc @> '{"t": ""}' OR id % 3 = 0;
SELECT name FROM (SELECT name, row_number() OVER (ORDER BY name COLLATE "C") AS n FROM item) s WHERE n % 6000 = 1;
WITH RECURSIVE t(n, s) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, s || chr(97 + n % 26) FROM t WHERE n < 3000)
  SELECT md5(string_agg(s, ',')) FROM t;
SELECT length(xmlelement(name e, repeat('<', 100000))::text), 2::numeric ^ 3000 % 1000003;
"""


def binaries() -> Path:
    """The newest version's; Debian keeps them apart and puts none into PATH."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))


def initialise(side: Side) -> tuple[Path, str]:
    """initdb into a folder that the user owns; returns the folder and what initdb said."""
    home = side.root / "postgres"
    home.mkdir(mode=0o700)
    if os.geteuid() == 0:
        run(side, "/bin/chown", USER, home)
    data = home / "data"
    options = ("--locale=C", "--encoding=UTF8", "--auth=trust", "--no-sync", "--username=postgres")
    said = run(side, binaries() / "initdb", *options, "-D", data, user=USER, timeout=120)
    return data, said.stdout + said.stderr


def pgbench(side: Side, server: Server, home: Path, *mode: str) -> None:
    """Clients with seeded random numbers: what they add up to does not depend on their order."""
    load = ("-c", str(CLIENTS), "-j", "2", "-t", "250", "--random-seed=42", "-n", *mode)
    command = (str(binaries() / "pgbench"), "-h", str(home), "-U", "postgres", *load, "postgres")
    out = run(side, *command, user=USER, watch=server.assert_mapped_during).stdout
    wanted = f"number of transactions actually processed: {CLIENTS * 250}/{CLIENTS * 250}"
    assert wanted in out, out


def session(side: Side) -> str:
    data, said = initialise(side)
    home = data.parent
    connection = ("-h", str(home), "-U", "postgres")
    postgres = (binaries() / "postgres", "-D", data, "-k", home, "-c", "listen_addresses=", "-F")
    settings = ("-c", "jit=off", "-c", "max_parallel_workers_per_gather=2")

    def ready() -> bool:
        asked = run(side, binaries() / "pg_isready", *connection, succeeds=False, user=USER)
        return asked.returncode == 0

    with serving(
        side,
        *postgres,
        *settings,
        ready=ready,
        stop=signal.SIGINT,
        children_exit=True,
        user=USER,
        timeout=60,
    ) as server:
        initialised = (binaries() / "pgbench", *connection, "-i", "-q", "-s", "2", "postgres")
        run(side, *initialised, user=USER)
        for mode in ("simple", "prepared"):
            pgbench(side, server, home, "-M", mode)
        psql = (binaries() / "psql", *connection, "-X", "-v", "ON_ERROR_STOP=1", "postgres")
        answers = run(side, *psql, stdin=ANSWERS, user=USER).stdout
        if side.library is not None:
            # The postmaster, its own helpers, and a backend for each client of each run.
            assert len(server.seen) >= 1 + 4 + 2 * CLIENTS, server.seen
    return said + answers


def test_initdb_and_pgbench(sides: Sides) -> None:
    # What initdb finds out by trying depends on the shared memory that is free at that time.
    chosen = Filter(
        r"^(selecting default (max_connections|shared_buffers) \.\.\.) .*", r"\1 <chosen>"
    )
    assert_same_text(sides, sides.at_once(session), TIMES, chosen)
