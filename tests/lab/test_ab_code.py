"""What differs between two libraries, and whether a program runs it: on tiny libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hakmem_lab.ab import reach
from hakmem_lab.ab.code import Library
from hakmem_lab.ab.difference import Difference, differences
from hakmem_lab.errors import MissingError, NotMappedError, RunError
from hakmem_lab.measure import Command
from support import LIBRARY
from toy import compile_library, compile_program, source

ATOMIC = "__atomic_fetch_add(&trimmed, 1, __ATOMIC_RELAXED);"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command((str(compile_program(tmp_path_factory.mktemp("program"))),))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(source(), tmp_path_factory.mktemp("plain") / "library.so")


def differing(a: Path, b: Path) -> list[Difference]:
    return differences(Library(a), Library(b))


def test_a_change_is_found_in_its_function_alone(plain: Path, tmp_path: Path) -> None:
    changed = compile_library(source(trim=ATOMIC), tmp_path / "library.so")
    (found,) = differing(plain, changed)
    assert (found.function, found.kind) == ("malloc_trim", "changed")
    assert len(found.b) <= 2


def test_moved_code_is_no_change(plain: Path, tmp_path: Path) -> None:
    """Other addresses, other offsets to data, other alignment: the same functions."""
    before = "int in_front[1000] = {1}; int front(int a) { return in_front[a] * 3; }\n" + source()
    moved = compile_library(before, tmp_path / "library.so", "-falign-functions=64")
    (added,) = differing(plain, moved)
    assert (added.function, added.kind) == ("front", "added")


def test_our_own_library_is_itself() -> None:
    assert differing(LIBRARY, LIBRARY) == []
    assert {"malloc", "free", "front_trim"} <= set(Library(LIBRARY).functions)


def test_a_constant_or_table_that_is_used_counts_as_code(tmp_path: Path) -> None:
    text = "static const int table[64] = {[5] = @}; int use(int i) { return table[i]; }\n"
    one = compile_library(text.replace("@", "1"), tmp_path / "one.so")
    two = compile_library(text.replace("@", "2"), tmp_path / "two.so")
    assert [each.function for each in differing(one, two)] == ["use"]


def test_another_target_of_a_call_is_a_change(tmp_path: Path) -> None:
    text = (
        "__attribute__((noinline)) int one(int i) { return i + 1; }\n"
        "__attribute__((noinline)) int two(int i) { return i + 2; }\n"
        "int use(int i) { return @(i) * 3; }\n"
    )
    first = compile_library(text.replace("@", "one"), tmp_path / "one.so", "-fvisibility=hidden")
    second = compile_library(text.replace("@", "two"), tmp_path / "two.so", "-fvisibility=hidden")
    assert "use" in [each.function for each in differing(first, second)]


def test_another_target_of_a_jump_is_a_change(tmp_path: Path) -> None:
    """The same instructions, but for where one of them leads."""
    text = (
        'asm(".globl use\\n.type use,@function\\nuse:\\n cmp $1,%edi\\n je @\\n add $1,%edi\\n"\n'
        '    "1: add $2,%edi\\n2: mov %edi,%eax\\n ret\\n.size use,.-use");\n'
    )
    one = compile_library(text.replace("je @", "je 1f"), tmp_path / "one.so")
    two = compile_library(text.replace("je @", "je 2f"), tmp_path / "two.so")
    (found,) = differing(one, two)
    assert (len(found.a), len(found.b)) == (1, 1)


def test_executed_or_not(plain: Path, tmp_path: Path, program: Command) -> None:
    for changed, function, executed in (
        (source(trim=ATOMIC), "malloc_trim", False),
        (source(free=ATOMIC), "free", True),
        (source(work=21), "malloc", True),
    ):
        library = compile_library(changed, tmp_path / function / "library.so")
        change = reach.compare(plain, library)
        found = reach.run(change, plain, library, program)
        assert [each.function for each in found] == [function]
        assert (found[0].executed > 0) is executed


def test_a_cold_branch_of_a_hot_function_is_not_executed(
    plain: Path, tmp_path: Path, program: Command
) -> None:
    cold = source(free="if (__builtin_expect(block == (void *)8, 0)) { used = 0; sink = 7; }")
    other = cold.replace("sink = 7", "sink = 9")
    a = compile_library(cold, tmp_path / "a.so")
    b = compile_library(other, tmp_path / "b.so")
    change = reach.compare(a, b)
    assert [each.function for each in change.differences] == ["free"]
    assert [each.executed for each in reach.run(change, a, b, program)] == [0]


def test_threads_and_children_are_watched(plain: Path, tmp_path: Path, program: Command) -> None:
    library = compile_library(source(free=ATOMIC), tmp_path / "library.so")
    change = reach.compare(plain, library)
    child = Command(("/bin/sh", "-c", f"true; {program.words[0]}; exit 0"))
    assert [each.executed > 0 for each in reach.run(change, plain, library, child)] == [True]
    code = tmp_path / "threads.c"
    code.write_text(
        "#include <pthread.h>\n#include <stdlib.h>\n"
        "static void *run(void *p) { for (int i = 0; i < 9999; ++i) free((void *)8); return p; }\n"
        "int main(void) { pthread_t t[4]; for (int i = 0; i < 4; ++i) "
        "pthread_create(&t[i], 0, run, 0); for (int i = 0; i < 4; ++i) pthread_join(t[i], 0); }\n"
    )
    threads = tmp_path / "threads"
    subprocess.run(
        ["gcc", "-O1", "-fno-builtin", "-pthread", "-w", code, "-o", threads], check=True
    )
    found = reach.run(change, plain, library, Command((str(threads),)))
    assert [each.executed > 0 for each in found] == [True]


def test_a_program_that_fails_or_is_not_preloaded_proves_nothing(
    plain: Path, tmp_path: Path
) -> None:
    library = compile_library(source(free=ATOMIC), tmp_path / "library.so")
    change = reach.compare(plain, library)
    with pytest.raises(RunError):
        reach.run(change, plain, library, Command(("/bin/false",)))
    with pytest.raises(RunError, match="cannot run"):
        reach.run(change, plain, library, Command(("/no/such/program",)))
    code = tmp_path / "static.c"
    code.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", code, "-o", tmp_path / "static"], check=True)
    with pytest.raises(NotMappedError):
        reach.run(change, plain, library, Command((str(tmp_path / "static"),)))


def test_a_stripped_library_says_so(plain: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", plain, "-o", stripped], check=True)
    change = reach.compare(plain, stripped)
    assert not change.complete
    assert not change.identical


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    with pytest.raises(MissingError, match="not a library"):
        Library(text)


def test_what_lies_behind_a_loop_is_no_change(tmp_path: Path) -> None:
    """A loop over a table stops at its end, where another object may begin, or nothing."""
    text = """
    .text
    .globl walk
    .type walk, STT_FUNC
walk:
    lea table(%rip), %rax
    lea table+16(%rip), %rcx
1:  cmp %rcx, %rax
    je 2f
    add $8, %rax
    jmp 1b
2:  ret
    .size walk, . - walk
    .section .note.GNU-stack, ""
    .section .data.rel.ro, "aw"
    .type table, STT_OBJECT
table: .quad walk, walk
    .size table, 16
    @
"""
    behind = ".type other, STT_OBJECT\nother: .quad walk\n.size other, 8\n"
    one = compile_library(text.replace("@", behind), tmp_path / "one.so", language="assembler")
    two = compile_library(text.replace("@", ".quad 0\n"), tmp_path / "two.so", language="assembler")
    assert differing(one, two) == []
    changed = text.replace("table+16(", "table+12(").replace("@", behind)
    three = compile_library(changed, tmp_path / "three.so", language="assembler")
    assert [each.function for each in differing(one, three)] == ["walk"]
