"""New processes out of threaded ones."""

from __future__ import annotations

from conftest import Runner, native


def test_fork_while_threads_allocate(run: Runner) -> None:
    assert run("fork_threads", "one").stderr == ""


def test_several_threads_fork(run: Runner) -> None:
    assert run("fork_threads", "several").stderr == ""


def test_a_child_reclaims_the_caches_of_lost_threads(run: Runner) -> None:
    assert run("fork_threads", "generations").stderr == ""


def test_fork_while_pages_are_purged(run: Runner) -> None:
    assert run("fork_purge").stderr == ""


def test_fork_handlers_of_others_allocate(run: Runner) -> None:
    assert run("fork_handlers").stderr == ""


@native
def test_vfork_and_spawn(run: Runner) -> None:
    assert run("spawn").stderr == ""
