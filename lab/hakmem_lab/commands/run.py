"""`hakmem run`: a program under HAKMEM, in this process's place."""

from __future__ import annotations

import os

from hakmem_lab import paths
from hakmem_lab.commands.common import CommandArgument, ProfileOption, SetOption
from hakmem_lab.measure import OPTIONS_VARIABLE, require_program
from hakmem_lab.options import allocator_options


def run_command(
    command: CommandArgument, profile: ProfileOption = None, settings: SetOption = None
) -> None:
    """Run a program under HAKMEM. The program takes this process's place."""
    require_program(command[0])
    environment = dict(os.environ)
    earlier = environment.get("LD_PRELOAD")
    library = str(paths.library())
    environment["LD_PRELOAD"] = f"{library}:{earlier}" if earlier else library
    chosen = allocator_options(profile, settings or [])
    if chosen:
        kept = environment.get(OPTIONS_VARIABLE)
        environment[OPTIONS_VARIABLE] = f"{kept},{chosen}" if kept else chosen
    os.execvpe(command[0], command, environment)
