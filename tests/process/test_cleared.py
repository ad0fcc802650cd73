"""Freed memory holds nothing of what was in it."""

from __future__ import annotations

import pytest

from conftest import Runner


@pytest.mark.parametrize(
    ("options", "byte"),
    [
        ("hardened=1,zero_on_free=1", "0"),
        ("hardened=2,zero_on_free=1", "0"),
        ("hardened=2", "0xdf"),
    ],
)
def test_freed_memory_is_filled(run: Runner, options: str, byte: str) -> None:
    run("cleared", byte, options=f"{options},guard_rate=0")  # guarded ones cannot be read at all
