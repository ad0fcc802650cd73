"""`hakmem audit`: the machine code of the fast paths, and every atomic of a library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import track

from hakmem_lab import paths, report
from hakmem_lab.commands.common import JsonOption, err, names_of, out, typed
from hakmem_lab.errors import LabError
from hakmem_lab.machine_code import subject, verdict, view
from hakmem_lab.machine_code.annotations import Sources, read_sources
from hakmem_lab.machine_code.document import document
from hakmem_lab.machine_code.elf import ElfError
from hakmem_lab.machine_code.listing import lines_of
from hakmem_lab.machine_code.subject import Subject
from hakmem_lab.measure import Allocator
from hakmem_lab.peers import registry


def audit_command(
    libraries: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LIB...]", help="Allocators by name or path; default: HAKMEM."),
    ] = None,
    peers: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Others beside them; 'all': all here.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(metavar="N,...", help="Sizes; default: 16,64,1024,8192.")
    ] = None,
    operators: Annotated[
        bool, typer.Option("--operators", help="Also operator new and delete.")
    ] = False,
    atomics: Annotated[
        bool, typer.Option("--atomics", help="List the atomics of peers too, by function.")
    ] = False,
    listing: Annotated[
        list[str] | None,
        typer.Option(metavar="CALL:SIZE", help="Show what a call executes, as malloc:64."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only judge: fast paths without atomics, a note for each."),
    ] = False,
    source: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The sources with the notes; default: src.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Count what malloc and free execute when they hit, and list every atomic of the library."""
    shown = [_call_and_size(item) for item in listing or []]
    sizes = _sizes(size, [number for _, number in shown])
    sources = _sources(source, check)
    chosen, missing = _choose(libraries, peers)
    subjects, failures = _examine_all(chosen, sizes, operators or check or bool(shown), sources)
    faults = _judge(subjects, sources) if check and sources else None
    content = document(typed(), subjects, missing, failures, faults)
    if shown:
        _show_listings(subjects, shown)
    elif not check:
        view.fast_paths(out, content)
        view.libraries(out, content)
        if atomics or len(subjects) == 1:
            view.atomics(out, content)
    for name, reason in missing.items():
        out.print(f"[yellow]missing:[/yellow] {name} ({escape(reason)})")
    foreign = [each.allocator.name for each in subjects if each.is_foreign]
    for failure in content["failed"]:
        word = "[yellow]not run:" if failure["allocator"] in foreign else "[red]failed:"
        out.print(f"{word}[/] {escape(failure['reason'])}", highlight=False)
    if json is not None:
        report.write(json, content)
        err.print(f"written: {json}", highlight=False)
    # The notes of a library for another processor can be judged without running it.
    is_unfinished = any(each.failure and not (check and each.is_foreign) for each in subjects)
    if faults or failures or is_unfinished:
        raise typer.Exit(1)


def _sizes(listed: Sequence[str] | None, more: Sequence[int]) -> list[int]:
    words = [word for item in listed or [] for word in names_of(item) or []]
    chosen = [_number(word) for word in words]
    chosen = chosen or (list(subject.DEFAULT_SIZES) if not more else [])
    return list(dict.fromkeys([*chosen, *more]))


def _number(word: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= subject.LARGEST_SIZE:
        raise LabError(f"a size is a number of bytes from 1 to {subject.LARGEST_SIZE}: '{word}'")
    return int(word)


def _call_and_size(word: str) -> tuple[str, int]:
    call, _, number = word.rpartition(":")
    names = {"malloc": "malloc", "free": "free", "new": "operator new", "delete": "operator delete"}
    if call not in names:
        raise LabError(f"--listing takes malloc, free, new or delete and a size: '{word}'")
    return names[call], _number(number)


def _sources(folder: Path | None, are_needed: bool) -> Sources | None:
    if folder is None and not are_needed and not paths.is_checkout():
        return None
    return read_sources(folder.resolve() if folder else paths.checkout() / "src")


def _choose(
    libraries: Sequence[str] | None, peers: str | None
) -> tuple[list[Allocator], dict[str, str]]:
    chosen = [subject.allocator_of(word) for word in libraries or [registry.HAKMEM]]
    others, missing = (
        registry.choose(None if peers == "all" else names_of(peers)) if peers else ([], {})
    )
    return chosen + [each for each in others if each not in chosen], missing


def _examine_all(
    chosen: Sequence[Allocator], sizes: Sequence[int], operators: bool, sources: Sources | None
) -> tuple[list[Subject], dict[str, str]]:
    """An unreadable library is an error when it is all there is; else the others are shown."""
    tracer = paths.tool("trace_calls")
    subjects: list[Subject] = []
    failures: dict[str, str] = {}
    for allocator in track(chosen, "auditing", console=err, disable=not err.is_terminal):
        try:
            subjects.append(subject.examine(allocator, tracer, sizes, operators, sources))
        except ElfError as error:
            if len(chosen) == 1:
                raise
            failures[allocator.name] = str(error)
    return subjects, failures


def _judge(subjects: Sequence[Subject], sources: Sources) -> list[str]:
    faults: list[str] = []
    for each in subjects:
        found = verdict.faults_of(sources, each.image, each.atomics, each.paths)
        for fault in found:
            out.print(fault, highlight=False, markup=False, soft_wrap=True)
        places = len({atomic.function for atomic in each.atomics})
        notes = sum(operation.note is not None for operation in sources.operations)
        err.print(
            f"{each.allocator.name}: {len(each.atomics)} atomics in {places} functions, "
            f"{notes} notes in {sources.folder.name}, {len(each.paths)} fast paths, "
            f"{len(found)} faults",
            highlight=False,
            markup=False,
        )
        faults += found
    return faults


def _show_listings(subjects: Sequence[Subject], shown: Sequence[tuple[str, int]]) -> None:
    for each in subjects:
        for key in shown:
            if key in each.paths:
                view.listing(out, each.allocator.name, *key, list(lines_of(each.paths[key])))
            elif not each.failure:
                out.print(f"[yellow]{escape(each.allocator.name)} has no {key[0]}[/yellow]")
