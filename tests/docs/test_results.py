"""What pages show of docs/results.json is what stands there, and everything there is shown."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from benchmarks import held_out, results

PAGE = "AUC <!-- result one student -->.7<!-- end -->\n\n<!-- results one -->\n| row | B |\nold\n<!-- end -->\n"
ONE: results.Results = {"one": {"values": {"student": ".8", "x / A": "1", "x / B": "2"}}}


def test_marks_are_filled() -> None:
    shown = {"one": {"values": {"x / A": "1", "x / B": "2"}}}
    table = "<!-- results one -->\n| row | B |\n|---|---|\n| x | 2 |\n<!-- end -->\n"
    assert results.filled(PAGE.partition("\n\n")[2], shown) == table
    assert results.filled(PAGE.partition("\n\n")[0], ONE) == "AUC <!-- result one student -->.8<!-- end -->"
    study = {"study-one": {"values": {"made": "`consilium study one`: 2 cells.", "1": "No more.", "2": "No less."}}}
    assert results.filled("<!-- study study-one -->\n<!-- end -->\n", study) == (
        "<!-- study study-one -->\n`consilium study one`: 2 cells.\n\n1. No more.\n2. No less.\n<!-- end -->\n"
    )
    with pytest.raises(KeyError):
        results.filled(PAGE, {})


@pytest.mark.parametrize("page", results.pages(), ids=lambda page: page.name)
def test_each_mark_equals_the_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    same = results.filled(text, results.read()) == text
    assert same, "run make results"


def test_no_result_is_kept_that_no_page_shows() -> None:
    shown = set().union(*(results.ids(page.read_text(encoding="utf-8")) for page in results.pages()))
    assert shown == set(results.read())


def test_every_result_says_where_it_is_from() -> None:
    for name, result in results.read().items():
        assert set(result) - {"seconds"} == {"values", "split", "seeds", "command", "version"}, name
        assert result["split"] and all(isinstance(value, str) for value in result["values"].values()), name


@pytest.mark.parametrize("module", [results, held_out])
def test_examples(module: object) -> None:
    outcome = doctest.testmod(module)  # pyright: ignore[reportArgumentType]
    assert outcome.attempted > 0 and outcome.failed == 0
