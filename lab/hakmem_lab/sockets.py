"""Which processes listen on a socket, so that a client is started when its server is ready.

The kernel lists the sockets of a process's network in /proc/PID/net, each with an inode, and the
sockets that a process holds in /proc/PID/fd, by the same inode.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_TCP_LISTENS = "0A"  # TCP_LISTEN, in the fourth field; the inode is in the tenth
_UNIX_ACCEPTS = "00010000"  # __SO_ACCEPTCON, in the fourth field; the inode is in the seventh
_TABLES = (
    ("tcp", _TCP_LISTENS, 9),
    ("tcp6", _TCP_LISTENS, 9),
    ("unix", _UNIX_ACCEPTS, 6),
)


def any_listens(pids: Iterable[int]) -> bool:
    return any(_held(pid) & _listening(pid) for pid in pids)


def _held(pid: int) -> set[str]:
    inodes = set()
    try:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            target = str(file.readlink())
            if target.startswith("socket:["):
                inodes.add(target[len("socket:[") : -1])
    except OSError:
        pass  # the process, or the file, has just been closed
    return inodes


def _listening(pid: int) -> set[str]:
    inodes = set()
    for table, state, inode in _TABLES:
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        fields = (line.split() for line in lines.splitlines()[1:])
        inodes |= {each[inode] for each in fields if len(each) > inode and each[3] == state}
    return inodes
