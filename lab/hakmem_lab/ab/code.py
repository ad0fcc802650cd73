"""The functions of a library, in words that moving code and data does not change, and in which
instructions two libraries differ.

Two builds never have the same bytes: a line added in one place moves everything behind it, and each
reference to what moved is other bytes. So operands that are addresses are put into names: a call
names the function, a memory operand the object and the place in it (and what a constant holds), a
jump inside a function the instruction that it leads to. What is then still different is a change.

Needs the symbol table (.symtab). In a stripped library only exported functions have names, and
what the others do cannot be told; `is_complete` says so.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import capstone
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from hakmem_lab.errors import MissingError

_CONSTANTS = (".rodata", ".data.rel.ro")
_PLAIN_DATA = (".rodata", ".data")
_JUMP = re.compile(r"#?0x[0-9a-f]+$")
_X86_PLACE = re.compile(r"\[rip (?P<sign>[+-]) (?P<offset>0x[0-9a-f]+|\d+)\]")
_ARM_PLACE = re.compile(r"\b(x\d+), #(0x[0-9a-f]+|\d+)")
_NUMBERED = re.compile(r"\.(constprop|isra|part|lto_priv)\.\d+|\.\d+(?=\.|$)")


@dataclass(frozen=True)
class Instruction:
    address: int
    text: str
    target: int | None = None  # of a jump inside the function
    also: str = ""  # another way to read it: the end of one object may be where another begins


@dataclass(frozen=True)
class Symbol:
    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class Function:
    name: str
    begin: int
    instructions: tuple[Instruction, ...]

    @cached_property
    def shape(self) -> tuple[tuple[str, int | None], ...]:
        """The same for two functions that do the same."""
        number = {each.address: n for n, each in enumerate(self.instructions)}
        return tuple(
            (each.text, None if each.target is None else number.get(each.target, -1))
            for each in self.instructions
        )

    def worded_as(self, other: Function) -> Function:
        """What can be read in two ways is read as it can be in the other function."""
        texts = {each.text for each in other.instructions}
        readings = texts | {each.also for each in other.instructions} - {""}
        return replace(
            self,
            instructions=tuple(
                replace(each, text=each.also)
                if each.text not in texts and each.also in readings
                else each
                for each in self.instructions
            ),
        )


class Library:
    """An ELF file, read when it is made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                self._read(ELFFile(stream))
        except ELFError as error:
            raise MissingError(f"{path} is not a library: {error}") from None
        self._starts = [symbol.begin for symbol in self._objects]
        self._jumps_to: dict[int, str] = {}  # entries of the procedure linkage table
        self.functions = {
            name: self._disassemble(name, symbol) for name, symbol in self._code.items()
        }

    def _read(self, elf: ELFFile) -> None:
        machine = elf.get_machine_arch()
        if machine == "x64":
            self._disassembler = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        elif machine == "AArch64":
            self._disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
        else:
            raise MissingError(f"{self.path} is code for {machine}, which is not understood here")
        self._is_x86 = machine == "x64"
        self._disassembler.detail = True
        self._sections = [
            (each["sh_addr"], each["sh_addr"] + each["sh_size"], each.name, each.data())
            for each in elf.iter_sections()
            if each["sh_flags"] & 2 and each["sh_type"] != "SHT_NOBITS"
        ]
        self._segments = [
            (each["p_vaddr"], each["p_vaddr"] + each["p_filesz"], each["p_offset"])
            for each in elf.iter_segments()
            if each["p_type"] == "PT_LOAD"
        ]
        self._slots = _slots(elf)
        self.is_complete = elf.get_section_by_name(".symtab") is not None
        table = elf.get_section_by_name(".symtab" if self.is_complete else ".dynsym")
        self._code, self._objects = _symbols(table)
        self._entries = {symbol.begin: name for name, symbol in self._code.items()}

    def file_offset(self, address: int) -> int:
        for begin, end, offset in self._segments:
            if begin <= address < end:
                return int(address - begin + offset)
        raise ValueError(f"{address:#x} is in no segment of {self.path}")

    def _bytes(self, begin: int, end: int) -> bytes:
        for start, stop, _, data in self._sections:
            if start <= begin < stop:
                return bytes(data[begin - start : min(end, stop) - start])
        return b""

    def _section(self, address: int) -> str:
        return next((n for begin, end, n, _ in self._sections if begin <= address < end), "")

    def _disassemble(self, name: str, symbol: Symbol) -> Function:
        pages: dict[str, int] = {}  # AArch64: what adrp has put into which register
        instructions = []
        code = self._bytes(symbol.begin, symbol.end)
        disassembled = list(self._disassembler.disasm(code, symbol.begin))
        used = self._used_objects(disassembled)
        for insn in disassembled:
            target, operands = self._operands(insn, symbol, pages)
            text = f"{insn.mnemonic} {operands}".strip()
            if insn.mnemonic != "nop":
                also = self._read_as_end(insn, used)
                instructions.append(Instruction(insn.address, text, target, also))
        return Function(name, symbol.begin, tuple(instructions))

    def _used_objects(self, disassembled: Iterable[Any]) -> dict[int, Symbol]:
        """Objects that a function names, by their ends. Not on AArch64, where addresses are put
        together in parts."""
        used = {}
        for insn in disassembled if self._is_x86 else ():
            if found := _X86_PLACE.search(insn.op_str):
                place = bisect_right(self._starts, _place_of(insn, found)) - 1
                if place >= 0 and _place_of(insn, found) < self._objects[place].end:
                    used[self._objects[place].end] = self._objects[place]
        return used

    def _read_as_end(self, insn: Any, used: Mapping[int, Symbol]) -> str:
        """An address that is taken may be where a loop over an object stops; what lies there is
        chance."""
        found = _X86_PLACE.search(insn.op_str) if insn.mnemonic == "lea" else None
        ended = used.get(_place_of(insn, found)) if found else None
        if not found or not ended:
            return ""
        operands = str(insn.op_str).replace(found[0], f"[end of {_unnumbered(ended.name)}]")
        return f"{insn.mnemonic} {operands}"

    def _operands(
        self, insn: Any, function: Symbol, pages: dict[str, int]
    ) -> tuple[int | None, str]:
        """The operands in names; and where a jump leads, if that is inside the function."""
        operands = str(insn.op_str)
        leads = capstone.CS_GRP_JUMP in insn.groups or capstone.CS_GRP_CALL in insn.groups
        if leads and (found := _JUMP.search(operands)):
            target = int(found[0].lstrip("#"), 16)
            if function.begin < target < function.end:
                return target, operands[: found.start()] + "inside"
            return None, operands[: found.start()] + self._function_at(target)
        if self._is_x86:
            return None, _X86_PLACE.sub(
                lambda found: f"[{self._name(_place_of(insn, found), _width(insn))}]", operands
            )
        return None, self._arm_operands(insn, operands, pages)

    def _arm_operands(self, insn: Any, operands: str, pages: dict[str, int]) -> str:
        """adrp puts a page into a register, and the next use of the register adds the rest."""
        first, _, rest = operands.partition(", ")
        if insn.mnemonic == "adrp":
            pages[first] = int(rest.lstrip("#"), 16)
            return f"{first}, page"
        searched = rest if insn.mnemonic == "add" else operands
        used = _ARM_PLACE.search(searched)
        if used and used[1] in pages:
            name = self._name(pages[used[1]] + int(used[2], 0), 0)
            operands = operands.replace(used[0], f"{used[1]}, {name}")
        if not insn.mnemonic.startswith("st"):
            pages.pop(first, None)
        return operands

    def _function_at(self, address: int) -> str:
        if address in self._entries:
            return _unnumbered(self._entries[address])
        if address not in self._jumps_to:
            self._jumps_to[address] = self._linkage_at(address)
        return self._jumps_to[address]

    def _linkage_at(self, address: int) -> str:
        """An entry of the procedure linkage table jumps through a slot that has a name."""
        for insn in self._disassembler.disasm(self._bytes(address, address + 16), address):
            if (found := _X86_PLACE.search(insn.op_str)) and insn.mnemonic.endswith("jmp"):
                return self._name(_place_of(insn, found), 0)
        return "code"

    def _name(self, address: int, width: int) -> str:
        """An object and the place in it; what it holds, where that is constant."""
        if address in self._slots:
            return f"slot {self._slots[address]}"
        section = self._section(address)
        place = bisect_right(self._starts, address) - 1
        if place >= 0 and address < self._objects[place].end:
            symbol = self._objects[place]
            name = f"{_unnumbered(symbol.name)}+{address - symbol.begin}"
            return name + (f" #{self._digest(symbol)}" if section in _PLAIN_DATA else "")
        if address in self._entries:
            return _unnumbered(self._entries[address])
        if section not in _CONSTANTS:
            return "data"
        return f"constant {self._constant(address, width)}"

    def _digest(self, symbol: Symbol) -> str:
        """Of what an object holds at the start; addresses in it are left to the linker."""
        if any(symbol.begin <= slot < symbol.end for slot in self._slots):
            return "addresses"
        return hashlib.sha256(self._bytes(symbol.begin, symbol.end)).hexdigest()[:12]

    def _constant(self, address: int, width: int) -> str:
        """A number that is read, or a text whose address is taken. Else it is a table of jumps."""
        if width:
            return self._bytes(address, address + width).hex()
        text = self._bytes(address, address + 256).split(b"\0")[0]
        return (
            repr(text) if len(text) > 1 and text.isascii() and text.decode().isprintable() else ""
        )


