"""nginx with two workers under load from ab, its configuration reloaded in the middle of it."""

from __future__ import annotations

import hashlib
import os
import signal
import urllib.request

from harness import Side, Sides, assert_same_text, run
from servers import Server, answers, free_port, serving

REQUESTS = 6000
CONFIGURATION = """
daemon off;
worker_processes 2;
pid {root}/nginx.pid;
error_log stderr notice;
{user}
events {{ worker_connections 512; }}
http {{
  types {{ text/plain txt; }}
  access_log {root}/access.log;
  client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;
  fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
  gzip on; gzip_min_length 1; gzip_comp_level 6;
  keepalive_requests 500;
  upstream self {{ server 127.0.0.1:{port}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    root {root}/work;
    location /proxy/ {{ proxy_pass http://self/; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    location /move/ {{ rewrite ^/move/(.*)$ /$1 last; }}
  }}
}}
"""


def fetch(port: int, path: str, **headers: str) -> str:
    """Status, length and digest of an answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        body = answer.read()
        coding = answer.headers.get("Content-Encoding", "plain")
        return f"{path} {answer.status} {coding} {len(body)} {hashlib.sha256(body).hexdigest()}"


def load(side: Side, server: Server, port: int, path: str, *options: str) -> None:
    command = ("/usr/bin/ab", "-q", "-n", str(REQUESTS), "-c", "16", *options)
    url = f"http://127.0.0.1:{port}{path}"
    out = run(side, *command, url, watch=server.assert_mapped_during).stdout
    lines = {" ".join(line.split()) for line in out.splitlines()}
    assert {f"Complete requests: {REQUESTS}", "Failed requests: 0"} <= lines, out
    assert "Non-2xx" not in out, out


def session(side: Side) -> str:
    port = free_port()
    for i in range(60):
        text = "".join(f"line {j} of file {i}: {j * j * i % 99991}\n" for j in range(i * i))
        (side.work / f"file{i}.txt").write_text(text)
    # The workers of a master that is root become another user unless told otherwise.
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = side.root / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(root=side.root, port=port, user=user))
    nginx = ("/usr/sbin/nginx", "-c", str(configuration), "-p", str(side.root), "-e", "stderr")
    lines = []
    with serving(
        side, *nginx, ready=lambda: answers(port), stop=signal.SIGQUIT, children_exit=True
    ) as server:
        load(side, server, port, "/file20.txt", "-k")
        load(side, server, port, "/proxy/file20.txt", "-H", "Accept-Encoding: gzip")
        # New workers start while the old ones finish their connections and end.
        server.process.send_signal(signal.SIGHUP)
        load(side, server, port, "/move/file5.txt")
        for i in range(60):
            lines.append(fetch(port, f"/file{i}.txt"))
            lines.append(fetch(port, f"/proxy/file{i}.txt", **{"Accept-Encoding": "gzip"}))
        lines.append(fetch(port, "/file50.txt", Range="bytes=1000-90000"))
        if side.library is not None:
            assert len(server.seen) >= 1 + 2 + 2, (
                f"master and workers before and after: {server.seen}"
            )
    return "\n".join(lines)


def test_serving_under_load(sides: Sides) -> None:
    assert_same_text(sides, sides.at_once(session))
