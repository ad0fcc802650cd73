"""stress-ng's memory stressors, each verifying what it wrote; bounded by operations and memory."""

from __future__ import annotations

import subprocess

import pytest

from harness import TIMES, Filter, Side, Sides, assert_same_text, run
from servers import Server

# Operations, not seconds, so that both sides do the same work, and what keeps each stressor small.
# Those that would grow until memory runs out (bigheap, brk, stack) have a limit of operations too,
# and all of them one of address space. A name before a slash is a stressor with other options.
STRESSORS = {
    "malloc": ("--malloc-ops", "80000", "--malloc-bytes", "256k", "--malloc-max", "2048"),
    "malloc/small": ("--malloc-ops", "800000", "--malloc-bytes", "2k", "--malloc-touch"),
    "malloc/threads": ("--malloc-ops", "60000", "--malloc-pthreads", "3", "--malloc-bytes", "128k"),
    "bigheap": ("--bigheap-ops", "200", "--bigheap-growth", "2m"),
    # Otherwise it writes to the byte below the break that it finds, which exists only where malloc
    # itself gets its memory from there.
    "brk": ("--brk-ops", "400000", "--brk-notouch"),
    "mmap": ("--mmap-ops", "20", "--mmap-bytes", "16m"),
    "mremap": ("--mremap-ops", "60", "--mremap-bytes", "8m"),
    "madvise": ("--madvise-ops", "16"),
    "memcpy": ("--memcpy-ops", "60"),
    "memfd": ("--memfd-ops", "30", "--memfd-bytes", "16m"),
    "memrate": ("--memrate-ops", "2", "--memrate-bytes", "16m"),
    "memthrash": ("--memthrash-ops", "4"),
    "remap": ("--remap-ops", "40"),
    "stack": ("--stack-ops", "3"),
    "stackmmap": ("--stackmmap-ops", "30"),
    "vm": ("--vm-ops", "20000", "--vm-bytes", "16m"),
    "vm-rw": ("--vm-rw-ops", "600", "--vm-rw-bytes", "8m"),
    "str": ("--str-ops", "100000"),
    "bsearch": ("--bsearch-ops", "60", "--bsearch-size", "65536"),
    "hsearch": ("--hsearch-ops", "1200"),
    "list": ("--list-ops", "40"),
    "mergesort": ("--mergesort-ops", "40", "--mergesort-size", "65536"),
    "qsort": ("--qsort-ops", "60", "--qsort-size", "16384"),
    "skiplist": ("--skiplist-ops", "60", "--skiplist-size", "16384"),
    "sparsematrix": ("--sparsematrix-ops", "8"),
    "tree": ("--tree-ops", "6", "--tree-size", "20000"),
    "tsearch": ("--tsearch-ops", "30", "--tsearch-size", "32768"),
    "zlib": ("--zlib-ops", "10"),
    "fork": ("--fork-ops", "2000"),
    "vfork": ("--vfork-ops", "4000"),
    "pthread": ("--pthread-ops", "3000", "--pthread-max", "64"),
}


def stress(side: Side, stressor: str) -> str:
    name = stressor.split("/")[0]
    limit = ("/usr/bin/prlimit", f"--as={3 << 30}")
    common = ("--verify", "--no-rand-seed", "--temp-path", str(side.work), "--timeout", "60")
    seen: set[int] = set()

    def watch(process: subprocess.Popen[str]) -> None:
        server = Server(side, process)
        server.assert_mapped_during(process)
        seen.update(server.seen)

    command = ("/usr/bin/stress-ng", f"--{name}", "2", *STRESSORS[stressor], *common)
    # Its malloc stressor writes to blocks of 0 bytes; guard sampling would by chance end it for that.
    options = f"stats=exit:json,stats_file={side.statistics}/%p.json,guard_rate=0"
    sampling = {"HAKMEM_OPTIONS": options} if name == "malloc" else None
    result = run(side, *limit, *command, watch=watch, timeout=90, environment=sampling)
    # stress-ng's children end by _exit, without statistics; they were seen at work.
    assert side.library is None or len(seen) >= 2, f"no stressor seen: {result}"
    return result.stdout + result.stderr


@pytest.mark.parametrize("stressor", STRESSORS)
def test_verified(sides: Sides, stressor: str) -> None:
    glibc, hakmem = sides.at_once(lambda side: stress(side, stressor))
    assert "successful run completed" in glibc and "fail" not in glibc
    pid = Filter(r"\[\d+\]", "[<pid>]")
    rate = Filter(r" +\d+\.\d+ (get|put)/s", " <rate>")
    assert_same_text(sides, (glibc, hakmem), pid, rate, TIMES)
