"""HAKMEM_OPTIONS: what is not understood costs one line that names the option, what it allows and
the default that is used instead. The program goes on in every case."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("HAKMEM_BUILD", "build/release")).resolve()
LIBRARY = Path(os.environ.get("HAKMEM_LIBRARY", BUILD / "libhakmem.so")).resolve()
PROGRAM = BUILD / "tests" / "death" / "option_probe"

MEBI = 1 << 20


def probe(options: str, name: str = "profile") -> tuple[str, list[str]]:
    """The value in force of an option and what was written to standard error."""
    finished = subprocess.run(
        [PROGRAM, name],
        env={"LD_PRELOAD": str(LIBRARY), "HAKMEM_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished
    (line,) = finished.stdout.splitlines()
    got, value = line.split("=", 1)
    assert got == name
    return value, finished.stderr.splitlines()


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ("", "profile", "balanced"),
        ("profile=speed", "profile", "speed"),
        ("profile=balanced", "profile", "balanced"),
        ("profile=lean", "profile", "lean"),
        ("profile=speed,profile=lean", "profile", "lean"),
        (",,profile=lean,,", "profile", "lean"),
        ("shards=3", "shards", "3"),
        ("decay_ms=0", "decay_ms", "0"),
        ("decay_ms=1234,profile=speed", "decay_ms", "1234"),
        ("thp=never", "thp", "never"),
        ("arena_size=64M", "arena_size", str(64 * MEBI)),
        ("arena_size=1G", "arena_size", str(1024 * MEBI)),
        ("arena_size=1T", "arena_size", str(MEBI * MEBI)),
        ("arena_size=65536K", "arena_size", str(64 * MEBI)),
        ("arena_size=67108864", "arena_size", str(64 * MEBI)),
        ("", "soft_limit", "auto"),
        ("", "hard_limit", "0"),
        ("soft_limit=0", "soft_limit", "0"),
        ("soft_limit=1M", "soft_limit", str(MEBI)),
        ("soft_limit=3G,soft_limit=auto", "soft_limit", "auto"),
        ("hard_limit=auto", "hard_limit", "auto"),
        ("hard_limit=256M", "hard_limit", str(256 * MEBI)),
        ("hard_limit=256M,hard_limit=0", "hard_limit", "0"),
        ("stats_file=/tmp/a\\,b,profile=lean", "stats_file", "/tmp/a,b"),
        ("stats_file=/tmp/a\\,b,profile=lean", "profile", "lean"),
    ],
)
def test_good_options_are_silent(options: str, name: str, value: str) -> None:
    assert probe(options, name) == (value, [])


@pytest.mark.parametrize(
    ("options", "name", "default", "allowed"),
    [
        ("profile=fast", "profile", "balanced", ["speed", "balanced", "lean"]),
        ("profile=", "profile", "balanced", ["speed", "balanced", "lean"]),
        ("profile=Speed", "profile", "balanced", ["speed", "balanced", "lean"]),
        ("profile", "profile", "balanced", ["speed", "balanced", "lean"]),
        ("stats=yes", "stats", "off", ["exit", "exit:json", "exact"]),
        ("thp=sometimes", "thp", "default", ["default", "always", "never"]),
        ("shards=0x10", "shards", None, ["1", "256"]),
        ("shards=-1", "shards", None, ["1", "256"]),
        ("shards=1000000", "shards", None, ["1", "256"]),
        ("shards=99999999999999999999999", "shards", None, ["1", "256"]),
        ("shards=2K", "shards", None, ["1", "256"]),
        ("decay_ms=soon", "decay_ms", None, ["0", "3600000"]),
        ("decay_ms=1.5", "decay_ms", None, ["0", "3600000"]),
        ("arena_size=12X", "arena_size", str(MEBI * MEBI), ["32M", "1T"]),
        ("arena_size=64MB", "arena_size", str(MEBI * MEBI), ["32M", "1T"]),
        ("arena_size=64 M", "arena_size", str(MEBI * MEBI), ["32M", "1T"]),
        ("arena_size=17179869184G", "arena_size", str(MEBI * MEBI), ["32M", "1T"]),
        ("arena_size=1", "arena_size", str(MEBI * MEBI), ["32M", "1T"]),
        ("arena_size", "arena_size", str(MEBI * MEBI), ["32M", "1T"]),
        ("soft_limit=Auto", "soft_limit", "auto", ["1M", "0 for none", "auto"]),
        ("soft_limit=1000", "soft_limit", "auto", ["1M", "0 for none", "auto"]),
        ("hard_limit=90%", "hard_limit", "0", ["1M", "0 for none", "auto"]),
        ("hard_limit=-1", "hard_limit", "0", ["1M", "0 for none", "auto"]),
        ("hard_limit=", "hard_limit", "0", ["1M", "0 for none", "auto"]),
        ("hard_limit=18446744073709551615", "hard_limit", "0", ["1M", "0 for none", "auto"]),
        ("verbose=3", "verbose", "0", ["0", "2"]),
        ("stats_file=", "stats_file", "", ["path"]),
    ],
)
def test_bad_values(options: str, name: str, default: str | None, allowed: list[str]) -> None:
    untouched, _ = probe("", name)
    value, lines = probe(options, name)
    assert value == untouched
    assert default in (None, value)
    (line,) = lines
    assert line.startswith("hakmem: ")
    assert name in line
    assert "default" in line
    assert value in line
    for word in allowed:
        assert word in line, line


@pytest.mark.parametrize("options", ["frobnicate=1", "frobnicate", "frobnicate=", "frobnicate=a=b"])
def test_unknown_names(options: str) -> None:
    value, (line,) = probe(f"profile=lean,{options},shards=2")
    assert value == "lean"
    assert line.startswith("hakmem: ")
    assert "'frobnicate'" in line
    for name in ["profile", "stats", "stats_file", "arena_size", "decay_ms", "shards", "thp"]:
        assert name in line
    assert "default" in line


def test_each_mistake_has_its_line() -> None:
    value, lines = probe("profile=fast,nonsense=1,shards=many,thp=never", "thp")
    assert value == "never"
    assert len(lines) == 3
    for line, name in zip(lines, ["profile", "nonsense", "shards"], strict=True):
        assert name in line


def test_a_bad_value_resets_to_the_default() -> None:
    # "the default used" is the default, not what an earlier pair said.
    value, lines = probe("profile=lean,profile=fast")
    assert value == "balanced"
    assert "'balanced'" in lines[0]


@pytest.mark.parametrize(
    "options",
    ["x" * 100_000, "profile=" + "y" * 100_000, "=", "=lean", "\\", "profile=lean\\", "\\,=\\,"],
    ids=["name", "value", "equals", "nameless", "escape", "last-escape", "commas"],
)
def test_nonsense_of_any_length(options: str) -> None:
    _, lines = probe(options)
    assert len(lines) == 1
    assert len(lines[0]) < 1024
    assert lines[0].startswith("hakmem: ")


def test_help_lists_all_and_goes_on() -> None:
    value, lines = probe("help,profile=lean")
    assert value == "lean"
    assert all(line.startswith("hakmem: ") for line in lines)
    text = "\n".join(lines)
    assert "profile=lean" in text
    names = "profile stats stats_file arena_size soft_limit hard_limit decay_ms shards thp verbose"
    for name in names.split():
        assert f"hakmem: {name}=" in text
    # The allowed values stand beside them.
    assert "speed|balanced|lean" in text


@pytest.mark.skipif(
    "HAKMEM_LAUNCHER" in os.environ and os.environ["HAKMEM_LAUNCHER"] != "",
    reason="by this machine's shell",
)
def test_shell_pipelines_survive_a_bad_option() -> None:
    finished = subprocess.run(
        ["/bin/sh", "-c", "echo 3 1 2 | tr ' ' '\\n' | sort | head -1"],
        env={
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": str(LIBRARY),
            "HAKMEM_OPTIONS": "profile=fast",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert finished.stdout == "1\n"
    assert all(line.startswith("hakmem: option profile:") for line in finished.stderr.splitlines())
