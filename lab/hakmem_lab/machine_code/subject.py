"""One library under audit: which it is, what its fast paths execute, which atomics it has."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.errors import LabError, MissingError, NotMappedError, RunError
from hakmem_lab.machine_code.annotations import Sources
from hakmem_lab.machine_code.atomics import Atomic, atomics_of
from hakmem_lab.machine_code.elf import Image, image_of
from hakmem_lab.machine_code.trace import (
    C_CALLS,
    CXX_CALLS,
    HitPath,
    Pair,
    Traces,
    path_of,
    record,
)
from hakmem_lab.measure import Allocator
from hakmem_lab.peers import registry

# One of each kind of size class that allocators tell apart: tiny, small, the end of small, middle.
DEFAULT_SIZES = (16, 64, 1024, 8192)
LARGEST_SIZE = 1 << 30

_OURS = "hak_version"  # a function that only our library has


@dataclass(frozen=True)
class Subject:
    """One audited library."""

    allocator: Allocator
    image: Image
    atomics: Sequence[Atomic]
    paths: Mapping[tuple[str, int], HitPath] = field(default_factory=dict)
    failure: str | None = None  # why nothing of it was run
    sources: Sources | None = None  # whose notes tell about its atomics

    @property
    def is_foreign(self) -> bool:
        """Code for another processor, which can be read but not run."""
        return self.image.machine != platform.machine()


def allocator_of(word: str) -> Allocator:
    """An allocator by its name, or any library by its path."""
    if word == registry.HAKMEM:
        return registry.hakmem()
    if "/" not in word and word in registry.names():
        return registry.choose([word])[0][0]
    path = Path(word)
    if not path.is_file():
        names = ", ".join([registry.HAKMEM, *registry.names()])
        raise MissingError(f"there is no library '{word}'; by name there are: {names}")
    return Allocator(path.name.partition(".so")[0], path.resolve(), "", "a file")


def is_ours(image: Image) -> bool:
    return any(function.name == _OURS for function in image.functions)


def examine(
    allocator: Allocator,
    tracer: Path,
    sizes: Sequence[int],
    operators: bool,
    sources: Sources | None,
) -> Subject:
    """Reads and runs one library. Only an unreadable one is an error: of one that cannot be run,
    the code is still shown."""
    paths: dict[tuple[str, int], HitPath] = {}
    failure = None
    try:
        traces = _record(allocator, tracer, sizes, operators)
        paths = {key: path_of(trace) for key, trace in traces.items()}
    except (RunError, NotMappedError) as error:
        failure = str(error)
    image = _image(allocator, paths)
    ours = sources if is_ours(image) else None
    return Subject(allocator, image, atomics_of(image), paths, failure, ours)


def _record(allocator: Allocator, tracer: Path, sizes: Sequence[int], operators: bool) -> Traces:
    traces = record(allocator, tracer, C_CALLS, sizes)
    if operators and _has(allocator, CXX_CALLS):
        traces |= record(allocator, tracer, CXX_CALLS, sizes)
    return traces


def _has(allocator: Allocator, pair: Pair) -> bool:
    if allocator.library is None:
        return False
    names = {function.name for function in image_of(str(allocator.library)).functions}
    return pair.allocate_symbol in names


def _image(allocator: Allocator, paths: Mapping[tuple[str, int], HitPath]) -> Image:
    """The library; the system's is the one that malloc was found in."""
    if allocator.library is not None:
        return image_of(str(allocator.library))
    for path in paths.values():
        return path.steps[0].image
    raise LabError(f"{allocator.name} could not be traced, so its library is not known")
