"""The beginning and the end of processes and threads."""

from __future__ import annotations

import pytest

from conftest import MORE_OPTIONS, Runner, native

BINDINGS = pytest.mark.parametrize("binding", [{}, {"LD_BIND_NOW": "1"}], ids=["lazy", "now"])


@BINDINGS
def test_first_call_inside_the_dynamic_linker(run: Runner, binding: dict[str, str]) -> None:
    assert run("first_call_in_relocation", environment=binding).stderr == ""


@BINDINGS
def test_first_call_before_all_constructors(run: Runner, binding: dict[str, str]) -> None:
    assert run("first_call", environment=binding).stderr == ""


def test_first_call_with_statistics(run: Runner) -> None:
    assert "hakmem" in run("first_call", options="stats=exit").stderr


@native
def test_audit_module_with_a_second_copy(run: Runner) -> None:
    module = run.path("libaudit_module.so")
    run("traffic", environment={"LD_AUDIT": str(module)})
    run("first_call", environment={"LD_AUDIT": str(module)}, preload=True)


@native
def test_the_heap_is_somewhere_else_in_each_run(run: Runner) -> None:
    places = {run("place").stdout.split()[0] for _ in range(8)}
    assert len(places) == 8, places


def test_destructors_of_thread_specific_data(run: Runner) -> None:
    assert run("thread_end").stderr == ""


def test_destructors_of_thread_local_objects(run: Runner) -> None:
    assert run("thread_local").stderr == ""


@pytest.mark.parametrize("attempt", range(10))
def test_exit_while_threads_allocate(run: Runner, attempt: int) -> None:
    del attempt
    assert run("exit_handlers").stderr == ""


def test_exit_with_exact_statistics_while_threads_allocate(run: Runner) -> None:
    for _ in range(5):
        assert '"blocks_taken"' in run("exit_handlers", options="stats=exact:json").stderr


def test_main_thread_leaves_first(run: Runner) -> None:
    assert run("main_leaves").stderr == ""


@pytest.mark.parametrize("scene", ["idle", "scattered", "rested", "ended", "large", "fork", "exit"])
@pytest.mark.parametrize("options", ["", "profile=lean"], ids=["balanced", "lean"])
def test_memory_goes_back_while_nobody_calls(run: Runner, scene: str, options: str) -> None:
    if scene in ("scattered", "rested") and "hardened" in MORE_OPTIONS:
        pytest.skip("the quarantine's blocks lie everywhere, and keep their pages")
    assert run("scavenger", scene, options=options).stderr == ""


@pytest.mark.parametrize("scene", ["ids", "signals"])
def test_the_purging_thread_stands_aside(run: Runner, scene: str) -> None:
    assert run("scavenger", scene).stderr == ""


def test_no_thread_in_a_program_that_has_none(run: Runner) -> None:
    assert run("single_thread").stderr == ""


def test_thousands_of_threads_at_once(run: Runner) -> None:
    assert run("many_threads", "alive").stderr == ""


def test_thousands_of_short_threads(run: Runner) -> None:
    assert run("many_threads", "short").stderr == ""
