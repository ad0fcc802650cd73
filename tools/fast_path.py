#!/usr/bin/env python3
"""What malloc and free execute when they hit, from the machine code of the built library.

Usage: fast_path.py LIBRARY [--update] [--show]

tools/trace_calls.c runs the library's malloc and free one instruction at a time; this program
disassembles what ran, counts it, holds the counts against the limits, and compares the listing
with the reviewed one in tests/golden/, one a compiler and architecture. After a change that is
meant, `--update` writes the golden file anew: its diff is what a reviewer reads.

Being a recording of what ran, the listing cannot be of the wrong path. Every size of a group is
run, and each different path that the sizes take is listed.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import capstone
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"

SMALL = (1, 16, 24, 100, 256, 512, 1000, 1024)
MIDDLE = (1025, 1500, 2048, 3000, 8192, 20000, 32768)


@dataclass(frozen=True)
class Group:
    """Calls that share limits: (most instructions, most conditional branches), None if free."""

    title: str
    call: str
    sizes: tuple[int, ...]
    limits: tuple[int, int] | None


GROUPS = (
    Group("malloc, up to 1 KiB", "malloc", SMALL, (15, 2)),
    Group("malloc, 1 to 32 KiB", "malloc", MIDDLE, (26, 3)),
    Group("free, up to 1 KiB", "free", SMALL, (17, 2)),
    Group("free, 1 to 32 KiB", "free", MIDDLE, None),
)

COUNTED = ("instructions", "branches", "loads", "stores", "calls", "locked", "divisions")
NEVER = ("calls", "locked", "divisions")


class Image:
    """An ELF file: its code, and names for its addresses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            self.machine = {"x64": "x86_64", "AArch64": "aarch64"}[elf.get_machine_arch()]
            self.segments = [
                (s["p_vaddr"], s.data()) for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"
            ]
            self.compiler = self._read_compiler(elf)
            self.objects = sorted(self._read_objects(elf))
            self.slots = dict(self._read_slots(elf))
        if self.machine == "x86_64":
            self.disassembler = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        else:
            self.disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
        self.disassembler.detail = True

    @staticmethod
    def _read_compiler(elf: ELFFile) -> str:
        """Name and major version: the code of two majors differs without anybody's doing."""
        section = elf.get_section_by_name(".comment")
        text = section.data().decode(errors="replace") if section else ""
        for name, pattern in (("clang", r"clang version (\d+)"), ("gcc", r"GCC: \([^)]*\) (\d+)")):
            if found := re.search(pattern, text):
                return name + found[1]
        return "unknown"

    @staticmethod
    def _read_objects(elf: ELFFile) -> Iterator[tuple[int, int, str]]:
        for section in elf.iter_sections():
            if isinstance(section, SymbolTableSection):
                for symbol in section.iter_symbols():
                    if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_value"]:
                        begin = symbol["st_value"]
                        yield begin, begin + max(symbol["st_size"], 1), symbol.name

    @staticmethod
    def _read_slots(elf: ELFFile) -> Iterator[tuple[int, str]]:
        """Words that the dynamic linker fills in: address and what it puts there."""
        for section in elf.iter_sections():
            if not isinstance(section, RelocationSection):
                continue
            symbols = elf.get_section(section["sh_link"])
            for relocation in section.iter_relocations():
                name = ""
                if isinstance(symbols, SymbolTableSection) and relocation["r_info_sym"]:
                    name = symbols.get_symbol(relocation["r_info_sym"]).name
                yield relocation["r_offset"], name

    def bytes_at(self, address: int, length: int) -> bytes:
        for begin, data in self.segments:
            if begin <= address < begin + len(data):
                return bytes(data[address - begin : address - begin + length])
        raise ValueError(f"{self.path}: no code at {address:#x}")

    def instruction_at(self, address: int) -> capstone.CsInsn:
        return next(self.disassembler.disasm(self.bytes_at(address, 16), address, 1))

    def name_of(self, address: int) -> str:
        if address in self.slots:
            return f"got:{self.slots[address] or 'thread-local'}"
        for begin, end, name in self.objects:
            if begin <= address < end:
                # gcc numbers the copies and pieces it makes of a name.
                name = re.sub(r"\.\d+$", "", name)
                return name if address == begin else f"{name}+{address - begin}"
        return "data"


