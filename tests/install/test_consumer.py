"""The installed tree: found by find_package and by pkg-config, linked shared and static, moved.

Every program made here proves by the library's own statistics that HAKMEM served its allocations.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("HAKMEM_BUILD", HERE.parent.parent / "build" / "release"))
HEADER = HERE.parent.parent / "include" / "hakmem" / "hakmem.h"


def run(command: Sequence[str | Path], **more: str) -> str:
    """The output of a command that must succeed, in an environment without HAKMEM's variables."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "HAKMEM_OPTIONS")}
    done = subprocess.run(
        command, env=environment | more, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def version() -> str:
    return ".".join(re.findall(r"#define HAK_VERSION_\w+ (\d+)", HEADER.read_text()))


def check_served(program: Path, scratch: Path, **more: str) -> None:
    """The program works, and its blocks came from HAKMEM."""
    statistics = scratch / f"{program.name}.json"
    options = f"stats=exit:json,stats_file={statistics}"
    assert run([program], HAKMEM_OPTIONS=options, **more) == f"hakmem {version()}\n"
    assert json.loads(statistics.read_text())["blocks_taken"] > 0


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed tree that was moved after it was installed."""
    first = tmp_path_factory.mktemp("install") / "first"
    run(["cmake", "--install", BUILD, "--prefix", first])
    return Path(shutil.move(first, first.with_name("moved")))


@pytest.fixture(scope="module")
def consumer(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("consumer")
    run(
        [
            "cmake",
            "-G",
            "Ninja",
            "-S",
            HERE / "consumer",
            "-B",
            build,
            f"-DCMAKE_PREFIX_PATH={prefix}",
        ]
    )
    run(["cmake", "--build", build])
    return build


@pytest.mark.parametrize(
    "program", ["c_shared", "c_static", "c_all_static", "cxx_shared", "cxx_static"]
)
def test_cmake_package(consumer: Path, tmp_path: Path, program: str) -> None:
    check_served(consumer / program, tmp_path)


def test_cmake_package_links_as_asked(consumer: Path) -> None:
    def needs_library(program: str) -> bool:
        return "libhakmem.so" in run(["readelf", "-dW", consumer / program])

    assert needs_library("c_shared") and needs_library("cxx_shared")
    assert not needs_library("c_static") and not needs_library("cxx_static")


@pytest.mark.parametrize(
    ("compiler", "source", "how"),
    [
        ("gcc", "program.c", []),
        ("gcc", "program.c", ["--static"]),
        ("g++", "program.cc", []),
    ],
)
def test_pkg_config(
    prefix: Path, tmp_path: Path, compiler: str, source: str, how: list[str]
) -> None:
    found = run(
        ["pkg-config", "--cflags", "--libs", *how, "hakmem"],
        PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"),
    )
    program = tmp_path / "program"
    static = ["-static"] if how else []
    run([compiler, *static, "-o", program, HERE / "consumer" / source, *found.split()])
    check_served(program, tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"))


def test_pkg_config_tells_the_version(prefix: Path) -> None:
    told = run(
        ["pkg-config", "--modversion", "hakmem"],
        PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"),
    )
    assert told.strip() == version()


def test_headers_compile_alone(prefix: Path, tmp_path: Path) -> None:
    """Each installed header as the first and only include, in C and C++, all warnings on."""
    headers = sorted((prefix / "include").rglob("*.h"))
    assert headers
    for header in headers:
        for compiler, kind in (("gcc", "c"), ("g++", "cc")):
            source = tmp_path / f"only.{kind}"
            source.write_text(f"#include <{header.relative_to(prefix / 'include')}>\n")
            warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
            run([compiler, *warnings, "-I", prefix / "include", "-fsyntax-only", source])


def test_command(prefix: Path, tmp_path: Path) -> None:
    """The installed command finds the installed library; its packages are the checkout's."""
    (tmp_path / "hakmem").mkdir()
    (tmp_path / "hakmem" / "venv").symlink_to(HERE.parent.parent / ".venv")
    statistics = tmp_path / "statistics.json"
    run(
        [prefix / "bin" / "hakmem", "run", "--", "sort", HERE / "test_consumer.py"],
        XDG_DATA_HOME=str(tmp_path),
        HAKMEM_OPTIONS=f"stats=exit:json,stats_file={statistics}",
    )
    assert json.loads(statistics.read_text())["blocks_taken"] > 0
