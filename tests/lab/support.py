"""What the lab's tests share: the library under test, the command, and samples made up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hakmem_lab.measure import Allocator
from hakmem_lab.report import Document, Experiment, document
from hakmem_lab.schedule import Samples

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.setdefault("HAKMEM_LIBRARY", str(ROOT / "build/release/libhakmem.so")))
BUILD = Path(os.environ.setdefault("HAKMEM_BUILD", str(ROOT / "build/release")))

HAKMEM = Allocator("hakmem", LIBRARY)
SYSTEM = Allocator("glibc", None)


def hakmem(
    *arguments: str | Path,
    variables: Mapping[str, str] | None = None,
    program: Sequence[str | Path] = (sys.executable, ROOT / "lab"),
) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user would, in a wide terminal."""
    return subprocess.run(
        [*program, *arguments],
        env={**os.environ, "COLUMNS": "200", **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def crashing_library(folder: Path) -> Path:
    """An allocator whose first call is its last."""
    source, library = folder / "crash.c", folder / "libcrash.so"
    source.write_text(
        "#include <stdlib.h>\n"
        "void *malloc(size_t size) { (void)size; abort(); }\n"
        "void free(void *block) { (void)block; }\n"
        "__attribute__((constructor)) static void begin(void) { free(malloc(1)); }\n"
    )
    subprocess.run(["cc", "-fno-builtin", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def samples_of(values: Mapping[tuple[str, str], Mapping[str, Sequence[float]]]) -> Samples:
    samples = Samples()
    for key, metrics in values.items():
        for metric, series in metrics.items():
            for value in series:
                samples.add(key, {metric: value})
    return samples


def document_of(
    samples: Samples, runs: int = 3, missing: Mapping[str, str] | None = None
) -> Document:
    names = list(dict.fromkeys(allocator for _, allocator in [*samples.values, *samples.failures]))
    allocators = [Allocator(name, None, "1.0", "made up") for name in names]
    experiment = Experiment("hakmem bench", runs, 1, 7, "hakmem", allocators, missing or {})
    return document(experiment, samples)
