"""The list of mutants: each text stands once in the rooms, and its tests are there. Running them takes half an hour.

What the nightly run counts and keeps: real tests of a folder, beside rows of parts that were not run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import nightly
from benchmarks.mutants import MUTANTS, ROOT, Mutant, place_of
from benchmarks.nightly import Result, main, run_tests
from docs.figures import read


def test_every_text_stands_once_and_its_tests_are_there() -> None:
    for mutant in MUTANTS:
        assert place_of(mutant).suffix == ".py"
        assert mutant.instead != mutant.text
        assert [path for path in mutant.tests.split() if not (ROOT / path).exists()] == []
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match="nowhere"):
        place_of(Mutant("gone", "return " + "what is not there", "pass", "tests"))


TESTS = """
import os, pytest
def test_whole(): assert os.environ["TESTS"] == "whole"
def test_false(): assert False
def test_left_out(): pytest.skip("no root")
@pytest.fixture
def broken(): raise OSError
def test_without_its_fixture(broken): pass
@pytest.mark.proofs
def test_long(): pass
"""


@pytest.mark.proofs
def test_every_outcome_is_counted(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    assert run_tests("not proofs", [str(tmp_path)]) == (1, 2, 1)
    assert run_tests("proofs", [str(tmp_path)]) == (1, 0, 0)


def test_a_part_replaces_its_own_row_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter([Result(10, 1200, 0, 3), Result(7, 4, 1, 0), Result(8, 5, 0, 0)])
    monkeypatch.setattr(nightly, "DOCS", tmp_path)
    monkeypatch.setenv("RECORD_FIGURES", str(tmp_path / "figures"))
    monkeypatch.setattr(nightly, "run_part", lambda part, paths: next(results))
    (tmp_path / "figures").mkdir()
    assert main(["proofs"]) == 0
    assert main(["whole", "--only", "tests/accounting"]) == 1
    assert main(["whole", "--only", "tests/accounting"]) == 0
    rows = read(tmp_path / "figures" / "tests" / "nightly.json").rows
    assert [(row[0], *row[2:]) for row in rows] == [
        ("proofs", "10", "1,200", "0", "3"),
        ("whole of tests/accounting", "8", "5", "0", "0"),
    ]


def test_a_part_that_is_none() -> None:
    with pytest.raises(SystemExit):
        main(["everything"])
