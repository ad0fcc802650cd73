"""An audit as tables for people, made from its JSON document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab.machine_code.document import Document
from hakmem_lab.machine_code.instructions import KINDS
from hakmem_lab.machine_code.listing import Line

COUNTS = ("instructions", *KINDS, "code_bytes", "code_lines")
_TITLES = {"code_bytes": "bytes of code", "code_lines": "cache lines"}
# What a fast path is better off without, and people look for first.
_COSTLY = ("atomics", "fences", "calls", "divisions", "syscalls")
_HEATS = ("hot", "warm", "cold", "–")
_COLOURS = {"hot": "red", "warm": "yellow", "cold": "blue"}

Row = Mapping[str, object]
Group = tuple[str, tuple[int, ...]]  # a call, and sizes for which all libraries have equal counts


def fast_paths(console: Console, document: Document) -> None:
    """The one table: each path, and in it each library."""
    table = Table(title="Executed by one call that hits", box=box.SIMPLE_HEAD, title_justify="left")
    for title in ("call", "bytes", "allocator"):
        table.add_column(title, no_wrap=True)
    shown = [kind for kind in COUNTS if kind != "syscalls" or _any(document["rows"], kind)]
    for kind in shown:
        table.add_column(_TITLES.get(kind, kind), justify="right")
    for (call, sizes), rows in _groups(document["rows"]).items():
        fewest = min(int(str(row["instructions"])) for row in rows)
        for number, row in enumerate(rows):
            first = (call, ", ".join(f"{size:,}" for size in sizes)) if number == 0 else ("", "")
            best = row["instructions"] == fewest and len(rows) > 1
            cells = [_cell(kind, row[kind], best) for kind in shown]
            table.add_row(*first, escape(str(row["allocator"])), *cells)
        table.add_section()
    console.print(table)


def _any(rows: Sequence[Row], kind: str) -> bool:
    return any(row[kind] for row in rows)


def _cell(kind: str, value: object, best: bool) -> str:
    if kind == "instructions" and best:
        return f"[bold]{value}[/bold]"
    return f"[yellow]{value}[/yellow]" if kind in _COSTLY and value else str(value)


def _groups(rows: Sequence[Row]) -> dict[Group, list[Row]]:
    by_path: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        by_path[str(row["call"]), int(str(row["size"]))].append(row)
    merged: dict[tuple[object, ...], tuple[str, list[int]]] = {}
    for (call, size), members in by_path.items():
        key = (call, *((row["allocator"], *(row[kind] for kind in COUNTS)) for row in members))
        merged.setdefault(key, (call, []))[1].append(size)
    return {(call, tuple(sizes)): by_path[call, sizes[0]] for call, sizes in merged.values()}


def libraries(console: Console, document: Document) -> None:
    """A line for each library: its code, and how many atomics are in all of it."""
    table = Table(title="All of the code", box=box.SIMPLE_HEAD, title_justify="left")
    for title in ("allocator", "version", "file", "processor", "compiler"):
        table.add_column(title)
    for title in ("KiB of code", "functions", "atomics", "fences", "functions with them"):
        table.add_column(title, justify="right")
    for each in document["libraries"]:
        kinds = Counter(atomic["kind"] for atomic in each["atomics"])
        table.add_row(
            *(escape(each[key]) for key in ("name", "version", "file", "architecture", "compiler")),
            f"{each['code_bytes'] / 1024:,.0f}",
            f"{each['functions']:,}",
            f"{kinds['atomic']:,}",
            f"{kinds['fence']:,}",
            f"{len({atomic['function'] for atomic in each['atomics']}):,}",
        )
    console.print(table)


def atomics(console: Console, document: Document) -> None:
    """Every atomic of each library, by function."""
    for library in document["libraries"]:
        table = Table(
            title=f"Atomics of {escape(library['name'])}, by function",
            box=box.SIMPLE_HEAD,
            title_justify="left",
        )
        noted = any(atomic["heat"] for atomic in library["atomics"])
        for title in ("function", "instruction", "source"):
            table.add_column(title, overflow="ellipsis", no_wrap=True, max_width=60)
        table.add_column("number", justify="right")
        for title in ("heat, at most", "purpose", "partner") if noted else ():
            table.add_column(title)
        for cells in _atomic_rows(library["atomics"]):
            table.add_row(*(cells if noted else cells[:4]))
        console.print(table)
        console.print(_sum(library["atomics"]), highlight=False)
        for each in library["without_instruction"]:
            what = f"{each['source']}: {each['operation']} ({each['heat']}, {each['purpose']})"
            console.print(
                f"{escape(what)} needs no instruction on {library['architecture']}", highlight=False
            )


def _atomic_rows(found: Sequence[Document]) -> Iterator[list[str]]:
    """Instructions of one function and one line of the source are one row; the hottest first."""
    keys = ("heat", "function", "source", "purpose", "partner")
    rows = Counter(
        (*(str(each[key] or "–") for key in keys), _operation(each["instruction"]))
        for each in found
    )
    for cells, number in sorted(rows.items(), key=lambda row: (_HEATS.index(row[0][0]), row[0])):
        heat, function, source, purpose, partner, instruction = map(escape, cells)
        colour = _COLOURS.get(heat, "default")
        coloured = f"[{colour}]{heat}[/{colour}]"
        yield [function, instruction, source, str(number), coloured, purpose, partner]


def _operation(instruction: str) -> str:
    """Without registers and addresses: `lock cmpxchg` of `lock cmpxchg dword ptr [rbx], edx`."""
    words = instruction.split()
    return " ".join(words[:2] if words[0] in ("lock", "bl") else words[:1])


def _sum(found: Sequence[Document]) -> str:
    heats = Counter(each["heat"] for each in found if each["heat"])
    purposes = Counter(each["purpose"] for each in found if each["purpose"])
    parts = [f"{heats[heat]} {heat}" for heat in ("hot", "warm", "cold") if heats]
    parts += [f"{number} for {purpose}" for purpose, number in sorted(purposes.items())]
    return f"{len(found)} in all" + (": " + ", ".join(parts) if parts else "")


def listing(console: Console, name: str, call: str, size: int, lines: Sequence[Line]) -> None:
    table = Table(
        title=f"{escape(name)}: {call}, {size:,} bytes", box=box.SIMPLE_HEAD, title_justify="left"
    )
    for title in ("", "address"):
        table.add_column(title, justify="right")
    for title in ("bytes", "instruction", "function", "source"):
        table.add_column(title, overflow="ellipsis", no_wrap=True, max_width=60)
    for number, line in enumerate(lines, start=1):
        texts = (line.code, line.text, line.function, line.source)
        table.add_row(str(number), f"{line.address:x}", *(escape(text) for text in texts))
    console.print(table)
