"""What threads share without wanting to."""

from __future__ import annotations

from conftest import Runner


def test_two_threads_write_to_no_common_cache_line(run: Runner) -> None:
    # Where each thread's first blocks lie is chance: not every run would show what they share.
    for _ in range(3):
        assert run("cache_lines", options="shards=2").stderr == ""
