"""Fixtures of the program tests: the two sides, in folders that go away after the test."""

import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import LIBRARY, Side, Sides

# A crash is reported by its exit code; a core file of every crash would only fill the disk.
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.fixture
def sides() -> Iterator[Sides]:
    """glibc's side and HAKMEM's.

    The folder lies in /tmp, not below pytest's private one: servers that give up
    root must be able to enter it, and paths of unix sockets must stay short. For
    the same reason the library is copied there: its own folder may be private.
    """
    assert LIBRARY.exists(), f"{LIBRARY} is missing: build it, or set HAKMEM_LIBRARY"
    folder = Path(tempfile.mkdtemp(prefix="hakmem-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        library = folder / LIBRARY.name
        shutil.copyfile(LIBRARY, library)
        library.chmod(0o755)
        yield Sides(
            Side("glibc", folder / "glibc").prepare(),
            Side("hakmem", folder / "hakmem", library).prepare(),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
