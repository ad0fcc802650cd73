#!/usr/bin/env python3
"""What each structure costs with more processors, threads and memory: docs/internals/scale.md.

Usage: scale.py [--check] [--run BUILD_FOLDER]

Sizes come from the code: tools/sizes.c is compiled against src/ and printed. The tables between the
marks of the page are written anew; with --check they must be as they would be written. --run also
measures: it runs programs with 1 to 256 shards and up to 10,000 threads, holds the computed figures
to what it finds, and writes the second half of the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "internals" / "scale.md"
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
KERNEL_PAGE = 4096

SHARDS = (1, 16, 64, 256)
MANY_THREADS = 10_000


def sizes() -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "sizes"
        source = ROOT / "tools" / "sizes.c"
        words = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-DHAK_DEBUG=0", f"-I{ROOT}/src"]
        subprocess.run([*words, "-o", program, source], check=True)
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in map(str.split, lines.splitlines())}


def amount(size: float) -> str:
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return (
                f"{size / unit:.3g} {name}" if size / unit < 1000 else f"{size / unit:,.0f} {name}"
            )
    return f"{size:.0f} bytes"


def pages(size: float) -> float:
    return -(-size // KERNEL_PAGE) * KERNEL_PAGE


def rows(lines: list[list[str]]) -> str:
    head, *body = lines
    written = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in written)


def structures(s: dict[str, int]) -> str:
    """One of each: addresses, and resident memory when it is in use."""
    supers_a_page = KERNEL_PAGE // s["super_pointer"]
    return rows([
        ["structure", "one for each", "addresses", "resident in use"],
        ["class map entry", f"slab of {amount(s['slab'])}", amount(s["map_entry"]),
         f"a page for {amount(KERNEL_PAGE // s['map_entry'] * s['slab'])} of heap"],
        ["pointer to a descriptor", f"SuperSlab of {amount(s['super'])}",
         amount(s["super_pointer"]), f"a page for {amount(supers_a_page * s['super'])} of heap"],
        ["descriptor", "SuperSlab", amount(s["descriptor"]),
         f"{amount(pages(s['descriptor_spans']))} with one span, "
         f"{amount(pages(s['descriptor']))} when all slabs have blocks under 512 bytes"],
        ["bit of the free set", "SuperSlab", "1 bit",
         f"a page for {amount(KERNEL_PAGE * 8 * s['super'])} of heap"],
        ["pools", "shard", amount(s["pools"]),
         f"a page for {KERNEL_PAGE // s['pool']} classes in use, of {s['classes']}"],
        ["lists of SuperSlabs", "shard", amount(s["span_shard"]), "the same"],
        ["thread", "thread alive at a time", amount(s["thread"]),
         f"{amount(2 * KERNEL_PAGE)}, {amount(s['row'])} for each row of foreign blocks, and 8 "
         "bytes for each block that its bins have room for"],
    ])  # fmt: skip


def totals(s: dict[str, int]) -> str:
    """By processors, threads and heap: one resource a line, the others at their least."""

    def shards(count: int) -> float:
        return count * (s["pools"] + s["span_shard"])

    def heap(size: float, descriptor: float) -> float:
        supers = size / s["super"]
        table = size / s["slab"] * s["map_entry"] + supers * s["super_pointer"]
        return table + supers * descriptor + supers / 8

    lines = [["for", "addresses", "resident at least", "resident at most"]]
    for count in (1, 16, 256):
        most = shards(count)
        least = count * 2 * KERNEL_PAGE
        lines.append(
            [
                f"{count} processor{'s' * (count > 1)}, all with threads",
                amount(most),
                amount(least),
                amount(most),
            ]
        )
    threads = MANY_THREADS
    most_thread = 2 * KERNEL_PAGE + (s["rows"] - 1) * s["row"]
    lines.append([
        f"{threads:,} threads, without what their bins hold", amount(threads * s["thread"]),
        amount(threads * 2 * KERNEL_PAGE), amount(threads * most_thread),
    ])  # fmt: skip
    lines += [
        [
            f"{amount(size)} of heap in use",
            amount(heap(size, s["descriptor"])),
            amount(heap(size, pages(s["descriptor_spans"]))),
            amount(heap(size, pages(s["descriptor"]))),
        ]
        for size in (GIB, TIB)
    ]
    return rows(lines)


# --- runs --------------------------------------------------------------------------------------


class Bench:
    def __init__(self, build: Path) -> None:
        self.build = build

    def run(self, shards: int, *words: str) -> tuple[dict[str, float], dict[str, float]]:
        """What the driver printed, and some of HAKMEM's statistics."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "statistics.json"
            environment = {
                "PATH": os.environ["PATH"],
                "LD_PRELOAD": str((self.build / "libhakmem.so").resolve()),
                "HAKMEM_OPTIONS": f"shards={shards},stats=exit:json,stats_file={path}",
            }
            driver, *arguments = words
            done = subprocess.run(
                [self.build / "bench" / driver, *arguments],
                env=environment, capture_output=True, text=True, check=True, timeout=600,
            )  # fmt: skip
            statistics = json.loads(path.read_text())
        printed = json.loads(done.stdout)
        locks = statistics["locks"].values()
        return printed, {
            "slow_calls": statistics["slow_calls"],
            "contended": sum(lock["contended"] for lock in locks),
            "metadata_bytes": statistics["metadata_bytes"],
            "mapped_bytes": statistics["mapped_bytes"],
        }

    def start_bytes(self, shards: int) -> float:
        """Anonymous memory of a process that has just started."""
        line = '[ "$name" = RssAnon: ] && echo "$value"'
        script = f"while read -r name value unit; do {line}; done </proc/self/status; exit 0"
        environment = {
            "LD_PRELOAD": str((self.build / "libhakmem.so").resolve()),
            "HAKMEM_OPTIONS": f"shards={shards}",
        }
        done = subprocess.run(
            ["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        return float(done.stdout) * KIB


def hold(what: str, found: float, low: float, high: float) -> None:
    if not low <= found <= high:
        sys.exit(f"scale: {what}: {amount(found)}, computed: {amount(low)} to {amount(high)}")


def measured(bench: Bench, s: dict[str, int]) -> str:
    lines = [[
        "shards", "at start", f"a thread, of {MANY_THREADS:,} asleep",
        "larson 16: ns", "peak", "slow calls", "contended of 1,000",
    ]]  # fmt: skip
    first = bench.start_bytes(1)
    _, heap = bench.run(1, "bulk_fifo")
    described = heap["mapped_bytes"] / s["super"] * s["descriptor"]
    one_thread = s["pools"] + s["thread"] + 64 * KIB
    hold("metadata of a heap", heap["metadata_bytes"], described, described + one_thread)
    for shards in SHARDS:
        start = bench.start_bytes(shards)
        more = (shards - 1) * (s["pools"] + s["span_shard"]) + 16 * KERNEL_PAGE
        hold(f"start with {shards} shards over 1", start - first, -16.0 * KERNEL_PAGE, more)
        asleep, _ = bench.run(shards, "idle_threads", str(MANY_THREADS))
        least = 2 * KERNEL_PAGE
        hold("a thread", asleep["thread_heap_bytes"], least, least + KERNEL_PAGE)
        larson, counted = bench.run(shards, "larson", "16")
        lines.append([
            str(shards), amount(start), amount(asleep["thread_heap_bytes"]),
            f"{larson['ns_per_op']:.0f}", amount(larson["peak_rss_bytes"]),
            f"{counted['slow_calls']:,.0f}",
            f"{1000 * counted['contended'] / counted['slow_calls']:.2f}",
        ])  # fmt: skip
    return rows(lines)


# --- the page ----------------------------------------------------------------------------------


def put(text: str, mark: str, table: str) -> str:
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        sys.exit(f"scale: {PAGE} has no place for {mark}")
    return pattern.sub(lambda _: f"{begin}\n{table}\n{end}", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", type=Path, metavar="BUILD_FOLDER")
    arguments = parser.parse_args()
    found = sizes()
    before = PAGE.read_text()
    text = put(put(before, "structures", structures(found)), "totals", totals(found))
    if arguments.run:
        text = put(text, "runs", measured(Bench(arguments.run), found))
    if arguments.check:
        if text != before:
            print(f"scale: {PAGE.relative_to(ROOT)} is out of date: run tools/scale.py")
        return int(text != before)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
