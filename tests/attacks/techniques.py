"""What each attack needs, where it works, and what comes of it under HAKMEM.

These rows are the parameters of the tests here, and the table of docs/reference/attacks.md:

    python3 tests/attacks/techniques.py     prints it
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

BUILD = Path(os.environ.get("HAKMEM_BUILD", "build/release")).resolve()
LIBRARY = Path(os.environ.get("HAKMEM_LIBRARY", BUILD / "libhakmem.so")).resolve()
FOLDER = BUILD / "tests" / "attacks"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "attacks.md"

# The one whose outcomes stand in the rows: others check more, or less.
GLIBC = "2.36"

# What an attacker has won, worst first; "abort" and "none" are no win.
WINS = ("outside", "write", "overlap", "interior", "duplicate", "leak")

DOUBLE = ("double free",)
INVALID = ("invalid pointer",)
OVERFLOW = ("heap overflow",)
STALE = ("use after free",)
SILENT = ()


@dataclass(frozen=True)
class Bug:
    """What a program must do wrong, and which reports that ends in: in release, sooner or later; at
    hardened=1; at hardened=2 by its checks alone (guard_rate=0), which also look whether freed
    memory was written to; where each block lies between inaccessible pages (guard_rate=1)."""

    words: str
    release: tuple[str, ...]
    hardened: tuple[str, ...]
    filled: tuple[str, ...]
    guarded: tuple[str, ...]

    @property
    def all_on(self) -> tuple[str, ...]:
        """At hardened=2 as it is, where the first blocks of each size class are guarded."""
        return tuple(dict.fromkeys(self.filled + self.guarded))


TWICE = Bug("double free", DOUBLE, DOUBLE, DOUBLE, DOUBLE)
TWICE_UNMARKED = Bug("double free, write to the freed block", DOUBLE, DOUBLE, DOUBLE, STALE)
FAKE = Bug("free of memory with a fake chunk", INVALID, INVALID, INVALID, INVALID)
BEYOND = Bug(
    "free of a pointer behind a block, with a fake chunk",
    INVALID,
    INVALID,
    INVALID,
    OVERFLOW + INVALID,  # by the side on which the block has its inaccessible page
)
INSIDE = Bug("free of a pointer into a block", INVALID, INVALID, INVALID, INVALID)
BEHIND = Bug("write of a word or more behind a block", SILENT, OVERFLOW, OVERFLOW, OVERFLOW)
BEHIND_AND_READ = replace(BEHIND, guarded=STALE)  # it looks for links in a freed block first
ZERO = Bug("write of a zero byte behind a block", SILENT, OVERFLOW, OVERFLOW, OVERFLOW)
FREED = Bug("write to a freed block", SILENT, SILENT, STALE, STALE)
FREED_BEHIND = Bug(
    "write to a freed block and behind another", SILENT, OVERFLOW, OVERFLOW + STALE, STALE
)
READ = Bug("read of a freed block", SILENT, SILENT, SILENT, STALE)
FRONT = Bug("write far in front of a block", SILENT, SILENT, SILENT, OVERFLOW)


@dataclass(frozen=True)
class Technique:
    """Outcomes: on this glibc; on the weak allocator of this folder, None where that is not of the
    kind; and in HAKMEM's release."""

    bug: Bug
    glibc: str
    weak: str | None
    release: str


