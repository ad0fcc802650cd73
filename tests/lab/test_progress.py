"""Long work whose output goes to a file tells how far it is, now and then; on a terminal, a bar."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hakmem_lab.progress import LOG_SECONDS, Bar


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def work(steps: int, seconds_a_step: float, figures: str, *, is_terminal: bool) -> str:
    """What is written of so many steps of work."""
    written, clock = io.StringIO(), Clock()
    console = Console(file=written, force_terminal=is_terminal, width=200)
    with Bar(console, get_time=clock, auto_refresh=False) as progress:
        bar = progress.add_task("[bold]a[/bold]", total=steps, figures=figures)
        for step in range(steps):
            clock.now += seconds_a_step
            progress.update(bar, description=f"run {step}")
            progress.advance(bar)
    return written.getvalue()


def test_a_log_has_a_line_now_and_then() -> None:
    lines = work(40, LOG_SECONDS / 4, "", is_terminal=False).strip().splitlines()
    assert len(lines) == 10
    # The time comes with the fourth step, of which nothing is done yet.
    assert lines[0] == "8 % after 30 s: run 3"
    assert lines[9].endswith(f"after {10 * LOG_SECONDS:.0f} s: run 39")


def test_a_log_has_the_figures_too() -> None:
    assert "run 0; 12 [MiB]" in work(4, LOG_SECONDS, "12 [MiB]", is_terminal=False)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_short_work_and_terminals_have_no_lines(is_terminal: bool) -> None:
    steps = 10 if is_terminal else 1
    assert "after" not in work(steps, LOG_SECONDS - 1, "", is_terminal=is_terminal)
