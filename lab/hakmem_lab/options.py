"""Options as people type them, put into the form that programs want."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hakmem_lab.errors import LabError

PROFILES = ("speed", "balanced", "lean")


def allocator_options(profile: str | None, settings: Sequence[str]) -> str:
    """The value of HAKMEM_OPTIONS: name=value pairs separated by commas."""
    pairs = []
    if profile is not None:
        if profile not in PROFILES:
            raise LabError(f"there is no profile '{profile}'; there are: {', '.join(PROFILES)}")
        pairs.append(f"profile={profile}")
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise LabError(f"an option of HAKMEM is name=value, not '{setting}'")
        pairs.append(f"{name}={_escaped(value)}")
    return ",".join(pairs)


def of_one_length(a: str, b: str) -> tuple[str, str]:
    """Both with as many empty pairs behind that a program's stack lies at the same place: its
    variables are on it."""
    length = max(len(a), len(b))
    return a.ljust(length, ","), b.ljust(length, ",")


def _escaped(value: str) -> str:
    """A comma separates options, so one inside a value is written with a backslash."""
    return value.replace(",", "\\,")


def variables_of(listed: Sequence[str]) -> dict[str, str]:
    """--env NAME=VALUE sets a variable; --env NAME takes it from the caller."""
    variables = {}
    for item in listed:
        name, equals, value = item.partition("=")
        if equals:
            variables[name] = value
        elif name in os.environ:
            variables[name] = os.environ[name]
        else:
            raise LabError(f"--env {name}: there is no such variable here")
        if name in ("LD_PRELOAD", "LD_AUDIT", "LAB_WITNESS"):
            raise LabError(f"--env {name}: the lab sets that itself")
    return variables


def fraction_of(option: str, text: str) -> float:
    """0.5% and 0.005 are the same."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if rest or not 0 < value < 1:
        raise LabError(f"{option} takes a share such as 0.5%, not '{text}'")
    return value
