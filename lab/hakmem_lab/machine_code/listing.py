"""A recorded path as text.

Two forms. `stable_listing` has words that moving code and data does not change: it is what the
golden files hold, and what two builds are compared by. `Line` has what a reader of one build wants:
address, bytes, text, function, line of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import capstone

from hakmem_lab.machine_code.elf import Image, plain_name
from hakmem_lab.machine_code.lines import text_of
from hakmem_lab.machine_code.trace import HitPath, Step


@dataclass(frozen=True)
class Line:
    address: int
    code: str  # the bytes, in hexadecimal
    text: str
    function: str
    source: str


def lines_of(path: HitPath) -> Iterator[Line]:
    for step, text in zip(path.steps, _texts(path), strict=True):
        function = step.function
        yield Line(
            step.insn.address,
            step.insn.bytes.hex(),
            text,
            plain_name(function.name) if function else "",
            text_of(step.image.lines.at(step.insn.address)) or "",
        )


def stable_listing(path: HitPath) -> Iterator[str]:
    for number, text in enumerate(_texts(path), start=1):
        yield f"{number:4d}  {text}"


def _texts(path: HitPath) -> Iterator[str]:
    """Each instruction; jumps name the line they lead to, operands the object."""
    line_of = {step.insn.address: number for number, step in enumerate(path.steps, start=1)}
    pages: dict[str, int] = {}
    for step in path.steps:
        insn, operands = step.insn, str(step.insn.op_str)
        if capstone.CS_GRP_JUMP in insn.groups and (
            target := re.search(r"#?0x[0-9a-f]+$", operands)
        ):
            line = line_of.get(int(target[0].lstrip("#"), 16))
            operands = operands[: target.start()] + (f"line {line}" if line else "elsewhere")
        elif step.image.machine == "x86_64":
            operands = _name_x86_addresses(step, operands)
        else:
            operands = _name_arm_addresses(insn, step.image, operands, pages)
        yield f"{insn.mnemonic:<8} {operands}".rstrip()


def _name_x86_addresses(step: Step, operands: str) -> str:
    def name(found: re.Match[str]) -> str:
        offset = int(found[2], 16) * (-1 if found[1] == "-" else 1)
        return f"[{step.image.name_of(step.insn.address + step.insn.size + offset)}]"

    return re.sub(r"\[rip ([+-]) (0x[0-9a-f]+|\d+)\]", name, operands)


def _name_arm_addresses(
    insn: capstone.CsInsn, image: Image, operands: str, pages: dict[str, int]
) -> str:
    """adrp puts a page into a register; the next use of the register adds the rest."""
    first, _, rest = operands.partition(", ")
    if insn.mnemonic == "adrp":
        pages[first] = int(rest.lstrip("#"), 16)
        return f"{first}, page"
    used = re.search(r"\b(x\d+), #(0x[0-9a-f]+|\d+)", rest if insn.mnemonic == "add" else operands)
    if used and used[1] in pages:
        place = image.name_of(pages[used[1]] + int(used[2], 0))
        operands = operands.replace(used[0], f"{used[1]}, {place}")
    if not insn.mnemonic.startswith("st"):
        pages.pop(first, None)
    return operands
