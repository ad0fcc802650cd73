"""Guard sampling in processes of every kind: with threads, forks, signals and limits of their
own, and on kernels that guard pages in another way."""

from __future__ import annotations

import pytest

from conftest import Runner, native

EVERY_BLOCK = "guard_rate=1"
# As kernels before Linux 6.13, which know no advice for guard pages.
OLD_KERNEL = "newest_advice=25"


def test_busy_threads_are_sampled(run: Runner) -> None:
    assert run("busy_threads", options="guard_rate=1001").stderr == ""


def test_a_busy_program_without_threads_is_sampled(run: Runner) -> None:
    assert run("busy_alone", options="guard_rate=1001").stderr == ""


def test_what_frees_find_due_is_of_their_own_size(run: Runner) -> None:
    """A third each of a hundred, within four and a half standard deviations."""
    said = run("frees_first", options="guard_rate=1001,guard_slots=1000").stdout
    assert min(map(int, said.split()[:3])) >= 12, said


@pytest.mark.parametrize("rate", [1000, 1001])
def test_large_blocks_are_sampled(run: Runner, rate: int) -> None:
    assert run("guarded_large", options=f"guard_rate={rate}").stderr == ""


def test_children_of_a_server_are_sampled_each_for_itself(run: Runner) -> None:
    """1 - exp(-1/2) of them guard a block, some more for the last batch: 84 of 200, or so."""
    said = run("fork_sampled", options="guard_rate=2000,guard_slots=1000").stdout
    assert 55 <= int(said.split()[0]) <= 115, said


@pytest.mark.parametrize("kernel", ["", OLD_KERNEL, "page=65536"])
@pytest.mark.parametrize(
    "life",
    [
        "traffic 3000",
        "exit_handlers",
        "set_ids",
    ],
)
def test_lives_with_every_block_guarded(run: Runner, life: str, kernel: str) -> None:
    program, *arguments = life.split()
    finished = run(program, *arguments, kernel=kernel, options=EVERY_BLOCK)
    assert "hakmem" not in finished.stderr


# A guarded block costs some microseconds, and each fork copies the page tables of all: where
# there is much of both, not every block.
@pytest.mark.parametrize("kernel", ["", OLD_KERNEL])
@pytest.mark.parametrize("life", ["fork_threads one 30", "fork_handlers", "thread_end"])
def test_lives_with_some_blocks_guarded(run: Runner, life: str, kernel: str) -> None:
    program, *arguments = life.split()
    run(program, *arguments, kernel=kernel, options="guard_rate=30,guard_slots=64")


@pytest.mark.parametrize("kernel", ["", OLD_KERNEL])
def test_fork_while_threads_ask_for_guarded_blocks(run: Runner, kernel: str) -> None:
    run("fork_guarded", kernel=kernel, options=EVERY_BLOCK)


def test_no_handler_before_the_first_guarded_block(run: Runner) -> None:
    run("fault_handler", "sampled", options="guard_rate=100000")
    run("fault_handler", "never", options="guard_rate=0")
    run("fault_handler", "never", options="hardened=1,guard_rate=0")


@native
def test_children_of_all_kinds(run: Runner) -> None:
    run("spawn", options=EVERY_BLOCK)


@native
def test_memory_is_there_when_guarded_blocks_have_taken_all_addresses(run: Runner) -> None:
    # Which blocks are guarded is chance: not every run comes to the end of the addresses.
    for _ in range(20):
        run("traffic", 3000, options="guard_rate=1,arena_size=32M,shards=1")
