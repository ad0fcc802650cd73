"""One program of the suite: what it runs, what it needs, and what must come out of it.

Its folder is made once: scripts are copied and inputs are generated before anything is timed. What
a run leaves behind is removed before the next one starts. A run's checksum is a digest of all that
it printed and of the files that it made: it must be the same under every allocator, so whatever may
differ from run to run (times, ports, process ids) must not be printed.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hakmem_lab.errors import RunError
from hakmem_lab.measure import Command, Run

SCRIPTS = Path(__file__).parent / "scripts"

# Debian's programs, not whatever else the caller's shell would find under their names.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class Program:
    """words are run in the program's folder, with the scripts and the inputs in it."""

    name: str
    words: tuple[str, ...]
    scripts: tuple[str, ...] = ()
    prepare: Callable[[Path], None] | None = None  # makes the inputs in the folder
    needs: tuple[str, ...] = ()  # programs beside the first of words
    makes: tuple[str, ...] = ()  # files that a run leaves: part of what must be the same
    leaves: tuple[str, ...] = ()  # and others, which need not be
    variables: Mapping[str, str] = field(default_factory=dict)
    brings_malloc: bool = False  # is linked with an allocator of its own

    def fits(self, allocator: str) -> bool:
        return allocator != "stub"

    def missing(self) -> str | None:
        """Why it cannot be run on this machine."""
        wanted = (self.words[0], *self.needs)
        absent = [word for word in wanted if shutil.which(word, path=PATH) is None]
        if not absent:
            return None
        return f"there is no {', '.join(absent)} here; install all with: tools/setup programs"

    def make_ready(self) -> None:
        """Does beforehand what takes long and must not be timed."""
        self.folder()

    def folder(self) -> Path:
        return _folder(self.name, self.scripts, self.prepare)

    def clear(self) -> None:
        """Removes what the run before has left."""
        for name in (*self.makes, *self.leaves):
            (self.folder() / name).unlink(missing_ok=True)

    def command(self) -> Command:
        """What one run is, ready to start."""
        self.clear()
        folder = self.folder()
        program = shutil.which(self.words[0], path=PATH) or self.words[0]
        return Command(
            (program, *self.words[1:]),
            timeout_seconds=TIMEOUT_SECONDS,
            variables={**environment(folder), **self.variables},
            directory=folder,
        )

    def read(self, run: Run) -> tuple[dict[str, float], str]:
        digest = hashlib.sha256(run.stdout)
        for name in self.makes:
            try:
                digest.update((self.folder() / name).read_bytes())
            except OSError as error:
                raise RunError(f"{self.name} did not make {name}: {error.strerror}") from None
        return run.metrics, digest.hexdigest()[:16]


def environment(folder: Path) -> dict[str, str]:
    """Nothing of the user's: no configuration of theirs, no language, no hash seeds."""
    return {
        "PATH": PATH,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PERL_HASH_SEED": "0",
        "PYTHONHASHSEED": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


@cache
def _workshop() -> tempfile.TemporaryDirectory[str]:
    """All folders of this session, gone with it."""
    return tempfile.TemporaryDirectory(prefix="hakmem-programs-")


@cache
def _folder(name: str, scripts: tuple[str, ...], prepare: Callable[[Path], None] | None) -> Path:
    folder = Path(_workshop().name) / name
    folder.parent.chmod(0o755)  # servers may become another user
    folder.mkdir()
    for script in scripts:
        shutil.copy(SCRIPTS / script, folder)
    if prepare is not None:
        prepare(folder)
    return folder