@dataclass
class HitPath:
    """One sequence of executed instructions."""

    instructions: list[capstone.CsInsn]
    image: Image
    sizes: list[int] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        result = dict.fromkeys(COUNTED, 0)
        for instruction in self.instructions:
            result["instructions"] += 1
            for kind in kinds_of(instruction, self.image.machine):
                result[kind] += 1
        return result

    def listing(self) -> Iterator[str]:
        """The instructions in words that moving code and data does not change."""
        line_of = {insn.address: n + 1 for n, insn in enumerate(self.instructions)}
        pages: dict[str, int] = {}
        for number, insn in enumerate(self.instructions, start=1):
            operands = insn.op_str
            if capstone.CS_GRP_JUMP in insn.groups and (
                target := re.search(r"#?0x[0-9a-f]+$", operands)
            ):
                line = line_of.get(int(target[0].lstrip("#"), 16))
                operands = operands[: target.start()] + (f"line {line}" if line else "elsewhere")
            elif self.image.machine == "x86_64":
                operands = self._name_x86_addresses(insn, operands)
            else:
                operands = self._name_arm_addresses(insn, operands, pages)
            yield f"{number:4d}  {insn.mnemonic:<8} {operands}".rstrip()

    def _name_x86_addresses(self, insn: capstone.CsInsn, operands: str) -> str:
        def name(found: re.Match[str]) -> str:
            offset = int(found[2], 16) * (-1 if found[1] == "-" else 1)
            return f"[{self.image.name_of(insn.address + insn.size + offset)}]"

        return re.sub(r"\[rip ([+-]) (0x[0-9a-f]+|\d+)\]", name, operands)

    def _name_arm_addresses(
        self, insn: capstone.CsInsn, operands: str, pages: dict[str, int]
    ) -> str:
        """adrp puts a page into a register; the next use of the register adds the rest."""
        first, _, rest = operands.partition(", ")
        if insn.mnemonic == "adrp":
            pages[first] = int(rest.lstrip("#"), 16)
            return f"{first}, page"
        used = re.search(
            r"\b(x\d+), #(0x[0-9a-f]+|\d+)", rest if insn.mnemonic == "add" else operands
        )
        if used and used[1] in pages:
            place = self.image.name_of(pages[used[1]] + int(used[2], 0))
            operands = operands.replace(used[0], f"{used[1]}, {place}")
        if not insn.mnemonic.startswith("st"):
            pages.pop(first, None)
        return operands


ARM_ATOMIC = re.compile(
    r"(ld|st)(a|l)?x[rp]|cas|swp|(ld|st)(add|clr|set|eor|[su]max|[su]min)|dmb|dsb"
)


def kinds_of(insn: capstone.CsInsn, machine: str) -> Iterator[str]:
    """Which of COUNTED an instruction is, besides an instruction."""
    memory = {"x86_64": capstone.x86.X86_OP_MEM, "aarch64": capstone.arm64.ARM64_OP_MEM}[machine]
    name = insn.mnemonic
    if capstone.CS_GRP_CALL in insn.groups:
        yield "calls"
    if machine == "x86_64":
        conditional = capstone.CS_GRP_JUMP in insn.groups and name != "jmp"
        touches = [op for op in insn.operands if op.type == memory]
        locked = insn.prefix[0] == 0xF0 or (name == "xchg" and bool(touches)) or name == "mfence"
        divides = name in ("div", "idiv")
        reads = (
            name != "lea"
            and name != "nop"
            and any(op.access & capstone.CS_AC_READ for op in touches)
        )
        writes = name != "lea" and any(op.access & capstone.CS_AC_WRITE for op in touches)
        reads, writes = reads or name == "pop", writes or name == "push"
    else:
        conditional = name.startswith(("b.", "cbz", "cbnz", "tbz", "tbnz"))
        locked = ARM_ATOMIC.match(name) is not None
        divides = name in ("udiv", "sdiv")
        reads, writes = name.startswith("ld"), name.startswith("st")
    for kind, holds in (
        ("branches", conditional),
        ("locked", locked),
        ("divisions", divides),
        ("loads", reads),
        ("stores", writes),
    ):
        if holds:
            yield kind


# What one call executed: (file, address) of each instruction; and that for each (call, size).
Trace = tuple[tuple[str, int], ...]
Traces = dict[tuple[str, int], Trace]


@functools.cache
def image_of(file: str) -> Image:
    return Image(Path(file))


