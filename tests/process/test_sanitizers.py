"""Programs that were built for a sanitizer keep its malloc: HAKMEM is in the process and serves
nothing, and the sanitizer finds the bugs that it is there for."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from conftest import LIBRARY, native
from watched import SOURCES, Ended, watch

pytestmark = native

ADDR_NO_RANDOMIZE = 0x0040000  # <sys/personality.h>

COMPILERS = {"gcc": ["gcc"], "clang": ["clang-14", "-gdwarf-4"]}
FLAGS = ["-g", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-pthread"]
LINKED = ["-Wl,--no-as-needed", str(LIBRARY), f"-Wl,-rpath,{LIBRARY.parent}"]


@pytest.fixture(autouse=True, scope="module")
def addresses_are_not_random() -> None:
    """gcc 12's and clang 14's sanitizers find their places taken where the kernel is set to as many
    random bits (vm.mmap_rnd_bits) as newer distributions set it to. For all programs from here on;
    a container may refuse it."""
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


@cache
def runtime(compiler: str, name: str) -> Path:
    """A sanitizer's shared library, as the compiler finds it."""
    command = [*COMPILERS[compiler], f"-print-file-name={name}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert Path(said).is_absolute(), f"{compiler} has no {name}"
    return Path(said)


@dataclass(frozen=True)
class Way:
    """How a program comes to have both a sanitizer and HAKMEM."""

    compiler: str
    sanitizer: str
    first: str = ""  # the sanitizer's library, preloaded before HAKMEM
    flags: list[str] = field(default_factory=list)
    is_linked: bool = False

    def build(self, folder: Path, name: str) -> Path:
        target = folder / name
        words = [*COMPILERS[self.compiler], f"-fsanitize={self.sanitizer}", *FLAGS, *self.flags]
        words += [str(SOURCES / f"{name}.c"), str(SOURCES / "support.c"), "-o", str(target)]
        words += LINKED if self.is_linked else []
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
        return target

    def run(self, folder: Path, name: str, *arguments: str) -> Ended:
        preload = [] if self.is_linked else [LIBRARY]
        if self.first:
            preload.insert(0, runtime(self.compiler, self.first))
        return watch(folder, self.build(folder, name), *arguments, preload=preload)


ADDRESS = {
    "gcc-runtime-first": Way("gcc", "address", first="libasan.so"),
    "gcc-static-runtime": Way("gcc", "address", flags=["-static-libasan"]),
    "gcc-linked": Way("gcc", "address", is_linked=True),
    "clang": Way("clang", "address"),
    "clang-runtime-first": Way(
        "clang", "address", first="libclang_rt.asan-x86_64.so", flags=["-shared-libasan"]
    ),
    "clang-linked": Way("clang", "address", is_linked=True),
}
THREAD = {
    "gcc-runtime-first": Way("gcc", "thread", first="libtsan.so"),
    "gcc-linked": Way("gcc", "thread", is_linked=True),
    "clang": Way("clang", "thread"),
}
x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="its runtime's name says x86_64")
EVERY = [
    pytest.param(way, id=f"{way.sanitizer}-{name}", marks=[x86_64] if "x86_64" in way.first else [])
    for ways in (ADDRESS, THREAD)
    for name, way in ways.items()
]


def assert_ends_well(ended: Ended) -> None:
    assert (ended.status, ended.stdout) == (0, "ok\n"), ended


@pytest.mark.parametrize("way", EVERY)
def test_the_sanitizer_keeps_its_malloc(tmp_path: Path, way: Way) -> None:
    """All of it: blocks of HAKMEM's would meet the sanitizer's free, and the other way round."""
    ended = way.run(tmp_path, "every_name")
    assert_ends_well(ended)
    assert ended.blocks_taken == 0, ended
    assert ended.stderr == ""


@pytest.mark.parametrize("way", EVERY)
def test_it_finds_a_use_after_free(tmp_path: Path, way: Way) -> None:
    ended = way.run(tmp_path, "planted", "use-after-free")
    assert ended.status != 0, ended
    assert f"{way.sanitizer.capitalize()}Sanitizer: heap-use-after-free" in ended.stderr, ended


def test_threads_under_thread_sanitizer(tmp_path: Path) -> None:
    ended = THREAD["gcc-runtime-first"].run(tmp_path, "traffic", "300")
    assert_ends_well(ended)
    assert ended.stderr == ""


def test_memory_sanitizer(tmp_path: Path) -> None:
    way = Way("clang", "memory")
    ended = way.run(tmp_path, "planted", "none")
    assert_ends_well(ended)
    assert ended.blocks_taken == 0, ended
    ended = way.run(tmp_path, "planted", "uninitialised")
    assert "MemorySanitizer: use-of-uninitialized-value" in ended.stderr, ended


def test_leak_sanitizer(tmp_path: Path) -> None:
    way = Way("gcc", "leak", first="liblsan.so")
    ended = way.run(tmp_path, "planted", "leak")
    assert "LeakSanitizer: detected memory leaks" in ended.stderr, ended


def test_undefined_behaviour_sanitizer_has_no_malloc(tmp_path: Path) -> None:
    ended = Way("gcc", "undefined").run(tmp_path, "traffic", "300")
    assert_ends_well(ended)
    assert ended.blocks_taken, ended


def test_address_sanitizer_says_when_it_does_not_come_first(tmp_path: Path) -> None:
    """docs/guide/tools.md quotes it."""
    ended = Way("gcc", "address").run(tmp_path, "planted", "none")
    assert ended.status == 1, ended
    assert "ASan runtime does not come first in initial library list" in ended.stderr