def _place_of(insn: Any, found: re.Match[str]) -> int:
    offset = int(found["offset"], 16 if found["offset"].startswith("0x") else 10)
    return int(insn.address + insn.size + (-offset if found["sign"] == "-" else offset))


def _width(insn: Any) -> int:
    """How many bytes a memory operand reads; 0 where only its address is taken."""
    if insn.mnemonic == "lea":
        return 0
    sizes = [each.size for each in insn.operands if each.type == capstone.x86.X86_OP_MEM]
    return int(sizes[0]) if sizes else 0


def _unnumbered(name: str) -> str:
    """gcc numbers the copies and pieces that it makes of a function."""
    return _NUMBERED.sub(lambda found: f".{found[1]}" if found[1] else "", name)


def _plainness(name: str) -> tuple[int, int, str]:
    """For choosing among names: compilers put dots into theirs."""
    return name.count("."), len(name), name


def _slots(elf: ELFFile) -> dict[int, str]:
    """Words that the dynamic linker fills in, by address: with what."""
    slots = {}
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        symbols = elf.get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            name = "thread-local or local"
            if isinstance(symbols, SymbolTableSection) and relocation["r_info_sym"]:
                name = symbols.get_symbol(relocation["r_info_sym"]).name
            slots[relocation["r_offset"]] = name
    return slots