def record(library: Path, tracer: Path) -> Traces:
    """Runs every size; of the repeats of a call, the shortest counts."""
    sizes = [str(size) for size in SMALL + MIDDLE]
    environment = {k: v for k, v in os.environ.items() if k not in ("HAKMEM_OPTIONS", "LD_PRELOAD")}
    run = subprocess.run(
        [tracer, *sizes],
        env=environment | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if run.returncode != 0:
        sys.exit(f"fast_path: {tracer.name} could not record {library}:\n{run.stderr}")
    traces: Traces = {}
    for line in run.stdout.splitlines():
        call, size, *places = line.split()
        steps = tuple(
            (file, int(hexa, 16)) for file, _, hexa in (p.rpartition(":") for p in places)
        )
        key = (call, int(size))
        if key not in traces or len(steps) < len(traces[key]):
            traces[key] = steps
    return traces


def paths_of(group: Group, traces: Traces) -> list[HitPath]:
    """The different paths of a group's sizes."""
    found: dict[Trace, list[int]] = defaultdict(list)
    for size in group.sizes:
        found[traces[group.call, size]].append(size)
    paths = []
    for steps, sizes in found.items():
        instructions = [image_of(file).instruction_at(address) for file, address in steps]
        paths.append(HitPath(instructions, image_of(steps[0][0]), sizes))
    return paths


def faults_of(group: Group, path: HitPath, compiler: str) -> list[str]:
    counts = path.counts()
    faults = [f"{counts[kind]} {kind}, allowed: none" for kind in NEVER if counts[kind]]
    # The limits are for gcc on x86-64; elsewhere the golden file alone guards the length.
    if group.limits and compiler.startswith("gcc") and path.image.machine == "x86_64":
        for kind, most in zip(("instructions", "branches"), group.limits, strict=True):
            if counts[kind] > most:
                faults.append(f"{counts[kind]} {kind}, allowed: {most}")
    return faults


def describe(sizes: list[int]) -> str:
    return "sizes " + ", ".join(map(str, sizes))


def golden_text(image: Image, groups: dict[Group, list[HitPath]]) -> str:
    lines = [
        f"# What a hit executes, compiled by {image.compiler} for {image.machine}.",
        "# Written by tools/fast_path.py --update; read the diff before committing it.",
    ]
    for group, paths in groups.items():
        for path in paths:
            counts = path.counts()
            figures = ", ".join(f"{counts[kind]} {kind}" for kind in COUNTED if counts[kind])
            lines += ["", f"{group.title} ({describe(path.sizes)}): {figures}", *path.listing()]
    return "\n".join(lines) + "\n"


def print_table(groups: dict[Group, list[HitPath]], compiler: str) -> int:
    """Prints every path's counts; returns how many break a limit."""
    header = f"{'path':<22}" + "".join(f"{kind:>14}" for kind in COUNTED) + "  limits"
    print(header)
    broken = 0
    for group, paths in groups.items():
        for path in paths:
            counts = path.counts()
            limits = (
                "{} instructions, {} branches".format(*group.limits) if group.limits else "none"
            )
            print(
                f"{group.title:<22}" + "".join(f"{counts[k]:>14}" for k in COUNTED) + f"  {limits}"
            )
            for fault in faults_of(group, path, compiler):
                print(f"    FAULT ({describe(path.sizes)}): {fault}")
                broken += 1
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "library", type=Path, nargs="?", default=ROOT / "build/release/libhakmem.so"
    )
    parser.add_argument("--tracer", type=Path, help="default: trace_calls beside the library")
    parser.add_argument("--update", action="store_true", help="write the golden file anew")
    parser.add_argument("--show", action="store_true", help="print the listings too")
    parser.add_argument("--limits-only", action="store_true", help="compare with no golden file")
    arguments = parser.parse_args()

    library = arguments.library.resolve()
    traces = record(library, arguments.tracer or library.parent / "trace_calls")
    misses = [
        f"{call} of {size} bytes: {len(steps)} instructions, some in {', '.join(sorted(elsewhere))}"
        for (call, size), steps in traces.items()
        if (elsewhere := {file for file, _ in steps} - {str(library)})
    ]
    if misses:
        sys.exit("fast_path: these calls do not hit:\n" + "\n".join(misses))
    groups = {group: paths_of(group, traces) for group in GROUPS}
    image = image_of(str(library))

    broken = print_table(groups, image.compiler)
    text = golden_text(image, groups)
    golden = GOLDEN / f"fast_path.{image.compiler}-{image.machine}.txt"
    if arguments.show:
        print(text)
    if arguments.limits_only:
        return 1 if broken else 0
    if arguments.update:
        golden.write_text(text)
        print(f"wrote {golden.relative_to(ROOT)}")
    elif not golden.exists():
        print(f"no {golden.relative_to(ROOT)}: this compiler's code is held to the limits only")
    elif golden.read_text() != text:
        broken += 1
        print(f"the fast paths are not those of {golden.relative_to(ROOT)}:", flush=True)
        subprocess.run(["diff", "-u", golden, "-"], input=text, text=True, check=False)
        print(f"if that is meant: tools/fast_path.py --update {library.relative_to(ROOT)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
