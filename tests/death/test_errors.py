"""What docs/reference/errors.md promises of each error, a few runs of each cell."""

from __future__ import annotations

from collections import Counter

import pytest

from errors_table import ERRORS, FLAVOURS, Error, Flavour, cell, keeps, outcome, read_page
from test_bugs import BUILD, LIBRARY

RUNS = 4
PROGRAM = BUILD / "tests" / "death" / "errors"
HAS_DEBUG_FLAVOUR = LIBRARY != BUILD / "libhakmem.so"
PROMISES = read_page()


def test_the_page_has_every_cell() -> None:
    assert set(PROMISES) == {
        (error.text, flavour.title) for error in ERRORS for flavour in FLAVOURS
    }


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.title.strip("`"))
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.name)
def test_error_is_seen_as_promised(error: Error, flavour: Flavour) -> None:
    if flavour.options is None and not HAS_DEBUG_FLAVOUR:
        pytest.skip("this build has no debug flavour")
    library = LIBRARY if flavour.options is not None else BUILD / "libhakmem.so"
    promise = PROMISES[error.text, flavour.title]
    seen = [outcome(error, library, PROGRAM, flavour.options) for _ in range(RUNS)]
    assert all(keeps(promise, one) for one in seen), (promise, seen)


def test_a_missed_run_is_no_promise() -> None:
    assert cell(Counter({"at once": 999, "not": 1})) == "100 %"
    assert cell(Counter({"at once": 500, "later": 500})) == "either"
    assert cell(Counter({"later": 1000})) == "later"
    assert cell(Counter({"not": 1000})) == "–"
    assert not keeps("at once", "later")
    assert not keeps("either", "not")
    assert not keeps("–", "later")
    assert keeps("50 %", "not")
    assert keeps("either", "later")