TECHNIQUES = {
    "tcache_dup": Technique(TWICE, "abort", "duplicate", "duplicate"),
    "tcache_double_free_by_key": Technique(TWICE_UNMARKED, "duplicate", "duplicate", "duplicate"),
    "fastbin_dup": Technique(TWICE, "duplicate", "duplicate", "duplicate"),
    "fastbin_dup_into_stack": Technique(TWICE, "outside", "outside", "duplicate"),
    "fastbin_dup_consolidate": Technique(TWICE, "duplicate", "duplicate", "duplicate"),
    "house_of_botcake": Technique(TWICE, "outside", "outside", "duplicate"),
    "tcache_poisoning": Technique(FREED, "outside", "outside", "none"),
    "fastbin_poisoning": Technique(FREED, "outside", "outside", "none"),
    "decrypt_safe_linking": Technique(READ, "leak", "leak", "none"),
    "unsorted_bin_leak": Technique(READ, "leak", "leak", "none"),
    "fastbin_reverse_into_tcache": Technique(FREED, "outside", "outside", "none"),
    "tcache_stashing_unlink": Technique(FREED, "outside", None, "none"),
    "tcache_metadata_poisoning": Technique(FRONT, "outside", "outside", "none"),
    "house_of_io": Technique(READ, "none", "outside", "none"),
    "tcache_house_of_spirit": Technique(FAKE, "outside", "outside", "abort"),
    "house_of_spirit": Technique(FAKE, "outside", "outside", "abort"),
    "house_of_spirit_in_static_memory": Technique(FAKE, "outside", "outside", "abort"),
    "free_of_an_interior_pointer": Technique(INSIDE, "interior", "interior", "interior"),
    "free_of_a_pointer_behind_blocks": Technique(BEYOND, "overlap", "overlap", "overlap"),
    "free_of_an_interior_pointer_of_pages": Technique(INSIDE, "interior", "interior", "abort"),
    "overlapping_chunks": Technique(BEHIND, "abort", "overlap", "none"),
    "overlapping_chunks_2": Technique(BEHIND, "overlap", "overlap", "none"),
    "poison_null_byte": Technique(ZERO, "abort", "overlap", "none"),
    "house_of_einherjar": Technique(ZERO, "interior", "interior", "none"),
    "unsafe_unlink": Technique(BEHIND, "write", "write", "none"),
    "mmap_overlapping_chunks": Technique(BEHIND, "overlap", None, "none"),
    "calloc_of_a_mapped_chunk": Technique(BEHIND, "leak", None, "none"),
    "house_of_lore": Technique(FREED, "outside", "outside", "none"),
    "unsorted_bin_attack": Technique(FREED, "abort", "write", "none"),
    "unsorted_bin_into_stack": Technique(FREED_BEHIND, "abort", "outside", "none"),
    "house_of_rabbit": Technique(FREED, "outside", "outside", "none"),
    "large_bin_attack": Technique(FREED, "write", None, "none"),
    "house_of_force": Technique(BEHIND, "abort", "outside", "none"),
    "house_of_orange": Technique(BEHIND, "abort", "write", "none"),
    "house_of_tangerine": Technique(BEHIND_AND_READ, "outside", "outside", "none"),
    "house_of_mind_fastbin": Technique(BEHIND, "write", None, "none"),
}


@dataclass(frozen=True)
class Run:
    status: int
    lines: list[str]
    reports: list[str]

    @property
    def kind(self) -> str:
        """Of its one report by HAKMEM, which may have stacks."""
        (report,) = (line for line in self.reports if not line.startswith("hakmem:  "))
        begin, kind, _ = report.split(": ", 2)
        assert begin == "hakmem", report
        return kind


def attack(*arguments: str, preload: Path | None = None, options: str = "") -> Run:
    environment = {"HAKMEM_OPTIONS": options}
    if "HANG_SECONDS" in os.environ:
        environment["HANG_SECONDS"] = os.environ["HANG_SECONDS"]
    if preload is not None:
        assert preload.exists(), preload
        environment["LD_PRELOAD"] = str(preload)
    finished = subprocess.run(
        [FOLDER / "attacks", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Run(finished.returncode, finished.stdout.splitlines(), finished.stderr.splitlines())


def report_words(technique: Technique) -> str:
    """When release reports, and what."""
    if not technique.bug.release:
        return ""
    when = "at the call" if technique.release == "abort" else "when it goes home"
    return f"`{' or '.join(technique.bug.release)}`, {when}"


def kind_words(kinds: tuple[str, ...]) -> str:
    return " or ".join(f"`{kind}`" for kind in kinds) or "none"


def table() -> list[str]:
    heads = [
        "technique",
        "the program's bug",
        f"glibc {GLIBC}",
        "without checks",
        "release",
        "release reports",
        "`hardened=1`",
        "`hardened=2,guard_rate=0`",
        "`hardened=2`",
    ]
    rows = [
        [
            f"`{name}`",
            technique.bug.words,
            technique.glibc,
            technique.weak or "",
            "nothing" if technique.release in ("none", "abort") else technique.release,
            report_words(technique),
            kind_words(technique.bug.hardened),
            kind_words(technique.bug.filled),
            kind_words(technique.bug.all_on),
        ]
        for name, technique in TECHNIQUES.items()
    ]
    return ["| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *rows]]


if __name__ == "__main__":
    print("\n".join(table()))
