"""Whole programs on kernels that are not this one: larger pages, fewer addresses, less memory."""

from __future__ import annotations

import re

import pytest

from conftest import Runner

MIB_IN_KIB = 1 << 10
GIB_IN_KIB = 1 << 20

PAGES = ["page=16384", "page=65536"]
SHORT = "address_bits=39,page=16384"
EVERY_KERNEL = pytest.mark.parametrize("kernel", [*PAGES, SHORT])


@pytest.mark.parametrize("kernel", ["page=4096", *PAGES])
def test_moved_pages_leave_neighbours_alone(run: Runner, kernel: str) -> None:
    assert run("neighbours", kernel=kernel).stderr == ""


@EVERY_KERNEL
@pytest.mark.parametrize(
    "life", ["traffic 3000", "fork_threads one 30", "thread_end", "exit_handlers"]
)
def test_lives(run: Runner, life: str, kernel: str) -> None:
    program, *arguments = life.split()
    assert run(program, *arguments, kernel=kernel).stderr == ""


def window_mib(stderr: str) -> int:
    found = re.search(r"window 0x[0-9a-f]+ of (\d+) MiB", stderr)
    assert found, stderr
    return int(found[1])


@pytest.mark.parametrize(
    ("kernel", "mebibytes"),
    [
        ("page=4096", 1 << 20),  # all of a usual kernel's
        ("address_bits=39", 64 << 10),  # AArch64 with three levels of tables
        ("address_bits=39,largest_map=0x900000000", 32 << 10),  # Valgrind 3.19, nearly
        ("address_bits=36", 32 << 10),
        ("address_bits=36,largest_map=0x7fffffff", 1 << 10),
    ],
)
def test_window_fits_the_addresses(run: Runner, kernel: str, mebibytes: int) -> None:
    finished = run("traffic", 3000, kernel=kernel, options="verbose=1")
    assert window_mib(finished.stderr) == mebibytes


@pytest.mark.parametrize("kernel", ["", *PAGES])
def test_no_memory_beyond_what_is_promised(run: Runner, kernel: str) -> None:
    run("limits", "refused-at", 200, kernel=",".join(filter(None, [kernel, "commit=0xd000000"])))


def promised(run: Runner, *, preload: bool, kernel: str) -> dict[str, int]:
    """KiB that a kernel must promise to this program, by what it is doing."""
    finished = run("promises", 64, preload=preload, kernel=kernel)
    fields = (line.split() for line in finished.stdout.splitlines()[:-1])
    return {name: int(value) for name, value in fields}


@pytest.mark.parametrize("kernel", ["commit=0x58000000", "commit=0x58000000,page=65536"])
def test_little_is_promised_that_is_not_used(run: Runner, kernel: str) -> None:
    without = promised(run, preload=False, kernel=kernel)
    ours = promised(run, preload=True, kernel=kernel)
    assert ours["start"] - without["start"] < 16 * MIB_IN_KIB, (ours, without)
    assert ours["grown"] - ours["start"] < 76 * MIB_IN_KIB, ours
    # A block of 1 GiB at a multiple of 1 GiB needs twice the addresses, but not twice the memory.
    assert 0 < ours["huge"] - ours["grown"] < GIB_IN_KIB + 2 * MIB_IN_KIB, ours
