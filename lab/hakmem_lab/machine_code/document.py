"""All that `hakmem audit` finds, as JSON.

    {"schema": 1, "machine": {...},
     "libraries": [{"name", "file", "version", "architecture", "compiler", "code_bytes",
                    "functions",
                    "atomics": [{"function", "instruction", "kind", "address", "source",
                                 "heat", "purpose", "partner"}],
                    "without_instruction": [{"operation", "source",
                                             "heat", "purpose", "partner"}]}],
     "rows": [{"allocator", "call", "size", "instructions", "branches", ..., "listing": [...]}],
     "missing": {name: reason}, "failed": [{"allocator", "reason"}], "faults": [...] or null}

Counts of a row are of executed instructions, by the names of instructions.KINDS; heat, purpose and
partner are null where no note of the sources says them, as in every library but ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hakmem_lab import machine
from hakmem_lab.machine_code.annotations import Note
from hakmem_lab.machine_code.atomics import Atomic
from hakmem_lab.machine_code.lines import text_of
from hakmem_lab.machine_code.listing import lines_of
from hakmem_lab.machine_code.subject import Subject
from hakmem_lab.machine_code.trace import HitPath
from hakmem_lab.machine_code.verdict import operation_of

SCHEMA = 1

Document = dict[str, Any]


def document(
    command: str,
    subjects: Sequence[Subject],
    missing: Mapping[str, str],
    failures: Mapping[str, str],
    faults: Sequence[str] | None,
) -> Document:
    traced = {each.allocator.name: each.failure for each in subjects if each.failure}
    return {
        "schema": SCHEMA,
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "libraries": [_library(each) for each in subjects],
        "rows": [
            _row(each.allocator.name, call, size, path)
            for each in subjects
            for (call, size), path in each.paths.items()
        ],
        "missing": dict(missing),
        "failed": [
            {"allocator": name, "reason": reason} for name, reason in {**failures, **traced}.items()
        ],
        "faults": None if faults is None else list(faults),
    }


def _library(subject: Subject) -> Document:
    image = subject.image
    return {
        "name": subject.allocator.name,
        "file": image.path.name,  # without its folder: results are published
        "version": subject.allocator.version,
        "architecture": image.machine,
        "compiler": image.compiler,
        "code_bytes": sum(len(data) for _, data in image.code),
        "functions": len(image.functions),
        "atomics": [_atomic(subject, atomic) for atomic in subject.atomics],
        "without_instruction": _silent(subject),
    }


def _atomic(subject: Subject, atomic: Atomic) -> Document:
    operation = operation_of(subject.sources, atomic)
    return {
        "function": atomic.function,
        "instruction": atomic.text,
        "kind": {"atomics": "atomic", "fences": "fence"}[atomic.kind],
        "address": atomic.address,
        "source": text_of(atomic.place),
        **_note(operation.note if operation else None),
    }


def _note(note: Note | None) -> Document:
    if note is None:
        return {"heat": None, "purpose": None, "partner": None}
    return {"heat": note.heat, "purpose": note.purpose, "partner": note.partner}


def _silent(subject: Subject) -> list[Document]:
    """What the sources say that this processor needs no instruction for, or this build leaves out:
    a release fence is one for the compiler only on x86-64."""
    if subject.sources is None:
        return []
    compiled = {operation_of(subject.sources, atomic) for atomic in subject.atomics}
    return [
        {
            "operation": each.name,
            "source": f"{subject.sources.folder.name}/{each.file}:{each.first_line}",
            **_note(each.note),
        }
        for each in subject.sources.operations
        if each not in compiled
    ]


def _row(name: str, call: str, size: int, path: HitPath) -> Document:
    listing = [
        {
            "address": line.address,
            "bytes": line.code,
            "text": line.text,
            "function": line.function,
            "source": line.source,
        }
        for line in lines_of(path)
    ]
    return {"allocator": name, "call": call, "size": size, **path.counts(), "listing": listing}
