#!/usr/bin/env python3
"""What the built libraries show to the outside, against the reviewed list in tests/golden/.

Usage: check_symbols.py BUILD_FOLDER

  - libhakmem.so and libhakmem.a define exactly the names of tests/golden/symbols.txt: a missing
    name falls through to libc and mixes two heaps, an extra one can meet a name of the program's;
  - every function of the public header is among them;
  - libhakmem.so can be the first thing in any process: it needs libc only, has no relocations in
    its code, takes at most two words of static TLS, is bound at load time, is never unloaded, and
    has no memory both writable and executable.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.descriptions import describe_reloc_type
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_DT_FLAGS, ENUM_DT_FLAGS_1
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "golden" / "symbols.txt"
HEADER = ROOT / "include" / "hakmem" / "hakmem.h"

LIBC = re.compile(r"libc\.so\.6|libc\.so|libc\.musl-\w+\.so\.1|ld-linux-[\w-]+\.so\.\d")
TLS_LIMIT_BYTES = 16
FLAG_EXECUTE, FLAG_WRITE = 1, 2


def listed_names() -> set[str]:
    lines = (line.partition("#")[0].strip() for line in LIST.read_text().splitlines())
    return {line for line in lines if line}


def declared_names() -> set[str]:
    return set(re.findall(r"^HAK_EXPORT [^;]*?\b(hak_\w+)\(", HEADER.read_text(), re.MULTILINE))


def defined_names(table: SymbolTableSection) -> set[str]:
    return {
        symbol.name
        for symbol in table.iter_symbols()
        if symbol["st_shndx"] != "SHN_UNDEF"
        and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK", "STB_LOOS")
        and symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED")
    }


def list_faults(where: str, names: set[str], listed: set[str]) -> Iterator[str]:
    file = LIST.relative_to(ROOT)
    if names - listed:
        yield f"{where} shows names that are not in {file}: {' '.join(sorted(names - listed))}"
    if listed - names:
        yield f"{where} lacks names of {file}: {' '.join(sorted(listed - names))}"


def segment_faults(elf: ELFFile) -> Iterator[str]:
    tls_bytes = 0
    kinds = set()
    for segment in elf.iter_segments():
        kind, flags = segment["p_type"], segment["p_flags"]
        kinds.add(kind)
        if kind == "PT_TLS":
            tls_bytes = segment["p_memsz"]
        if kind in ("PT_LOAD", "PT_GNU_STACK") and flags & FLAG_EXECUTE and flags & FLAG_WRITE:
            yield f"libhakmem.so has a {kind} segment both writable and executable"
    if "PT_GNU_RELRO" not in kinds:
        yield "libhakmem.so does not protect its relocated data (RELRO)"
    if tls_bytes > TLS_LIMIT_BYTES:
        yield f"libhakmem.so takes {tls_bytes} bytes of static TLS, allowed: {TLS_LIMIT_BYTES}"
    # Not DF_STATIC_TLS: AArch64's linker does not set it.
    if any(re.search("DTPMOD|DTPREL|DTPOFF|TLSDESC", name) for name in relocation_types(elf)):
        yield "libhakmem.so has TLS that is not of the initial-exec model"


def relocation_types(elf: ELFFile) -> Iterator[str]:
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection):
            for relocation in section.iter_relocations():
                yield describe_reloc_type(relocation["r_info_type"], elf)


def dynamic_section(elf: ELFFile) -> DynamicSection:
    section = elf.get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    return section


def dynamic_value(elf: ELFFile, tag: str) -> int:
    return next((int(t["d_val"]) for t in dynamic_section(elf).iter_tags(tag)), 0)


def dynamic_faults(elf: ELFFile) -> Iterator[str]:
    section = dynamic_section(elf)
    for tag in section.iter_tags("DT_NEEDED"):
        needed = str(tag.needed)  # type: ignore[attr-defined]
        if not LIBC.fullmatch(needed):
            yield f"libhakmem.so needs {needed}; it may need libc only"
    flags, flags_1 = dynamic_value(elf, "DT_FLAGS"), dynamic_value(elf, "DT_FLAGS_1")
    if list(section.iter_tags("DT_TEXTREL")) or flags & ENUM_DT_FLAGS["DF_TEXTREL"]:
        yield "libhakmem.so has relocations in its code"
    if not (flags & ENUM_DT_FLAGS["DF_BIND_NOW"] and flags_1 & ENUM_DT_FLAGS_1["DF_1_NOW"]):
        yield "libhakmem.so is not bound at load time (-z now)"
    if not flags_1 & ENUM_DT_FLAGS_1["DF_1_NODELETE"]:
        yield "libhakmem.so can be unloaded (-z nodelete is missing)"


def shared_faults(library: Path, listed: set[str]) -> Iterator[str]:
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        table = elf.get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        yield from list_faults("libhakmem.so", defined_names(table), listed)
        yield from dynamic_faults(elf)
        yield from segment_faults(elf)


def static_faults(archive: Path, listed: set[str]) -> Iterator[str]:
    members = subprocess.run(["ar", "t", archive], capture_output=True, text=True, check=True)
    names: set[str] = set()
    for member in members.stdout.split():
        data = subprocess.run(["ar", "p", archive, member], capture_output=True, check=True).stdout
        table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        names |= defined_names(table)
    yield from list_faults("libhakmem.a", names, listed)


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1])
    listed = listed_names()
    faults = [
        f"{name} is declared in hakmem.h but not listed" for name in declared_names() - listed
    ]
    faults += shared_faults(build / "libhakmem.so", listed)
    faults += static_faults(build / "libhakmem.a", listed)
    print("\n".join([*faults, f"symbols: {len(listed)} names, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
