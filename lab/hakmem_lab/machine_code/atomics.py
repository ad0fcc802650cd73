"""Every atomic and fence of a library, found by disassembling all of its code.

Code is read a function at a time, so that data between two functions does not throw the reading of
the second. What no function claims is read as well, from its first byte on: assembly without
symbols is code too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hakmem_lab.machine_code.elf import Function, Image, plain_name
from hakmem_lab.machine_code.instructions import is_helper, ordering_kind
from hakmem_lab.machine_code.lines import Place


@dataclass(frozen=True)
class Atomic:
    """One instruction."""

    address: int
    kind: str  # "atomics" or "fences"
    text: str
    function: str  # the name in the source; where it is unknown, where the function begins
    place: Place | None  # the line of the source, where the library has debug information


def atomics_of(image: Image) -> list[Atomic]:
    return [atomic for function in _code_of(image) for atomic in _within(image, function)]


def _code_of(image: Image) -> Iterator[Function]:
    """All code, a function at a time, with what lies between them."""
    for begin, data in image.code:
        place, end = begin, begin + len(data)
        for function in image.functions:
            if function.end <= begin or function.begin >= end:
                continue
            if place < function.begin:
                yield Function(place, function.begin, "")
            yield Function(max(function.begin, begin), min(function.end, end), function.name)
            place = max(place, function.end)
        if place < end:
            yield Function(place, end, "")


def _within(image: Image, function: Function) -> Iterator[Atomic]:
    if is_helper(function.name):
        return  # counted where it is called
    code = image.bytes_at(function.begin, function.end - function.begin)
    name = plain_name(function.name) or f"at {function.begin:#x}"
    for address, _, mnemonic, operands in image.sweeper.disasm_lite(code, function.begin):
        kind = ordering_kind(image.machine, mnemonic, operands)
        text = f"{mnemonic} {operands}".rstrip()
        if kind is None and mnemonic == "bl" and (helper := _helper_called(image, operands)):
            kind, text = "atomics", f"bl {helper}"
        if kind is not None:
            yield Atomic(address, kind, text, name, image.lines.at(address))


def _helper_called(image: Image, operands: str) -> str | None:
    target = re.fullmatch(r"#(0x[0-9a-f]+)", operands)
    function = image.function_at(int(target[1], 16)) if target else None
    return function.name if function and is_helper(function.name) else None
