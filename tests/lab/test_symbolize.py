"""Reports with file and line: of a program that HAKMEM ends, and of lines made up."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.symbolize import frame_of, symbolize
from support import LIBRARY, hakmem

# Functions without a name at run time: static, and one that its caller has swallowed. peek faults
# at its first instruction, before which another function ends.
PROGRAM = """
#include <stdlib.h>
__attribute__((noipa)) static int before(int x) { return x + 1; }
__attribute__((noipa)) static int peek(const int *p) {
    return *p; /* the fault */
}
__attribute__((always_inline)) static inline int swallowed(int *block) {
    free(block); /* the free */
    return peek(block) + 1; /* the use */
}
int main(int argc, char **argv) {
    (void)argv;
    int *block = malloc(100); /* the block */
    block[1] = before(argc);
    int result = swallowed(block); /* swallowed */
    return result + block[1];
}
"""


def line_of(comment: str) -> int:
    lines = PROGRAM.splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"/* {comment} */"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    source, program = folder / "program.c", folder / "program"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O2", source, "-o", program], check=True)
    done = subprocess.run(
        [program],
        env={"LD_PRELOAD": str(LIBRARY), "HAKMEM_OPTIONS": "guard_rate=1"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == -6, done.stderr
    target = folder / "report"
    target.write_text("a line of the program's\n" + done.stderr)
    return target


def test_a_report_with_file_and_line(report: Path) -> None:
    done = hakmem("symbolize", report)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a line of the program's\nhakmem: use after free: read")
    accessed, freed, allocated = re.split(r"hakmem:   \w+ by thread \d+:\n", done.stdout)[1:]
    program = report.parent / "program"

    def told(stack: str) -> list[tuple[str, str]]:
        """Function and line, as far as they are of the program."""
        return re.findall(rf"((?:inlined into )?\w+) at {program}\.c:(\d+)", stack)

    def at(function: str, comment: str) -> tuple[str, str]:
        return function, str(line_of(comment))

    outer = at("inlined into main", "swallowed")
    use = [at("peek", "the fault"), at("swallowed", "the use"), outer]
    assert told(accessed)[:3] == use
    assert told(freed)[:2] == [at("swallowed", "the free"), outer]
    assert told(allocated)[0] == at("main", "the block")
    assert f"({program}+0x" in accessed


def test_standard_input_is_read_as_it_comes(report: Path) -> None:
    with report.open() as text:
        done = subprocess.run(
            ["bin/hakmem", "symbolize"],
            cwd=Path(__file__).resolve().parents[2],
            stdin=text,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == hakmem("symbolize", report).stdout


def test_what_cannot_be_read_stays() -> None:
    lines = [
        "hakmem:     #0 0x1234 drop+0x9 (/no such/server (deleted)+0x119a)",
        f"hakmem:     #1 0x1234 ({__file__}+0x10)",
        "hakmem:     #2 0x1234 (unknown)",
        "#3 0x1234 main+0x3 (relative+0x10)",
    ]
    missing: set[str] = set()
    assert list(symbolize(lines, missing)) == lines
    assert missing == {"/no such/server (deleted)", __file__}
    frame = frame_of(lines[0])
    assert frame is not None and (frame.symbol, frame.offset) == ("drop", 0x119A)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = hakmem("symbolize", tmp_path / "nothing")
    assert done.returncode == 2 and f"cannot read {tmp_path}/nothing" in done.stderr
    log = tmp_path / "log"
    log.write_text("hakmem:     #0 0x1234 (/no/server+0x119a)\n")
    done = hakmem("symbolize", log)
    assert done.returncode == 0 and "cannot read /no/server" in done.stderr


def test_programs_that_lie_where_they_were_linked(tmp_path: Path) -> None:
    source, program = tmp_path / "fixed.c", tmp_path / "fixed"
    source.write_text("static int f(int x) { return x; }\nint main(void) { return f(0); }\n")
    subprocess.run(["gcc", "-g", "-O0", "-no-pie", source, "-o", program], check=True)
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = int(re.search(r"^([0-9a-f]+) t f$", names, re.MULTILINE)[1], 16)  # type: ignore[index]
    offset = address + 1 - 0x400000
    (line,) = symbolize([f"#0 0x{address + 1:x} ({program}+0x{offset:x})"], set())
    assert f"f at {source}:1 ({program}+0x{offset:x})" in line
