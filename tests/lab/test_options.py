"""Options as people type them."""

import shlex

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.measure import words_of
from hakmem_lab.options import allocator_options, variables_of


def test_nothing_asked_is_nothing_set() -> None:
    assert allocator_options(None, []) == ""


def test_profile_and_settings_in_order() -> None:
    assert allocator_options("lean", ["decay_ms=5", "stats=exit"]) == (
        "profile=lean,decay_ms=5,stats=exit"
    )


def test_a_comma_in_a_value_is_escaped() -> None:
    assert allocator_options(None, ["stats_file=/tmp/a,b"]) == "stats_file=/tmp/a\\,b"


@pytest.mark.parametrize("setting", ["decay_ms", "=5", ""])
def test_a_setting_without_name_or_value_is_refused(setting: str) -> None:
    with pytest.raises(LabError, match="name=value"):
        allocator_options(None, [setting])


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(LabError, match="speed, balanced, lean"):
        allocator_options("fast", [])


def test_variables_are_set_or_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "yes")
    assert variables_of(["A=1=2", "FROM_HERE"]) == {"A": "1=2", "FROM_HERE": "yes"}


@pytest.mark.parametrize("item", ["NO_SUCH_VARIABLE_AT_ALL", "LD_PRELOAD=/x.so"])
def test_variables_that_cannot_be_had_are_refused(item: str) -> None:
    with pytest.raises(LabError):
        variables_of([item])


def test_a_command_reads_as_it_would_be_typed() -> None:
    assert words_of(["python3", "-c", "print(1 + 1)"]) == "python3 -c 'print(1 + 1)'"
    assert words_of(["echo", "it's", "", "$HOME", "*"]) == """echo "it's" '' '$HOME' '*'"""
    for word in ("it's $5", "both \" and '", "a \\ b'", "`'", "two\nlines'"):
        assert shlex.split(words_of(["echo", word])) == ["echo", word]
