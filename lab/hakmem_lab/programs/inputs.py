"""Files that the programs of the suite work on: generated, with no chance and no clock in them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.programs.program import environment
from hakmem_lab.programs.sources import c_source, cxx_source


def log(folder: Path) -> None:
    """A web server's log of 150,000 lines."""
    lines = (
        f"{i} host{i * 7919 % 4001}.example {200 + i * 31 % 5 * 100}/{i * 17 % 1009} "
        f"/path{i * 104729 % 991}/page{i * 13 % 307}.html {i * 48271 % 65537}\n"
        for i in range(150_000)
    )
    (folder / "log.txt").write_text("".join(lines))


def lines(folder: Path) -> None:
    """900,000 short lines in no order."""
    text = "".join(f"{i * 48271 % 2147483647:x} line {i * 7919 % 99991}\n" for i in range(900_000))
    (folder / "lines.txt").write_text(text)


def people(folder: Path) -> None:
    records = [
        {
            "id": i,
            "name": f"name {i * 7919 % 1000003:x}",
            "town": f"town {i * 104729 % 997}",
            "born": 1900 + i * 31 % 120,
            "tags": [f"tag{i * k % 53}" for k in range(1, 4)],
        }
        for i in range(25_000)
    ]
    (folder / "people.json").write_text(json.dumps(records))


def document(folder: Path) -> None:
    """XML of 120,000 elements with attributes and text."""
    items = "".join(
        f'<item id="i{i}" kind="k{i * 7919 % 97}"><name>name {i * 104729 % 99991}</name>'
        f"<note>{'note ' * (i % 7)}&amp; more</note></item>\n"
        for i in range(120_000)
    )
    (folder / "items.xml").write_text(f"<?xml version='1.0'?>\n<items>\n{items}</items>\n")


def c_file(folder: Path) -> None:
    (folder / "large.c").write_text(c_source(110))


def cxx_file(folder: Path) -> None:
    (folder / "large.cc").write_text(cxx_source(4))


def redis_commands(folder: Path) -> None:
    """A data set of every type; keys are overwritten, grown and deleted."""
    text: list[str] = []
    for i in range(20_000):
        text.append(f"SET string:{i % 9000} {'v' * (i * 7919 % 700)}{i}")
        text.append(f"HSET hash:{i % 300} field{i % 997} value{i}")
        text.append(f"RPUSH list:{i % 200} item{i} {'x' * (i % 90)}")
        text.append(f"ZADD scores:{i % 50} {i * 31 % 1009} member{i % 2003}")
        text.append(f"SADD set:{i % 70} {i * 17 % 5003}")
        if i % 4 == 0:
            text.append(f"DEL string:{i * 13 % 9000}")
            text.append(f"APPEND string:{i * 3 % 9000} {'tail' * (1 + i % 60)}")
    (folder / "redis.txt").write_text("\n".join(text) + "\n")


_NGINX = """\
daemon off;
worker_processes 2;
pid nginx.pid;
error_log stderr error;
{user}
events {{ worker_connections 512; }}
http {{
  types {{ text/plain txt; }}
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy_temp;
  fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  gzip on; gzip_min_length 1; gzip_comp_level 5;
  keepalive_requests 100000;
  upstream self {{ server 127.0.0.1:{port}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    root {root};
    location /proxy/ {{
      proxy_pass http://self/; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
  }}
}}
"""


def website(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    # The workers of a master that is root become another user unless told otherwise.
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_NGINX.format(port=port, user=user, root=folder))
    (folder / "port").write_text(f"{port}\n")
    page = "".join(f"line {i} of a page: {i * i % 99991}\n" for i in range(600))
    (folder / "page.txt").write_text(page)


def _history(commits: int, files: int) -> Iterator[str]:
    """A stream for git fast-import: files that keep changing."""

    def data(text: str) -> str:
        return f"data {len(text.encode())}\n{text}\n"

    for turn in range(1, commits + 1):
        when = 1_600_000_000 + turn * 60
        yield f"commit refs/heads/main\nmark :{turn}\n"
        yield f"committer A U Thor <author@example.com> {when} +0000\n"
        yield data(f"Change number {turn}\n\nBecause file {turn % files} wanted it.\n")
        if turn > 1:
            yield f"from :{turn - 1}\n"
        for file in sorted({turn % files, turn * 7 % files, turn * 13 % files}):
            rows = (
                f"row {i} of file {file}: {i * i * (turn // (1 + i % 9)) % 99991}"
                for i in range(100)
            )
            yield f"M 100644 inline folder{file % 5}/file{file}.txt\n"
            yield data("\n".join(rows) + "\n")


def repository(folder: Path) -> None:
    """A bare repository of 350 commits."""
    target = str(folder / "repository.git")
    _git(folder, "init", "-q", "--bare", "-b", "main", target)
    _git(folder, "-C", target, "fast-import", "--quiet", stdin="".join(_history(350, 50)))


def _git(folder: Path, *words: str, stdin: str = "") -> None:
    done = subprocess.run(
        ["git", *words],
        input=stdin.encode(),
        env=environment(folder),
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise LabError(f"git could not make a repository: {done.stderr.decode(errors='replace')}")
