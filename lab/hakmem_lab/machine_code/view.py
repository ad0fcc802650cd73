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
# Short, as there are many columns.
_TITLES = {
    "instructions": "instr",
    "branches": "cond",
    "jumps": "jump",
    "loads": "load",
    "stores": "store",
    "atomics": "atomic",
    "fences": "fence",
    "calls": "call",
    "divisions": "div",
    "syscalls": "syscall",
    "code_bytes": "bytes",
    "code_lines": "lines",
}
_WIDE = 95  # columns of a terminal that all of the table fits into
_CAPTION = (
    "cond: conditional branches; jump: others; bytes, lines: of executed code, in cache lines of 64"
)
# What a fast path is better off without, and people look for first.
_COSTLY = ("atomics", "fences", "calls", "divisions", "syscalls")
_HEATS = ("hot", "warm", "cold", "–")
_COLOURS = {"hot": "red", "warm": "yellow", "cold": "blue"}

Row = Mapping[str, object]
Group = tuple[str, tuple[int, ...]]  # a call, and sizes for which all libraries have equal counts


def fast_paths(console: Console, document: Document) -> None:
    """The one table: each path, and in it each library."""
    used = {kind for kind in COUNTS if any(row[kind] for row in document["rows"])}
    unseen = [_TITLES[kind] for kind in COUNTS if kind not in used]
    table = Table(
        title="Instructions executed by one call that hits",
        caption=_CAPTION + (f"\nnone: {', '.join(unseen)}" if unseen else ""),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    groups = _groups(document["rows"])
    _add_words(table, "call", [_title(group) for group in groups])
    _add_words(table, "allocator", [each["name"] for each in document["libraries"]])
    shown = [kind for kind in COUNTS if kind in used or _has_room(console, kind)]
    for kind in shown:
        table.add_column(_TITLES[kind], justify="right", overflow="fold")
    for group, rows in groups.items():
        fewest = min(int(str(row["instructions"])) for row in rows)
        for number, row in enumerate(rows):
            title = _title(group) if number == 0 else ""
            best = row["instructions"] == fewest and len(rows) > 1
            cells = [_cell(kind, row[kind], best) for kind in shown]
            table.add_row(title, escape(str(row["allocator"])), *cells)
        table.add_section()
    console.print(table)


def _title(group: Group) -> str:
    return f"{group[0]} {', '.join(f'{size:,}' for size in group[1])}"


def _add_words(table: Table, title: str, texts: Sequence[str]) -> None:
    """A column that may fold between words, and in a narrow terminal between nothing else."""
    words = [word for text in [title, *texts] for word in text.split()]
    table.add_column(title, min_width=max(map(len, words)))


def _has_room(console: Console, kind: str) -> bool:
    """For a column of zeros."""
    return console.width >= _WIDE and kind != "syscalls"


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
    table = Table(
        title="All of the code", box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 0, 0, 1)
    )
    _add_words(table, "allocator", [each["name"] for each in document["libraries"]])
    for title in ("version", "file", "compiler"):
        table.add_column(title, overflow="fold")
    for title in ("KiB", "functions", "atomics", "fences", "in functions"):
        table.add_column(title, justify="right")
    for each in document["libraries"]:
        kinds = Counter(atomic["kind"] for atomic in each["atomics"])
        table.add_row(
            *(escape(each[key]) for key in ("name", "version", "file")),
            f"{each['compiler']} for {each['architecture']}",
            f"{each['code_bytes'] / 1024:,.0f}",
            f"{each['functions']:,}",
            f"{kinds['atomic']:,}",
            f"{kinds['fence']:,}",
            f"{len({atomic['function'] for atomic in each['atomics']}):,}",
        )
    console.print(table)


def atomics(console: Console, document: Document) -> None:
    """Every atomic of each library, by function; and what our sources say of theirs."""
    for library in document["libraries"]:
        found = library["atomics"]
        noted = any(atomic["heat"] for atomic in found)
        table = _list(
            f"Atomics of {library['name']}, by function", "function", "instruction", "source"
        )
        table.add_column("n", justify="right")
        for title in ("heat", "purpose") if noted else ():
            table.add_column(title, no_wrap=True)
        for cells in _atomic_rows(found):
            table.add_row(*(cells if noted else cells[:4]))
        console.print(table)
        console.print(_sum(found), highlight=False)
        if noted:
            console.print()
            _notes(console, library)


def _list(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), box=box.SIMPLE_HEAD, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True, max_width=60)
    return table


def _atomic_rows(found: Sequence[Document]) -> Iterator[list[str]]:
    """Instructions of one function and one line of the source are one row; the hottest first."""
    keys = ("heat", "function", "source", "purpose")
    rows = Counter(
        (*(str(each[key] or "–") for key in keys), _operation(each["instruction"]))
        for each in found
    )
    for cells, number in sorted(rows.items(), key=lambda row: (_HEATS.index(row[0][0]), row[0])):
        heat, function, source, purpose, instruction = map(escape, cells)
        yield [function, instruction, source, str(number), _coloured(heat), purpose]


def _notes(console: Console, library: Document) -> None:
    table = _list(f"Where the sources of {library['name']} have them", "source")
    table.add_column("instructions", justify="right")
    for title in ("heat", "purpose"):
        table.add_column(title, no_wrap=True)
    table.add_column("partner")
    keys = ("source", "heat", "purpose", "partner")
    rows = Counter(tuple(str(each[key] or "–") for key in keys) for each in library["atomics"])
    rows.update(
        {tuple(str(each[key]) for key in keys): 0 for each in library["without_instruction"]}
    )
    for (source, heat, purpose, partner), number in sorted(rows.items()):
        table.add_row(escape(source), str(number), _coloured(heat), purpose, escape(partner))
    console.print(table)


def _coloured(heat: str) -> str:
    colour = _COLOURS.get(heat, "default")
    return f"[{colour}]{heat}[/{colour}]"


def _operation(instruction: str) -> str:
    """Without registers and addresses: `lock cmpxchg` of `lock cmpxchg dword ptr [rbx], edx`."""
    words = instruction.split()
    return " ".join(words[:2] if words[0] in ("lock", "bl") else words[:1])


def _sum(found: Sequence[Document]) -> str:
    heats = Counter(each["heat"] for each in found if each["heat"])
    purposes = Counter(each["purpose"] for each in found if each["purpose"])
    parts = [f"{heats[heat]} {heat}" for heat in ("hot", "warm", "cold") if heats]
    parts += [f"{number} for {purpose}" for purpose, number in sorted(purposes.items())]
    parts = parts and [*parts, "each as hot as in the hottest place that uses its line"]
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
