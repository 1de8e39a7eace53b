"""The list of mutants: each text stands once in the rooms, and its tests are there. Running them takes half an hour."""

from __future__ import annotations

import pytest

from benchmarks.mutants import MUTANTS, ROOT, Mutant, place_of


def test_every_text_stands_once_and_its_tests_are_there() -> None:
    for mutant in MUTANTS:
        assert place_of(mutant).suffix == ".py"
        assert mutant.instead != mutant.text
        assert [path for path in mutant.tests.split() if not (ROOT / path).exists()] == []
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match="nowhere"):
        place_of(Mutant("gone", "return " + "what is not there", "pass", "tests"))
