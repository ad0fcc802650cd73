"""An ELF file: its code, its functions, and names for its addresses.

The functions of a stripped library are still known, though not their names: unwinding an exception
or a stack needs their bounds (.eh_frame), and stripping keeps those.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import capstone
from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from hakmem_lab.errors import LabError
from hakmem_lab.machine_code.lines import Lines

_MACHINES = {"x64": "x86_64", "AArch64": "aarch64"}
_KINDS = ("ET_DYN", "ET_EXEC")
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_LONGEST_INSTRUCTION = 15
# What compilers hang on the name of a function that they have copied or cut into pieces.
_PIECE = re.compile(r"\.(part|isra|constprop|cold|lto_priv|llvm)\b.*$|\.\d+$")


class ElfError(LabError):
    """The file cannot be audited. Its message is one line that names the file."""

    exit_status = 2


@dataclass(frozen=True, order=True)
class Function:
    begin: int
    end: int
    name: str  # as the compiler named it; "" when the file does not say


def plain_name(function: str) -> str:
    """The name in the source: give_to for give_to.isra.0."""
    return _PIECE.sub("", function)


class Image:
    """One ELF file, read whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                elf = ELFFile(stream)
                if (kind := elf["e_type"]) not in _KINDS:
                    raise ElfError(f"{path} cannot be audited: it is no library but {kind}")
                self.machine = self._read_machine(elf)
                self.segments = [
                    (s["p_vaddr"], s.data())
                    for s in elf.iter_segments()
                    if s["p_type"] == "PT_LOAD"
                ]
                self.compiler = _read_compiler(elf)
                self.code = [
                    (section["sh_addr"], section.data())
                    for section in elf.iter_sections()
                    if section["sh_type"] == "SHT_PROGBITS" and section["sh_flags"] & _EXECUTABLE
                ]
                self.objects = sorted(_read_symbols(elf, "STT_OBJECT"))
                self.slots = dict(_read_slots(elf))
                self.is_stripped = elf.get_section_by_name(".symtab") is None
                self.functions = _without_overlap(
                    [*_read_symbols(elf, "STT_FUNC"), *_read_symbols(elf, "STT_GNU_IFUNC")],
                    _read_frames(elf),
                )
        except (ELFError, DWARFError) as error:
            raise ElfError(f"{path} cannot be audited: it is no whole ELF file ({error})") from None
        except OSError as error:
            raise ElfError(f"{path} cannot be read: {error.strerror}") from None
        self._begins = [function.begin for function in self.functions]

    def _read_machine(self, elf: ELFFile) -> str:
        name = elf.get_machine_arch()
        if name not in _MACHINES or elf.elfclass != 64:
            raise ElfError(
                f"{self.path} cannot be audited: it is code for {name}, {elf.elfclass} bits; "
                f"known are {' and '.join(_MACHINES.values())}"
            )
        return _MACHINES[name]

    @functools.cached_property
    def disassembler(self) -> capstone.Cs:
        """With detail: groups and operands of each instruction. For the few that were executed."""
        found = self._new_disassembler()
        found.detail = True
        return found

    @functools.cached_property
    def sweeper(self) -> capstone.Cs:
        """For all of the code: text only, and it steps over what is no instruction."""
        found = self._new_disassembler()
        found.skipdata = True
        return found

    def _new_disassembler(self) -> capstone.Cs:
        if self.machine == "x86_64":
            return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)

    @functools.cached_property
    def lines(self) -> Lines:
        return Lines(self.path)

    def bytes_at(self, address: int, length: int) -> bytes:
        for begin, data in self.segments:
            if begin <= address < begin + len(data):
                return bytes(data[address - begin : address - begin + length])
        raise ElfError(f"{self.path}: no code at {address:#x}")

    def instruction_at(self, address: int) -> capstone.CsInsn:
        code = self.bytes_at(address, _LONGEST_INSTRUCTION)
        for instruction in self.disassembler.disasm(code, address, 1):
            return instruction
        raise ElfError(f"{self.path}: unknown instruction at {address:#x}")

    def function_at(self, address: int) -> Function | None:
        place = bisect.bisect_right(self._begins, address) - 1
        if place >= 0 and address < self.functions[place].end:
            return self.functions[place]
        return None

    def name_of(self, address: int) -> str:
        """What lies there: an object, or a word that the dynamic linker fills in."""
        if address in self.slots:
            return f"got:{self.slots[address] or 'thread-local'}"
        for item in self.objects:
            if item.begin <= address < item.end:
                # gcc numbers the copies and pieces it makes of a name.
                name = re.sub(r"\.\d+$", "", item.name)
                return name if address == item.begin else f"{name}+{address - item.begin}"
        return "data"


@functools.cache
def image_of(file: str) -> Image:
    return Image(Path(file))


def _read_compiler(elf: ELFFile) -> str:
    """Name and major version: the code of two majors differs without anybody's doing."""
    section = elf.get_section_by_name(".comment")
    text = section.data().decode(errors="replace") if section else ""
    for name, pattern in (("clang", r"clang version (\d+)"), ("gcc", r"GCC: \([^)]*\) (\d+)")):
        if found := re.search(pattern, text):
            return name + found[1]
    return "unknown"


def _read_symbols(elf: ELFFile, kind: str) -> Iterator[Function]:
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection):
            continue
        for symbol in section.iter_symbols():
            begin = symbol["st_value"]
            if symbol["st_info"]["type"] == kind and begin and symbol["st_shndx"] != "SHN_UNDEF":
                yield Function(begin, begin + max(symbol["st_size"], 1), symbol.name)


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


def _read_frames(elf: ELFFile) -> Iterator[Function]:
    """The bounds of functions that unwinding knows, without names."""
    if elf.get_section_by_name(".eh_frame") is None:
        return
    for entry in elf.get_dwarf_info(follow_links=False).EH_CFI_entries():
        if isinstance(entry, FDE):
            begin = entry.header["initial_location"]
            yield Function(begin, begin + entry.header["address_range"], "")


def _without_overlap(named: list[Function], frames: Iterator[Function]) -> list[Function]:
    """One entry a stretch of code: of two names for it the shorter, and a name before none."""
    wanted = sorted(named, key=lambda item: (item.begin, -item.end, len(item.name), item.name))
    result: list[Function] = []
    for item in wanted:
        if not result or item.begin >= result[-1].end:
            result.append(item)
    begins = [item.begin for item in result]
    for frame in frames:
        place = bisect.bisect_right(begins, frame.begin) - 1
        covered = place >= 0 and frame.begin < result[place].end
        following = result[place + 1] if place + 1 < len(result) else None
        if not covered and (following is None or frame.end <= following.begin):
            result.insert(place + 1, frame)
            begins.insert(place + 1, frame.begin)
    return result
