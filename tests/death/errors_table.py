#!/usr/bin/env python3
"""Runs every memory error under every flavour and tells who sees it: docs/reference/errors.md.

    tests/death/errors_table.py --runs 1000           the table
    tests/death/errors_table.py --runs 1000 --write   into the page, too

A cell is a promise if the error was seen in all runs: "at once", before the call or the access that
makes it is over; "later", by a call behind it; "either". Else it says in which share of the runs it
was seen, or "–" for never. Needs `make` and `make debug`.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
BEGIN, END = "<!-- errors: begin -->", "<!-- errors: end -->"


@dataclass(frozen=True)
class Error:
    name: str
    text: str
    kinds: tuple[str, ...]


DOUBLE = ("double free",)
INVALID = ("invalid pointer",)
MISALIGNED = ("misaligned pointer",)
OVERFLOW = ("heap overflow",)
AFTER_FREE = ("use after free",)
MISMATCH = ("size mismatch",)
ERRORS = (
    Error("double-free", "double free", DOUBLE),
    Error("double-free-delayed", "double free, others freed between", DOUBLE),
    Error("double-free-across-threads", "double free, in another thread", DOUBLE),
    Error("double-free-after-realloc", "free of what `realloc` has moved", DOUBLE),
    Error("realloc-of-freed", "`realloc` of a freed block", DOUBLE),
    Error("free-inside", "free of a pointer inside a block", INVALID),
    Error("free-misaligned", "free of a misaligned pointer", MISALIGNED),
    Error("free-stack", "free of stack memory", INVALID),
    Error("free-static", "free of static memory", INVALID),
    Error("free-no-block", "free of an address of the heap where no block is", INVALID),
    Error("overflow-by-one", "a byte written behind a block", OVERFLOW),
    Error("underflow-by-one", "a byte written before a block", OVERFLOW),
    Error("underflow-of-first", "a byte written before the first block of a slab", OVERFLOW),
    Error("use-after-free-write", "a freed block written to", AFTER_FREE),
    Error("use-after-free-read", "a freed block read", AFTER_FREE),
    Error("sized-free-mismatch", "`free_sized` with another size", MISMATCH),
    Error("sized-delete-mismatch", "`delete` with another size", MISMATCH),
    Error("aligned-free-mismatch", "`free_aligned_sized` with another alignment", MISALIGNED),
)


@dataclass(frozen=True)
class Flavour:
    title: str
    build: str
    options: str | None  # None: the defaults of the debug flavour


FLAVOURS = (
    Flavour("release", "release", "guard_rate=0"),
    Flavour("`guard_rate=1`", "release", "guard_rate=1"),
    Flavour("`hardened=1`", "release", "hardened=1"),
    Flavour("`hardened=2`", "release", "hardened=2"),
    Flavour("debug", "debug", None),
)

SEEN = ("at once", "later", "either")


def outcome(error: Error, library: Path, program: Path, options: str | None) -> str:
    """ "at once", "later" or "not"; raises if the process ends in another way."""
    environment = {"LD_PRELOAD": str(library)}
    if options is not None:
        environment["HAKMEM_OPTIONS"] = options
    finished = subprocess.run(
        [program, error.name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    words = finished.stdout.split()
    if finished.returncode == 0 and words == ["made", "ended"]:
        return "not"
    kind = re.match(r"hakmem: ([a-z ]+): ", finished.stderr)
    if finished.returncode != -signal.SIGABRT or kind is None or kind[1] not in error.kinds:
        raise AssertionError(f"{error.name}, {options}: {finished}")
    return "later" if words == ["made"] else "at once"


def cell(outcomes: Counter[str]) -> str:
    runs, missed = outcomes.total(), outcomes["not"]
    if missed == runs:
        return "–"
    if missed:
        return f"{100 * (runs - missed) / runs:.0f} %"
    return "either" if outcomes["at once"] and outcomes["later"] else next(iter(outcomes))


def keeps(promise: str, seen: str) -> bool:
    """Whether an outcome is what a cell says."""
    if promise in SEEN:
        return seen == promise or (promise == "either" and seen != "not")
    return promise != "–" or seen == "not"


def read_page() -> dict[tuple[str, str], str]:
    """Cells by error's text and flavour's title."""
    lines = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip().splitlines()
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    return {
        (row[0], title): part
        for row in rows[2:]
        for title, part in zip(rows[0][1:], row[1:], strict=True)
    }


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=100, help="of each error and flavour")
    parser.add_argument("--write", action="store_true", help="puts the table into the page")
    arguments = parser.parse_args()
    rows = [
        f"| the program's error | {' | '.join(flavour.title for flavour in FLAVOURS)} |",
        "| --- |" + " --- |" * len(FLAVOURS),
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for error in ERRORS:
            cells = []
            for flavour in FLAVOURS:
                build = ROOT / "build" / flavour.build
                place = (
                    error,
                    build / "libhakmem.so",
                    build / "tests/death/errors",
                    flavour.options,
                )
                jobs = [pool.submit(outcome, *place) for _ in range(arguments.runs)]
                cells.append(cell(Counter(job.result() for job in jobs)))
            rows.append(f"| {error.text} | {' | '.join(cells)} |")
            print(rows[-1], flush=True)
    if arguments.write:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        told = f"{arguments.runs} runs of each cell, last on {date.today()} (commit {commit()})"
        after = re.sub(r"\d+ runs of each cell[^.]*", told, after)
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(rows) + f"\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