def _symbols(table: Any) -> tuple[dict[str, Symbol], list[Symbol]]:
    """Functions by a name of their own, and objects by address. A function with several names has
    one here. Two static functions may have the same name: their file is put in front then."""
    functions: dict[tuple[int, int], tuple[str, Symbol]] = {}
    objects = []
    file = ""
    for symbol in table.iter_symbols() if table is not None else ():
        kind, begin = symbol["st_info"]["type"], symbol["st_value"]
        if kind == "STT_FILE":
            file = symbol.name
        if symbol["st_shndx"] == "SHN_UNDEF" or not symbol["st_size"]:
            continue
        found = Symbol(symbol.name, begin, begin + symbol["st_size"])
        if kind in ("STT_FUNC", "STT_GNU_IFUNC"):
            known = functions.get((found.begin, found.end))
            if known is None or _plainness(found.name) < _plainness(known[1].name):
                functions[found.begin, found.end] = (file, found)
        elif kind == "STT_OBJECT":
            objects.append(found)
    times = Counter(symbol.name for _, symbol in functions.values())
    code: dict[str, Symbol] = {}
    for file, symbol in functions.values():
        name = symbol.name if times[symbol.name] == 1 else f"{file}:{symbol.name}"
        while name in code:
            name += "'"
        code[name] = symbol
    return code, sorted(objects, key=lambda each: each.begin)
