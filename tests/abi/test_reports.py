"""The reports of the heap, read by real parsers: malloc_info as XML, hak_stats_write and
stats=exit:json as JSON. The programs that write them are in this folder."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(os.environ.get("HAKMEM_BUILD", "build/release"))
LIBRARY = Path(os.environ.get("HAKMEM_LIBRARY", BUILD / "libhakmem.so"))
PROGRAM = BUILD / "tests" / "abi" / "abi_write_report"


def run(kind: str, options: str = "", preload: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HAKMEM_OPTIONS": options}
    if preload:
        environment["LD_PRELOAD"] = str(LIBRARY.resolve())
    return subprocess.run(
        [PROGRAM, kind], env=environment, capture_output=True, text=True, timeout=60, check=True
    )


@pytest.mark.parametrize("preload", [True, False], ids=["hakmem", "glibc"])
def test_malloc_info_is_in_the_frame_of_glibc(preload: bool) -> None:
    root = ElementTree.fromstring(run("malloc_info", preload=preload).stdout)
    assert root.tag == "malloc"
    assert root.get("version") == "1"
    heaps = root.findall("heap")
    assert [heap.get("nr") for heap in heaps] == [str(i) for i in range(len(heaps))]
    assert heaps
    for total in root.iter("total"):
        assert int(total.attrib["count"]) >= 0
        assert int(total.attrib["size"]) >= 0
    assert {total.get("type") for total in root.findall("total")} >= {"fast", "rest", "mmap"}
    systems = {system.get("type"): int(system.attrib["size"]) for system in root.findall("system")}
    assert set(systems) == {"current", "max"}
    # The program holds 20 MiB in small blocks and 2 GiB in one.
    assert 20 << 20 <= systems["current"] <= systems["max"]
    assert {space.get("type") for space in root.findall("aspace")} >= {"total", "mprotect"}
    mapped = [total for total in root.findall("total") if total.get("type") == "mmap"]
    assert len(mapped) == 1
    assert int(mapped[0].attrib["count"]) == 1
    assert int(mapped[0].attrib["size"]) >= 2 << 30


def check_statistics(text: str) -> None:
    statistics = json.loads(text)
    assert list(statistics)[:3] == ["schema", "version", "pid"]
    assert statistics["schema"] == 1
    assert statistics["pid"] > 1
    assert statistics["profile"] == "balanced"
    assert statistics["shards"] >= 1
    assert statistics["threads"] >= 1
    assert statistics["blocks_taken"] >= statistics["blocks_given"] >= 0
    assert statistics["huge_pages"]["collapsed"] >= statistics["huge_pages"]["split"] >= 0
    # 20 MiB in blocks of 1,000 bytes, which the program still holds.
    assert statistics["blocks_taken"] - statistics["blocks_given"] >= 20_000
    check_locks(statistics)


def check_locks(statistics: dict[str, Any]) -> None:
    """The program has one thread, so it met no lock that was held."""
    locks = statistics["locks"]
    assert list(locks) == [
        "growth", "purge", "start", "callbacks", "guard", "registry", "pages", "opening", "classes",
        "spans", "arena", "huge", "metadata",
    ]  # fmt: skip
    untouched = {"purge", "callbacks", "pages"}
    assert all(lock["acquired"] > 0 for name, lock in locks.items() if name not in untouched)
    assert all(lock["contended"] == 0 for lock in locks.values())
    # A refill takes at most 256 blocks, and each is a slow call that locks a class.
    assert statistics["slow_calls"] >= 20_000 / 256
    assert locks["classes"]["acquired"] >= 20_000 / 256


def test_hak_stats_write_is_json() -> None:
    check_statistics(run("hak_stats").stdout)


def test_statistics_at_exit_are_json() -> None:
    check_statistics(run("nothing", "stats=exit:json").stderr)


def test_exact_statistics_at_exit_are_json() -> None:
    check_statistics(run("nothing", "stats=exact:json").stderr)


def test_statistics_go_to_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a\\,b.%p.json")
    finished = run("nothing", f"stats=exit:json,stats_file={path}")
    assert finished.stderr == ""
    files = list(tmp_path.iterdir())
    assert len(files) == 1
    statistics = json.loads(files[0].read_text())
    assert files[0].name == f"a,b.{statistics['pid']}.json"


def test_statistics_as_text() -> None:
    text = run("nothing", "stats=exit").stderr
    assert text.strip()
    assert all(line.isprintable() for line in text.splitlines())


def test_without_options_nothing_is_printed() -> None:
    finished = run("nothing")
    assert (finished.stdout, finished.stderr) == ("", "")
