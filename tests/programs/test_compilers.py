"""gcc and g++ on large generated files: assembler, objects and programs must be the same bytes."""

import pytest

from hakmem_lab.programs.sources import c_source, cxx_source
from harness import Sides, assert_same, assert_same_files, assert_same_text, run, write_both


def compile_on_both(sides: Sides, *words: str) -> None:
    """Compiles with debug information, which would name the folder of its side."""
    results = sides.at_once(
        lambda side: run(side, *words, "-g", f"-fdebug-prefix-map={side.work}=.", timeout=200)
    )
    assert_same_text(sides, [result.stderr for result in results])


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_gcc(sides: Sides, level: str) -> None:
    write_both(sides, "large.c", c_source(500))
    compile_on_both(sides, "/usr/bin/gcc", level, "-Wall", "-S", "large.c", "-o", "large.s")
    assert_same(sides, "/usr/bin/gcc", "-c", "large.s", "-o", "large.o")
    assert_same(sides, "/usr/bin/gcc", "large.o", "-o", "large")
    assert len(assert_same_files(sides, "large.s", "large.o", "large")) == 3
    assert int(assert_same(sides, "./large")) > 0


def test_gcc_link_time_optimisation(sides: Sides) -> None:
    """Compiler, linker and the linker's compilers are a tree of processes that share a preload."""
    write_both(sides, "large.c", c_source(200))
    write_both(sides, "other.c", "unsigned other(unsigned n) { return n * 3; }\n")
    lto = ("-O2", "-flto=2", "-frandom-seed=1", "large.c", "other.c", "-o", "large")
    assert_same(sides, "/usr/bin/gcc", *lto)
    assert int(assert_same(sides, "./large")) > 0


def test_gxx(sides: Sides) -> None:
    write_both(sides, "large.cc", cxx_source(14))
    flags = ("-std=c++17", "-O1", "-c")
    compile_on_both(sides, "/usr/bin/g++", *flags, "large.cc", "-o", "large.o")
    assert_same(sides, "/usr/bin/g++", "large.o", "-o", "large")
    assert len(assert_same_files(sides, "large.o", "large")) == 2
    assert int(assert_same(sides, "./large")) > 0


def test_errors_are_the_same(sides: Sides) -> None:
    """Diagnostics make a compiler allocate in other places than code does."""
    broken = c_source(60).replace("unsigned total = 0;", "unsigned totl = 0;")
    write_both(sides, "broken.c", broken)
    assert_same(sides, "/usr/bin/gcc", "-fmax-errors=0", "-c", "broken.c", succeeds=False)
