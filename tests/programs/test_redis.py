"""redis-server under redis-benchmark: a long-lived server, forks that write snapshots, a reload."""

from __future__ import annotations

from pathlib import Path

from harness import Side, Sides, assert_same_text, run
from servers import Server, answers, serving

COMMANDS = (
    "set",
    "get",
    "incr",
    "lpush",
    "rpop",
    "sadd",
    "hset",
    "spop",
    "zadd",
    "lrange_100",
    "mset",
)


def commands() -> str:
    """A data set of every type, the same each time; keys are overwritten, grown and deleted."""
    lines = []
    for i in range(30_000):
        lines.append(f"SET string:{i % 9000} {'v' * (i * 7919 % 700)}{i}")
        lines.append(f"HSET hash:{i % 300} field{i % 997} value{i}")
        lines.append(f"RPUSH list:{i % 200} item{i} {'x' * (i % 90)}")
        lines.append(f"ZADD scores:{i % 50} {i * 31 % 1009} member{i % 2003}")
        lines.append(f"SADD set:{i % 70} {i * 17 % 5003}")
        if i % 4 == 0:
            lines.append(f"DEL string:{i * 13 % 9000}")
            lines.append(f"LTRIM list:{i % 200} 2 -1")
            lines.append(f"APPEND string:{i * 3 % 9000} {'tail' * (1 + i % 60)}")
    return "\n".join(lines) + "\n"


class Client:
    def __init__(self, side: Side, socket: Path) -> None:
        self.side = side
        self.base = ("/usr/bin/redis-cli", "-s", str(socket))

    def say(self, *words: str, stdin: str | None = None) -> str:
        return run(self.side, *self.base, *words, stdin=stdin).stdout.strip()


def benchmark(side: Side, server: Server, socket: Path) -> None:
    """redis-benchmark's load, with the server's processes looked at while it runs."""
    names = ",".join(COMMANDS)
    size = ("-n", "15000", "-c", "30", "-P", "4", "-r", "4000", "-d", "200", "--threads", "2")
    command = ("/usr/bin/redis-benchmark", "-s", socket, "-t", names, *size, "--csv")
    out = run(side, *command, watch=server.assert_mapped_during).stdout
    # A header line, then a line a test; an error would be a line of its own.
    assert len(out.splitlines()) >= 1 + len(COMMANDS), out
    assert "rror" not in out, out


def session(side: Side) -> str:
    socket = side.root / "redis.sock"
    persistent = ("--appendonly", "yes", "--dir", str(side.work), "--save", "")
    options = ("--port", "0", "--unixsocket", str(socket), "--enable-debug-command", "local")
    client = Client(side, socket)
    digests = []
    with serving(
        side, "/usr/bin/redis-server", *options, *persistent, ready=lambda: answers(socket)
    ) as server:
        assert "errors: 0" in client.say("--pipe", stdin=commands())
        digests.append(client.say("DEBUG", "DIGEST"))
        benchmark(side, server, socket)
        client.say("FLUSHALL")
        assert "errors: 0" in client.say("--pipe", stdin=commands())
        digests.append(client.say("DEBUG", "DIGEST"))
        # Children made by fork write a snapshot while the server goes on changing its data.
        client.say("BGSAVE")
        computed = client.say("EVAL", LUA, "0")
        server.assert_mapped()
        wait_for_child(client)
        client.say("BGREWRITEAOF")
        wait_for_child(client)
        assert client.say("DEBUG", "RELOAD") == "OK"
        digests.append(client.say("DEBUG", "DIGEST"))
        digests.append(computed)
        digests.append(client.say("DBSIZE"))
        assert client.say("INFO", "persistence").count("status:ok") >= 3
    return "\n".join(digests)


# Lua has an allocator of its own style: everything through realloc.
LUA = """
local total = 0
for i = 1, 20000 do
  local s = string.rep('x', i % 200) .. i
  redis.call('SET', 'lua:' .. i % 1000, s)
  total = total + #redis.call('GET', 'lua:' .. i % 1000) + #s
end
return total
"""


def wait_for_child(client: Client) -> None:
    for _ in range(400):
        info = client.say("INFO", "persistence")
        if not any(f"{task}_in_progress:1" in info for task in ("rdb_bgsave", "aof_rewrite")):
            return
    raise AssertionError("redis's child does not end")


def test_server_under_benchmark(sides: Sides) -> None:
    assert_same_text(sides, sides.at_once(session))
