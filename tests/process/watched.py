"""Programs with HAKMEM inside while a tool watches them, and who served their malloc."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conftest import BUILD, LIBRARY

SOURCES = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 180


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str
    # HAKMEM's statistics at exit; None: it was not in the process, or that did not live to exit.
    blocks_taken: int | None

    def __str__(self) -> str:
        return (
            f"status {self.status}, {self.blocks_taken} blocks of HAKMEM\n"
            f"stdout: {self.stdout[-2000:]}\nstderr: {self.stderr[-4000:]}"
        )


def program(name: str) -> Path:
    return BUILD / "tests" / "process" / name


def watch(
    folder: Path,
    *command: str | Path,
    preload: Sequence[str | Path] = (LIBRARY,),
    environment: dict[str, str] | None = None,
) -> Ended:
    """Runs a command that does not fork before it becomes the program to be watched."""
    variables = {
        "PATH": os.environ["PATH"],
        "HAKMEM_OPTIONS": f"stats=exit:json,stats_file={folder}/%p.json",
        **(environment or {}),
    }
    if preload:
        variables["LD_PRELOAD"] = ":".join(map(str, preload))
    with subprocess.Popen(
        [str(word) for word in command],
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
    statistics = folder / f"{process.pid}.json"
    taken = json.loads(statistics.read_text())["blocks_taken"] if statistics.exists() else None
    return Ended(process.returncode, stdout, stderr, taken)
