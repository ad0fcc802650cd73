"""Which line of the source an instruction comes from, as the compiler noted it (DWARF).

The line is that of the innermost inlined function: the instruction of a lock that is inlined into
forty functions has the same line in the lock's header forty times. Line 0 is the compiler's word
for "of several lines": clang joins equal ends of branches and then cannot name one.
"""

from __future__ import annotations

import bisect
import functools
import posixpath
from pathlib import Path

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.lineprogram import LineProgram
from elftools.elf.elffile import ELFFile

Place = tuple[str, int]  # file and line; line 0: of several lines
_Row = tuple[int, Place | None]  # from this address on; None: code of another unit, or of none


def text_of(place: Place | None) -> str | None:
    if place is None:
        return None
    return f"{place[0]}:{place[1]}" if place[1] else place[0]


class Lines:
    """The line table of one file; each unit's is read when it is first asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @functools.cached_property
    def _dwarf(self) -> DWARFInfo | None:
        try:
            stream = self.path.open("rb")
            elf = ELFFile(stream)
            if elf.get_section_by_name(".debug_line") is None:
                stream.close()
                return None
            return elf.get_dwarf_info(follow_links=False)
        except (DWARFError, ELFError, OSError):
            return None

    @property
    def are_there(self) -> bool:
        return self._dwarf is not None

    def at(self, address: int) -> Place | None:
        """None when the compiler did not say: no debug information, or code from nowhere."""
        rows = self._rows
        place = bisect.bisect_right(rows, address, key=lambda row: row[0]) - 1
        return rows[place][1] if place >= 0 else None

    @functools.cached_property
    def _rows(self) -> list[_Row]:
        if self._dwarf is None:
            return []
        runs: list[list[_Row]] = []
        for unit in self._dwarf.iter_CUs():
            program = self._dwarf.line_program_for_CU(unit)
            if program is not None:
                runs += _runs_of(unit, program)
        # A run that begins at 0 is of a function that the linker dropped.
        runs = sorted((run for run in runs if run[0][0] != 0), key=lambda run: run[0][0])
        return [row for run in runs for row in run]


def _runs_of(unit: CompileUnit, program: LineProgram) -> list[list[_Row]]:
    """The stretches of code of a unit, each as rows of rising address with an end."""
    names = _files_of(unit, program)
    runs: list[list[_Row]] = [[]]
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            runs[-1].append((state.address, None))
            runs.append([])
        else:
            place = (names[state.file], state.line) if state.file in names else None
            runs[-1].append((state.address, place))
    return [run for run in runs if run]


def _files_of(unit: CompileUnit, program: LineProgram) -> dict[int, str]:
    """The files by the numbers that the rows use: from 0 in DWARF 5, from 1 before."""
    header = program.header
    is_new = header.version >= 5
    folders = [_text(folder) for folder in header["include_directory"]]
    if not is_new:
        attribute = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
        folders.insert(0, _text(attribute.value) if attribute else "")
    return {
        number: posixpath.normpath(
            posixpath.join(*_folder(folders, entry.dir_index, is_new), _text(entry.name))
        )
        for number, entry in enumerate(header["file_entry"], start=0 if is_new else 1)
    }


def _folder(folders: list[str], index: int, is_new: bool) -> list[str]:
    """Names made relative by -ffile-prefix-map stay so: they are relative to the source tree, and
    the folder that the compiler ran in says nothing about them."""
    if index >= len(folders) or (index == 0 and not is_new and not folders[0].startswith("/")):
        return []
    return [folders[index]]


def _text(name: bytes | str | object) -> str:
    if isinstance(name, bytes):
        return name.decode(errors="replace")
    return str(getattr(name, "DW_LNCT_path", name))
