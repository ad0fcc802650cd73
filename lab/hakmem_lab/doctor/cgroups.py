"""The control groups that this process is in: version 2, version 1, or both at once.

A limit may be set at any level, and the tightest one holds. So each file is read in the process's
own group and in all groups above it that can be seen. In a container the path in /proc/self/cgroup
may start above what is mounted; mountinfo says which part of the hierarchy a mount shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from hakmem_lab.doctor.host import Host


@dataclass(frozen=True)
class Value:
    """What a file of a group says, and where that is."""

    path: str
    text: str


@dataclass(frozen=True)
class _Mount:
    root: PurePosixPath  # the part of the hierarchy that is mounted
    point: PurePosixPath


def _mounts(host: Host) -> dict[str, _Mount]:
    """By controller; version 2 is under ""."""
    mounts: dict[str, _Mount] = {}
    for line in (host.text("/proc/self/mountinfo") or "").splitlines():
        left, dash, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not dash or len(fields) < 5 or len(kind) < 3:
            continue
        mount = _Mount(PurePosixPath(fields[3]), PurePosixPath(fields[4]))
        if kind[0] == "cgroup2":
            mounts.setdefault("", mount)
        elif kind[0] == "cgroup":
            for controller in kind[-1].split(","):
                mounts.setdefault(controller, mount)
    return mounts


def _memberships(host: Host) -> dict[str, PurePosixPath]:
    """The process's path in each hierarchy, by controller; version 2 under ""."""
    paths: dict[str, PurePosixPath] = {}
    for line in (host.text("/proc/self/cgroup") or "").splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            for controller in fields[1].split(","):
                paths[controller] = PurePosixPath(fields[2])
    return paths


def _levels(host: Host, controller: str) -> Iterator[PurePosixPath]:
    """Folders of the process's group and of those above it, innermost first."""
    mount = _mounts(host).get(controller)
    path = _memberships(host).get(controller)
    if mount is None or path is None:
        return
    inside = path.relative_to(mount.root) if path.is_relative_to(mount.root) else PurePosixPath()
    if ".." in inside.parts:
        inside = PurePosixPath()
    while True:
        yield mount.point / inside
        if inside == PurePosixPath():
            return
        inside = inside.parent


def values(host: Host, controller: str, name: str) -> list[Value]:
    """A file's values on all levels, innermost first. controller "": version 2."""
    found = []
    for folder in _levels(host, controller):
        text = host.text(str(folder / name))
        if text is not None:
            found.append(Value(str(folder / name), text))
    return found


def version(host: Host, controller: str) -> int | None:
    """Which version has the controller: in the mixed set-up of systemd, most are in version 1."""
    mounts, paths = _mounts(host), _memberships(host)
    if controller in mounts and controller in paths:
        return 1
    return 2 if "" in mounts and "" in paths else None
